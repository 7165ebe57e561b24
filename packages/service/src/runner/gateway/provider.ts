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
import { refuse, type Wire, wires } from './provider-calls.ts';
import type { Reading } from './provider-protocols.ts';
import { receivedBody } from './received-body.ts';
import { largestBodyBytes, type ScreenedBody, type UnscreenedBody } from './screen-body.ts';
import type { Screener } from './screener.ts';
import { below, onward, statusOf, type Upstream } from './upstream.ts';
import { Watchdog } from './watchdog.ts';

export interface Provider {
  readonly url: string;
  readonly apiKey: string;
}

export interface ProviderEndpointOptions {
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
  /** How long the limits of one request may be waited out here. */
  readonly limitWaitMs: number;
  readonly runnerName: string | undefined;
  readonly log: RunnerLog;
  readonly usage: (usage: Usage) => void;
  readonly item: (item: ReportItem) => void;
  readonly action: (currentAction: string) => void;
  readonly trouble: (trouble: Trouble) => void;
}

const largestErrorBytes = 1024 * 1024;
/** Bytes of requests that one run may have in the runner's memory: one of the largest, and some small ones. */
const mostRunBytes = largestBodyBytes + 16 * 1024 * 1024;
/** A harness has one call under way, or a few. */
const mostCalls = 32;
/** An agent can name any number of models; its timeline needs not hold them all. */
const mostWarnings = 20;

/** Claude Code would try again for minutes; Codex does not. */
const finalAnswer = { 'x-should-retry': 'false' } as const;

type ShortLimit = Extract<Trouble, { readonly type: 'limit' }>;

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

/** Ends early when the response is closed. */
function pauseUntil(ms: number, response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const finish = (): void => {
      clearTimeout(timer);
      response.off('close', finish);
      resolve();
    };
    const timer = setTimeout(finish, ms);
    response.on('close', finish);
    if (response.destroyed) finish();
  });
}

const noBody: Outgoing = { bytes: new Uint8Array(), model: '', serviceTier: undefined };

/** One run's way to one provider: its requests go on with the real key, and what comes back is metered in passing. */
export class ProviderEndpoint {
  readonly #options: ProviderEndpointOptions;
  readonly #wire: Wire;
  readonly #underWay = new Set<() => void>();
  readonly #unpriced = new Set<string>();
  readonly #refusedModels = new Set<string>();
  readonly #memory = new Capacity(mostRunBytes);
  readonly #turn = new Capacity(1);
  #calls = 0;
  #waits = 0;
  #outage: string | undefined;
  /** How the provider has ended the run: whatever the harness asks until it is cut is answered likewise. */
  #refusal: { readonly status: number; readonly message: string } | undefined;

