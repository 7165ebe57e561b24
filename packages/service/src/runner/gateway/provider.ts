import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { pipeline } from 'node:stream';
import type { ReportItem } from '@muster/sdk/contract';
import type { ProviderName, Usage } from '../../harness/harness.ts';
import type { RunnerLog } from '../log.ts';
import { bounded } from '../wire-text.ts';
import { Capacity } from './capacity.ts';
import { statusOfEvent, type Trouble, troubleOf } from './limit.ts';
import { masked } from './mask.ts';
import { Meter } from './meter.ts';
import { allInput, costOf, type Prices } from './prices.ts';
import { receivedBody } from './received-body.ts';
import { largestBodyBytes, type ScreenedBody, type UnscreenedBody } from './screen-body.ts';
import type { Screener } from './screener.ts';
import { below, onward, statusOf, type Upstream } from './upstream.ts';
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
  /** Those that the run may use. */
  readonly models: readonly string[];
  /** Of all runs: where their bodies are kept and checked. */
  readonly memory: Capacity;
  readonly screener: Screener;
  readonly receiveMs: number;
  /** The run's own: it stays on this side. */
  readonly token: string;
  readonly upstream: Upstream;
  readonly prices: Prices;
  readonly stallMs: number;
  readonly runnerName: string | undefined;
  readonly log: RunnerLog;
  readonly usage: (usage: Usage) => void;
  readonly item: (item: ReportItem) => void;
  readonly action: (currentAction: string) => void;
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
  /** Headers that go on, besides what HTTP itself needs. Organizations, projects and the rest stay here. */
  readonly headers: RegExp;
  /** Of a header that lists features, those that go on. */
  readonly features: { readonly header: string; readonly known: RegExp };
  readonly queries: readonly string[];
  readonly reader: () => WireReader;
  readonly credentials: (apiKey: string) => OutgoingHttpHeaders;
  readonly errorBody: (status: number, message: string) => unknown;
}

/** What Claude Code asks for, without the dates: none lets the provider fetch, store or run anything. */
const knownBetas =
  /^(?:claude-code|interleaved-thinking|context-management|context-1m|effort|fast-mode|per-turn-control|thinking-(?:token-count|display-updates|resumption|binding-controls)|redact-thinking|mid-conversation-(?:system|tool-changes|system-clear-at)|advanced-tool-use|tool-search-tool|inline-tools|structured-outputs|extended-cache-ttl|prompt-caching-(?:scope|evict)|token-counting|task-budgets|fine-grained-tool-streaming)-\d[\d-]*$/;

const wires: Readonly<Record<ProviderName, Wire>> = {
  anthropic: {
    calls: /^(?:POST \/v1\/messages(?:\/count_tokens)?|GET \/v1\/models(?:\/[\w:-][\w.:-]*)?)$/,
    modelCalls: /^POST \/v1\/messages$/,
    headers:
      /^(?:accept|user-agent|x-app|x-stainless-[a-z-]+|x-claude-code-session-id|anthropic-(?:version|beta|dangerous-direct-browser-access))$/,
    features: { header: 'anthropic-beta', known: knownBetas },
    queries: ['beta', 'limit', 'after_id', 'before_id'],
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
    headers:
      /^(?:accept|user-agent|originator|session-id|thread-id|x-client-request-id|x-codex-(?:beta-features|installation-id|parent-thread-id|turn-metadata|turn-state|window-id)|x-openai-(?:subagent|internal-codex-responses-lite)|openai-beta)$/,
    features: { header: 'openai-beta', known: /^responses=/ },
    queries: ['client_version'],
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
  400: 'invalid_request_error',
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  408: 'timeout_error',
  413: 'request_too_large',
  415: 'invalid_request_error',
  429: 'rate_limit_error',
};

/** An answer without the request's success, in the words that the provider's own clients understand. */
export function refuse(
  name: ProviderName,
  response: ServerResponse,
  status: number,
  message: string,
  headers: OutgoingHttpHeaders = {},
): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const body = JSON.stringify(wires[name].errorBody(status, message));
  response.writeHead(status, { ...headers, 'content-type': 'application/json' }).end(body);
}

const largestErrorBytes = 1024 * 1024;
/** Bytes of requests that one run may have in the runner's memory: one of the largest, and some small ones. */
const mostRunBytes = largestBodyBytes + 16 * 1024 * 1024;
/** A harness has one call under way, or a few. */
const mostCalls = 32;
/** An agent can name any number of models; its timeline needs not hold them all. */
const mostWarnings = 20;

interface Call {
  readonly path: string;
  readonly query: string;
  readonly isOfModel: boolean;
}

/** A request that may leave the gateway. */
interface Outgoing {
  readonly bytes: Uint8Array;
  /** What the answer is metered by, where it does not say so itself. */
  readonly model: string;
  readonly serviceTier: string | undefined;
}

const noBody: Outgoing = { bytes: new Uint8Array(), model: '', serviceTier: undefined };

