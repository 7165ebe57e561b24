import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { pipeline } from 'node:stream';
import type { ReportItem } from '@muster/sdk/contract';
import type { Usage } from '../../harness/harness.ts';
import type { RunnerLog } from '../log.ts';
import { hostedIn } from './hosted-tools.ts';
import { statusOfEvent, type Trouble, troubleOf } from './limit.ts';
import { masked } from './mask.ts';
import { Meter } from './meter.ts';
import { allInput, costOf, type Prices } from './prices.ts';
import { below, onward, type ProviderName, statusOf, type Upstream } from './upstream.ts';
import { Watchdog } from './watchdog.ts';
import { AnthropicReader, OpenaiReader, type Reading, type WireReader } from './wires.ts';

export interface Provider {
  readonly url: string;
  readonly apiKey: string;
}

export interface ProviderDoorOptions {
  readonly name: ProviderName;
  /** Undefined when the runner has no key of it. */
  readonly provider: Provider | undefined;
  /** The run's own: it stays on this side. */
  readonly token: string;
  readonly upstream: Upstream;
  readonly prices: Prices;
  readonly stallMs: number;
  readonly runnerName: string | undefined;
  readonly log: RunnerLog;
  readonly usage: (usage: Usage) => void;
  readonly item: (item: ReportItem) => void;
  readonly trouble: (trouble: Trouble) => void;
}

/** How a provider is spoken to. */
interface Wire {
  /**
   * What a harness needs, and no more: the key can do much else, read what other agents stored with the provider or
   * spend unmetered in batches.
   */
  readonly calls: RegExp;
  /** Of those, the ones by which a model works: only their failures stop a run. */
  readonly modelCalls: RegExp;
  readonly reader: () => WireReader;
  readonly credentials: (apiKey: string) => OutgoingHttpHeaders;
  readonly errorBody: (status: number, message: string) => unknown;
}

const wires: Readonly<Record<ProviderName, Wire>> = {
  anthropic: {
    calls: /^(?:POST \/v1\/messages(?:\/count_tokens)?|GET \/v1\/models(?:\/[\w:-][\w.:-]*)?)$/,
    modelCalls: /^POST \/v1\/messages$/,
    reader: () => new AnthropicReader(),
    credentials: (apiKey) => ({ 'x-api-key': apiKey }),
    errorBody: (status, message) => ({
      type: 'error',
      error: { type: anthropicTypes[status] ?? 'api_error', message },
    }),
  },
  openai: {
    calls: /^(?:POST \/responses(?:\/compact)?|GET \/models(?:\/[\w:-][\w.:-]*)?)$/,
    modelCalls: /^POST \/responses(?:\/compact)?$/,
    reader: () => new OpenaiReader(),
    credentials: (apiKey) => ({ authorization: `Bearer ${apiKey}` }),
    errorBody: (status, message) => ({
      error: {
        message,
        type: status < 500 ? 'invalid_request_error' : 'server_error',
        param: null,
        code: null,
      },
    }),
  },
};

const anthropicTypes: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  404: 'not_found_error',
};

/** An answer without the request's success, in the words that the provider's own clients understand. */
export function refuse(name: ProviderName, response: ServerResponse, status: number, message: string): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const body = JSON.stringify(wires[name].errorBody(status, message));
  response.writeHead(status, { 'content-type': 'application/json' }).end(body);
}

const credentialHeaders = ['authorization', 'x-api-key', 'cookie', 'accept-encoding'];
const largestErrorBytes = 1024 * 1024;
/** More than any model reads in. */
const largestBodyBytes = 64 * 1024 * 1024;

interface Call {
  readonly path: string;
  readonly query: string;
  readonly isOfModel: boolean;
}

/** One run's way to one provider: its requests go on with the real key, and what comes back is metered in passing. */
export class ProviderDoor {
  readonly #options: ProviderDoorOptions;
  readonly #wire: Wire;
  readonly #underWay = new Set<() => void>();
  readonly #unpriced = new Set<string>();
  #outage: string | undefined;
  /** How the provider has ended the run: whatever the harness asks until it is cut is answered likewise. */
  #refusal: { readonly status: number; readonly message: string } | undefined;

