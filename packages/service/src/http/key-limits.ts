import { limits } from '@muster/sdk/contract';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Principal } from '../control/access/principal.ts';
import type { Metrics } from '../lib/metrics.ts';
import type { OtherWorkers } from '../lib/worker-channel.ts';
import { HttpError } from './errors.ts';

/** Workers tell each other at most this often what their keys use. */
const tellMs = 50;

/** Collects the newest value of each key, for a message to the other workers. */
class Outbox<V> {
  readonly #send: (values: ReadonlyMap<string, V>) => void;
  #values = new Map<string, V>();

  constructor(send: (values: ReadonlyMap<string, V>) => void) {
    this.#send = send;
  }

  get(keyId: string): V | undefined {
    return this.#values.get(keyId);
  }

  set(keyId: string, value: V): void {
    if (this.#values.size === 0) setTimeout(() => this.#flush(), tellMs).unref();
    this.#values.set(keyId, value);
  }

  #flush(): void {
    const values = this.#values;
    this.#values = new Map();
    this.#send(values);
  }
}

/**
 * The requests per second of each key: a token bucket per key. A rate of 0 disables the limit. Each worker has the whole
 * bucket, and takes from it what the others have let through.
 */
export class RateLimit {
  readonly #perSecond: number;
  readonly #buckets = new Map<string, { tokens: number; atMs: number }>();
  readonly #passed: Outbox<number> | null;

  constructor(perSecond: number, workers: OtherWorkers | null = null) {
    this.#perSecond = perSecond;
    this.#passed = workers && new Outbox((counts) => workers.tell('requestsPassed', [...counts]));
    workers?.on('requestsPassed', (counts) => {
      for (const [keyId, count] of counts) this.#spend(keyId, count);
    });
  }