/** One run's way to one provider: its requests go on with the real key, and what comes back is metered in passing. */
export class ProviderDoor {
  readonly #options: ProviderDoorOptions;
  readonly #wire: Wire;
  readonly #underWay = new Set<() => void>();
  readonly #unpriced = new Set<string>();
  readonly #refusedModels = new Set<string>();
  readonly #memory = new Capacity(mostRunBytes);
  readonly #turn = new Capacity(1);
  #calls = 0;
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
    const { name, provider, log } = this.#options;
    const call = `${request.method} ${path}`;
    if (!provider)
      return refuse(name, response, 404, `This runner has no key of ${name}: the run can't use its models`);
    if (!this.#wire.calls.test(call))
      return refuse(name, response, 404, `The gateway does not pass ${call} on to ${name}`);
    if (this.#refusal) return refuse(name, response, this.#refusal.status, this.#refusal.message);
    if (this.#calls >= mostCalls)
      return refuse(
        name,
        response,
        429,
        `This run has ${mostCalls} calls to ${name} under way; the next one has to wait`,
        { 'retry-after': '1' },
      );
    this.#calls += 1;
    response.once('close', () => {
      this.#calls -= 1;
    });
    const forwarded = { path, query: this.#queryOf(query), isOfModel: this.#wire.modelCalls.test(call) };
    if (request.method === 'GET') {
      request.resume();
      void this.#forward(request, response, provider, forwarded, noBody);
      return;
    }
    this.#admit(request, response, provider, forwarded).catch((error: unknown) => {
      log.error({ provider: name, err: error }, 'provider request failed');
      response.destroy();
    });
  }

  /** The whole request is looked at before any of it goes on. */
  async #admit(
    request: IncomingMessage,
    response: ServerResponse,
    provider: Provider,
    call: Call,
  ): Promise<void> {
    const { name, memory, receiveMs } = this.#options;
    const received = await receivedBody(request, response, {
      memories: [this.#memory, memory],
      mostBytes: largestBodyBytes,
      withinMs: receiveMs,
    });
    if (!received) return;
    if (received.type === 'refused') {
      const headers = received.status === 408 ? { connection: 'close' } : {};
      return refuse(name, response, received.status, received.message, headers);
    }
    const { bytes, release } = received;
    try {
      const screened = await this.#screened({ provider: name, path: call.path, bytes }, response);
      if (!screened || response.destroyed) return;
      if (screened.type === 'refused') return refuse(name, response, screened.status, screened.message);
      const refused = screened.models.find((model) => !this.#options.models.includes(model));
      if (refused !== undefined) return refuse(name, response, 403, this.#refuseModel(refused));
      const [model = ''] = screened.models;
      await this.#forward(request, response, provider, call, { ...screened, model });
    } finally {
      release();
    }
  }

  /** The screener serves all runs: each has one body there at a time. */
  async #screened(body: UnscreenedBody, response: ServerResponse): Promise<ScreenedBody | undefined> {
    const yieldTurn = await this.#turn.take(1, response);
    return yieldTurn && this.#options.screener.screen(body, response).finally(yieldTurn);
  }

  #refuseModel(model: string): string {
    const shown = bounded(model, 100);
    const text = `The gateway refused a request for the model ${JSON.stringify(shown)}: this run may use ${this.#options.models.join(', ')}.`;
    if (!this.#refusedModels.has(shown) && this.#refusedModels.size < mostWarnings) {
      this.#refusedModels.add(shown);
      this.#options.item({ type: 'WARNING', text, data: { model: shown } });
    }
    return text;
  }

  /** Tells what is known of every answer under way, and cuts it. */
  close(): void {
    for (const cut of [...this.#underWay]) cut();
  }

  /** Resolves when all of the request is on its way, or never will be. */
  #forward(
    request: IncomingMessage,
    response: ServerResponse,
    provider: Provider,
    call: Call,
    body: Outgoing,
  ): Promise<void> {
    const { name, upstream, stallMs, log } = this.#options;
    if (call.isOfModel) this.#options.action('Waiting for the model');
    const url = below(provider.url, call.path, call.query);
    const headers = this.#headersOf(request, provider, body.bytes);
    const outgoing = upstream.request(url, request.method ?? 'POST', headers);
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
      meter = this.#meter(answer, provider, watchdog, call.isOfModel, body);
      response.writeHead(status, answerHeaders(answer));
      response.flushHeaders();
      pipeline(answer, meter, response, () => {});
    });
    outgoing.end(body.bytes);
    return new Promise((resolve) => {
      outgoing.once('finish', resolve).once('close', resolve);
    });
  }

  #headersOf(request: IncomingMessage, provider: Provider, body: Uint8Array): OutgoingHttpHeaders {
    const { token } = this.#options;
    const isDropped = (name: string, value: string): boolean =>
      !this.#wire.headers.test(name) || value.includes(token);
    const { [this.#wire.features.header]: asked = '', ...headers } = onward(request, isDropped);
    const { header, known } = this.#wire.features;
    const features = String(asked)
      .split(/\s*,\s*/)
      .filter((feature) => known.test(feature));
    return {
      ...headers,
      ...(features.length > 0 && { [header]: features.join(',') }),
      ...(request.method === 'POST' && { 'content-type': 'application/json', 'content-length': body.length }),
      'accept-encoding': 'identity',
      ...this.#wire.credentials(provider.apiKey),
    };
  }

  #queryOf(query: string): string {
    const kept = [...new URLSearchParams(query)].filter(([name]) => this.#wire.queries.includes(name));
    return new URLSearchParams(kept).toString();
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

  #meter(
    answer: IncomingMessage,
    provider: Provider,
    watchdog: Watchdog,
    isOfModel: boolean,
    { model, serviceTier }: Outgoing,
  ): Meter {
    return new Meter({
      reader: this.#wire.reader(),
      isEventStream: /^text\/event-stream/i.test(answer.headers['content-type'] ?? ''),
      onByte: () => watchdog.seen(),
      onReading: (reading) =>
        this.#tellUsage({ ...reading, model: reading.model || model, tier: reading.tier ?? serviceTier }),
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