  constructor(options: ProviderEndpointOptions) {
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
    if (this.#refusal)
      return refuse(name, response, this.#refusal.status, this.#refusal.message, finalAnswer);
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

  /**
   * A limit that ends soon is waited out here, and the harness does not notice. Resolves when the request is needed no
   * more.
   */
  async #forward(
    request: IncomingMessage,
    response: ServerResponse,
    provider: Provider,
    call: Call,
    body: Outgoing,
  ): Promise<void> {
    const { name, limitWaitMs, action } = this.#options;
    for (let leftMs = call.isOfModel ? limitWaitMs : 0; !response.destroyed; ) {
      if (this.#refusal)
        return refuse(name, response, this.#refusal.status, this.#refusal.message, finalAnswer);
      if (call.isOfModel) action('Waiting for the model');
      const limit = await this.#attempt(request, response, provider, call, body, leftMs);
      if (!limit) return;
      leftMs -= limit.waitMs;
      await this.#waitOut(limit, response);
    }
  }

  async #waitOut({ waitMs, message }: ShortLimit, response: ServerResponse): Promise<void> {
    const { name, action, item } = this.#options;
    const seconds = Math.ceil(waitMs / 1_000);
    action(`Rate limited by ${name}: retrying in ${seconds} s`);
    this.#waits += 1;
    if (this.#waits <= mostWarnings)
      item({ type: 'WARNING', text: `${message}. The gateway retries in ${seconds} s.` });
    const cut = (): void => void response.destroy();
    this.#underWay.add(cut);
    await pauseUntil(waitMs, response);
    this.#underWay.delete(cut);
  }

  /** Resolves when the request is needed no more; with the limit, if it is to be sent again within `leftMs`. */
  #attempt(
    request: IncomingMessage,
    response: ServerResponse,
    provider: Provider,
    call: Call,
    body: Outgoing,
    leftMs: number,
  ): Promise<ShortLimit | undefined> {
    const { name, upstream, stallMs, log } = this.#options;
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
    const release = (): void => {
      watchdog.stop();
      this.#underWay.delete(cut);
      response.off('close', onClose);
    };
    const onClose = (): void => {
      release();
      if (!response.writableFinished) cut();
    };
    this.#underWay.add(cut);
    response.on('close', onClose);
    outgoing.on('error', (error: NodeJS.ErrnoException) => {
      if (response.destroyed) return;
      const why = masked(error.code ?? error.message, provider.apiKey);
      log.warn({ provider: name, host: url.host, why }, 'a provider could not be reached');
      this.#outage = `${name} could not be reached.`;
      refuse(name, response, 502, `The runner can't reach ${name} at ${url.host}: ${why}`);
    });
    return new Promise((resolve) => {
      outgoing.once('response', (answer) => {
        watchdog.seen();
        const status = statusOf(answer);
        if (call.isOfModel) this.#outage = status >= 500 ? `${name} answered ${status}.` : undefined;
        if (status >= 400) {
          const failing = this.#fail(answer, response, provider, call.isOfModel, leftMs);
          failing.then((limit) => limit && release(), cut);
          return resolve(failing.catch(() => undefined));
        }
        resolve(undefined);
        meter = this.#meter(answer, provider, watchdog, call.isOfModel, body);
        response.writeHead(status, answerHeaders(answer));
        response.flushHeaders();
        pipeline(answer, meter, response, () => {});
      });
      outgoing.once('close', () => resolve(undefined));
      // Nothing of it is needed again once it is on its way, unless a limit may be waited out.
      if (leftMs <= 0) outgoing.once('finish', () => resolve(undefined));
      outgoing.end(body.bytes);
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

  /**
   * An error is small: it is held back until it is whole, and goes on without whatever it says of the key. A limit that
   * ends within `leftMs` does not go on.
   */
  async #fail(
    answer: IncomingMessage,
    response: ServerResponse,
    provider: Provider,
    isOfModel: boolean,
    leftMs: number,
  ): Promise<ShortLimit | undefined> {
    const parts: Buffer[] = [];
    let bytes = 0;
    for await (const part of answer as AsyncIterable<Buffer>) {
      bytes += part.length;
      if (bytes > largestErrorBytes) break;
      parts.push(part);
    }
    const body = masked(Buffer.concat(parts).toString(), provider.apiKey);
    const status = statusOf(answer);
    const trouble = isOfModel ? this.#troubleOf(answer, status, body) : undefined;
    if (trouble?.type === 'limit' && trouble.waitMs <= leftMs) return trouble;
    if (trouble) this.#tellTrouble(trouble, status);
    const { 'content-length': _length, ...headers } = answerHeaders(answer);
    response.writeHead(status, { ...headers, ...(trouble && finalAnswer) }).end(body);
    return undefined;
  }

  #troubleOf({ headers }: IncomingMessage, status: number, body: string): Trouble | undefined {
    const { name, runnerName } = this.#options;
    return troubleOf({ provider: name, status, headers, body, runnerName }, new Date());
  }

  #tellTrouble(found: Trouble, status: number): void {
    const { name, trouble, log } = this.#options;
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
        if (!status) return;
        const trouble = this.#troubleOf(answer, status, masked(errorOf(event), provider.apiKey));
        if (trouble) this.#tellTrouble(trouble, status);
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