  /** Takes a token. Returns 0, or the seconds until there is one. */
  take(keyId: string, nowMs: number = performance.now()): number {
    if (this.#perSecond <= 0) return 0;
    const tokens = this.#tokens(keyId, nowMs);
    if (tokens < 1) return (1 - tokens) / this.#perSecond;
    this.#spend(keyId, 1, nowMs);
    this.#passed?.set(keyId, (this.#passed.get(keyId) ?? 0) + 1);
    return 0;
  }

  #tokens(keyId: string, nowMs: number): number {
    const full = Math.max(1, this.#perSecond);
    const { tokens, atMs } = this.#buckets.get(keyId) ?? { tokens: full, atMs: nowMs };
    return Math.min(full, tokens + ((nowMs - atMs) / 1000) * this.#perSecond);
  }

  #spend(keyId: string, count: number, nowMs: number = performance.now()): void {
    const tokens = this.#tokens(keyId, nowMs) - count;
    if (this.#buckets.size > 10_000) this.#buckets.clear();
    this.#buckets.set(keyId, { tokens, atMs: nowMs });
  }
}

interface OpenOfKey {
  replies: number;
  agents: number;
}

/** The open waits, streams and polls of each key, at this worker and the others. A shutdown ends those of this worker. */
export class OpenReplies {
  readonly #metrics: Metrics;
  readonly #closing: AbortSignal;
  readonly #byKey = new Map<string, OpenOfKey>();
  readonly #ofOthers = new Map<number, Map<string, OpenOfKey>>();
  readonly #changed: Outbox<OpenOfKey> | null;
  /** Not listeners of the signal: removing one takes longer the more there are. */
  readonly #onClosing = new Set<() => void>();

  constructor(metrics: Metrics, closing: AbortSignal, workers: OtherWorkers | null = null) {
    this.#metrics = metrics;
    this.#closing = closing;
    closing.addEventListener('abort', () => {
      for (const listener of this.#onClosing) listener();
    });
    this.#changed =
      workers &&
      new Outbox((open) =>
        workers.tell(
          'repliesOpen',
          Array.from(open, ([keyId, { replies, agents }]) => [keyId, replies, agents]),
        ),
      );
    workers?.on('repliesOpen', (open, from) => this.#openElsewhere(from, open));
    workers?.on('left', (_, from) => this.#ofOthers.delete(from));
    // A new worker knows of none yet.
    workers?.on('joined', () => {
      for (const [keyId, open] of this.#byKey) this.#changed?.set(keyId, open);
    });
  }

  /** Calls back when the service shuts down, or immediately if it does already. Returns how to unsubscribe. */
  whenClosing(listener: () => void): () => void {
    if (this.#closing.aborted) listener();
    this.#onClosing.add(listener);
    return () => this.#onClosing.delete(listener);
  }

  /** Counts a reply as open, with the agents it watches, until the returned function is called. */
  open({ keyId }: Principal, kind: 'wait' | 'stream' | 'poll', agents = 1): () => void {
    const own = this.#byKey.get(keyId) ?? { replies: 0, agents: 0 };
    const open = this.#total(keyId, own);
    if (open.replies >= limits.openRepliesPerKey)
      throw exhausted(`this key has ${open.replies} open waits and streams, the most that are allowed`);
    if (open.agents + agents > limits.watchedAgentsPerKey)
      throw exhausted(
        `the open waits and streams of this key watch ${open.agents} agents; ${agents} more exceed ${limits.watchedAgentsPerKey}`,
      );
    const add = (replies: number, watched: number) => {
      own.replies += replies;
      own.agents += watched;
      if (own.replies === 0) this.#byKey.delete(keyId);
      else this.#byKey.set(keyId, own);
      this.#changed?.set(keyId, own);
    };
    add(1, agents);
    this.#metrics.change('muster_long_replies_open', { kind }, 1);
    return () => {
      this.#metrics.change('muster_long_replies_open', { kind }, -1);
      add(-1, -agents);
    };
  }

  #total(keyId: string, own: OpenOfKey): OpenOfKey {
    const total = { ...own };
    for (const ofKeys of this.#ofOthers.values()) {
      total.replies += ofKeys.get(keyId)?.replies ?? 0;
      total.agents += ofKeys.get(keyId)?.agents ?? 0;
    }
    return total;
  }

  #openElsewhere(worker: number, open: readonly (readonly [string, number, number])[]): void {
    const ofKeys = this.#ofOthers.get(worker) ?? new Map<string, OpenOfKey>();
    this.#ofOthers.set(worker, ofKeys);
    for (const [keyId, replies, agents] of open)
      if (replies === 0) ofKeys.delete(keyId);
      else ofKeys.set(keyId, { replies, agents });
  }
}

const largeBodyBytes = 64 * 1024;

/** The large bodies of each account: a body is in memory from its first byte until its reply is sent. */
export class OpenBodies {
  readonly #byAccount = new Map<string, number>();

  /** Counts the body of a request until its reply is sent or its connection is closed. */
  open(request: FastifyRequest, { raw: response }: FastifyReply): void {
    const { caller, headers, routeOptions } = request;
    const most = routeOptions.bodyLimit ?? limits.bodyBytes;
    const isChunked = headers['transfer-encoding'] !== undefined;
    // What declares more is refused before it is read.
    const bytes = isChunked ? most : Math.min(most, Number(headers['content-length'] ?? 0));
    if (bytes <= largeBodyBytes) return;
    const account = `${caller.tenant.id} ${caller.ownerProvider} ${caller.account}`;
    const open = this.#byAccount.get(account) ?? 0;
    if (open + bytes > limits.openBodyBytesPerAccount)
      throw new HttpError(
        'UNAVAILABLE',
        `this account sends ${open} bytes in other requests; send it again`,
        [],
        {
          connection: 'close',
          'retry-after': '1',
        },
      );
    this.#byAccount.set(account, open + bytes);
    response.once('close', () => {
      const left = (this.#byAccount.get(account) ?? 0) - bytes;
      if (left > 0) this.#byAccount.set(account, left);
      else this.#byAccount.delete(account);
    });
  }
}

const exhausted = (message: string): HttpError => new HttpError('RESOURCE_EXHAUSTED', message);