  constructor(options: ProviderDoorOptions) {
    this.#options = options;
    this.#wire = wires[options.name];
  }

  /** Why the last answer of the provider failed on its side; undefined when it did not. */
  get outage(): string | undefined {
    return this.#outage;
  }

  /** `path` as the provider has it, below the address of its API. */
  handle(request: IncomingMessage, response: ServerResponse, path: string, query: string): void {
    const { name, provider } = this.#options;
    const call = `${request.method} ${path}`;
    if (!provider) {
      refuse(name, response, 404, `This runner has no key of ${name}: the run can't use its models`);
    } else if (!this.#wire.calls.test(call)) {
      refuse(name, response, 404, `The gateway does not pass ${call} on to ${name}`);
    } else if (this.#refusal) {
      refuse(name, response, this.#refusal.status, this.#refusal.message);
    } else {
      const isOfModel = this.#wire.modelCalls.test(call);
      this.#screen(request, response, provider, { path, query, isOfModel }).catch(() => response.destroy());
    }
  }

  /** The whole request is looked at before any of it goes on. */
  async #screen(
    request: IncomingMessage,
    response: ServerResponse,
    provider: Provider,
    call: Call,
  ): Promise<void> {
    const { name } = this.#options;
    const body = await bodyOf(request);
    if (body === undefined)
      return refuse(name, response, 413, 'The request is larger than the gateway passes on');
    const hosted = request.method === 'POST' ? hostedIn(name, parsed(body)) : undefined;
    if (hosted !== undefined)
      return refuse(
        name,
        response,
        403,
        `The gateway does not pass ${hosted} on: an agent has the tools of its harness`,
      );
    this.#forward(request, response, provider, call, body);
  }

  /** Tells what is known of every answer under way, and cuts it. */
  close(): void {
    for (const cut of [...this.#underWay]) cut();
  }

  #forward(
    request: IncomingMessage,
    response: ServerResponse,
    provider: Provider,
    call: Call,
    body: Buffer,
  ): void {
    const { name, upstream, stallMs, log } = this.#options;
    const url = below(provider.url, call.path, call.query);
    const outgoing = upstream.request(
      url,
      request.method ?? 'POST',
      this.#headersOf(request, provider, body),
    );
    let meter: Meter | undefined;
    const cut = (): void => {
      meter?.settle();
      outgoing.destroy();
      response.destroy();
    };
    const watchdog = new Watchdog(
      stallMs,
      () => response.writableNeedDrain,
      () => {
        const text = `${name} sent nothing for ${stallMs / 1_000} s: the request was cut, and may be tried again.`;
        this.#options.item({ type: 'WARNING', text });
        this.#outage = `${name} stalled.`;
        cut();
      },
    );
    this.#underWay.add(cut);
    response.once('close', () => {
      watchdog.stop();
      this.#underWay.delete(cut);
      if (!response.writableFinished) cut();
    });
    outgoing.on('error', (error: NodeJS.ErrnoException) => {
      if (response.destroyed) return;
      const why = masked(error.code ?? error.message, provider.apiKey);
      log.warn({ provider: name, host: url.host, why }, 'a provider could not be reached');
      this.#outage = `${name} could not be reached.`;
      refuse(name, response, 502, `The runner can't reach ${name} at ${url.host}: ${why}`);
    });
    outgoing.once('response', (answer) => {
      watchdog.seen();
      const status = statusOf(answer);
      if (call.isOfModel) this.#outage = status >= 500 ? `${name} answered ${status}.` : undefined;
      if (status >= 400) {
        this.#fail(answer, response, provider, call.isOfModel).catch(cut);
        return;
      }
      meter = this.#meter(answer, provider, watchdog, call.isOfModel);
      response.writeHead(status, answerHeaders(answer));
      response.flushHeaders();
      pipeline(answer, meter, response, () => {});
    });
    outgoing.end(body);
  }

  #headersOf(request: IncomingMessage, provider: Provider, body: Buffer): OutgoingHttpHeaders {
    const { token } = this.#options;
    const isDropped = (name: string, value: string): boolean =>
      credentialHeaders.includes(name) || value.includes(token);
    return {
      ...onward(request, isDropped),
      'content-length': body.length,
      'accept-encoding': 'identity',
      ...this.#wire.credentials(provider.apiKey),
    };
  }

  /** An error is small: it is held back until it is whole, and goes on without whatever it says of the key. */
  async #fail(
    answer: IncomingMessage,
    response: ServerResponse,
    provider: Provider,
    isOfModel: boolean,
  ): Promise<void> {
    const parts: Buffer[] = [];
    let bytes = 0;
    for await (const part of answer as AsyncIterable<Buffer>) {
      bytes += part.length;
      if (bytes > largestErrorBytes) break;
      parts.push(part);
    }
    const body = masked(Buffer.concat(parts).toString(), provider.apiKey);
    const status = statusOf(answer);
    if (isOfModel) this.#tellTrouble(answer, status, body);
    const { 'content-length': _length, ...headers } = answerHeaders(answer);
    response.writeHead(status, headers).end(body);
  }

  #tellTrouble(answer: IncomingMessage, status: number, body: string): void {
    const { name, runnerName, trouble, log } = this.#options;
    const { headers } = answer;
    const found = troubleOf({ provider: name, status, headers, body, runnerName }, new Date());
    if (!found) return;
    log.warn({ provider: name, status, trouble: found.type }, 'a provider refused a request');
    this.#refusal = { status, message: found.message };
    trouble(found);
  }

  #meter(answer: IncomingMessage, provider: Provider, watchdog: Watchdog, isOfModel: boolean): Meter {
    return new Meter({
      reader: this.#wire.reader(),
      isEventStream: /^text\/event-stream/i.test(answer.headers['content-type'] ?? ''),
      onByte: () => watchdog.seen(),
      onReading: (reading) => this.#tellUsage(reading),
      onFailure: (event) => {
        const status = isOfModel ? statusOfEvent(event) : undefined;
        if (status) this.#tellTrouble(answer, status, masked(errorOf(event), provider.apiKey));
      },
    });
  }

  #tellUsage(reading: Reading): void {
    const { prices, usage } = this.#options;
    const costUsd = costOf(reading.model, reading.tokens, reading, prices);
    if (costUsd === undefined) this.#flag(reading);
    usage({
      inputTokens: allInput(reading.tokens),
      cachedInputTokens: reading.tokens.cachedInput,
      outputTokens: reading.tokens.output,
      costUsd: costUsd ?? 0,
    });
  }

  #flag({ model, fast, tier }: Reading): void {
    const asked = fast ? ' in fast mode' : tier ? ` in the tier ${tier}` : '';
    const what = `${model || '(a model that the answer does not name)'}${asked}`;
    if (this.#unpriced.has(what)) return;
    this.#unpriced.add(what);
    const text = `There is no price for ${what}: its tokens are counted, at no cost. Add it to the file that MUSTER_PRICES of the runner names.`;
    this.#options.item({ type: 'WARNING', text, data: { model, ...(tier && { tier }), fast } });
  }
}

/** What a failure inside a stream would have been as the body of an answer. */
const errorOf = (event: Readonly<Record<string, unknown>>): string => JSON.stringify(event.response ?? event);

const answerHeaders = (answer: IncomingMessage): OutgoingHttpHeaders =>
  onward(answer, (name) => name === 'set-cookie');

/** Undefined when it is too large. */
async function bodyOf(request: IncomingMessage): Promise<Buffer | undefined> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of request as AsyncIterable<Buffer>) {
    bytes += part.length;
    if (bytes > largestBodyBytes) return undefined;
    parts.push(part);
  }
  return Buffer.concat(parts);
}

/** Undefined when it is no JSON: compressed, for one. */
function parsed(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString());
  } catch {
    return undefined;
  }
}
