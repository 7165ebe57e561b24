import { limits } from '@muster/sdk/contract';
import type { Principal } from '../control/principal.ts';
import { HttpError } from './errors.ts';
import type { Metrics } from './metrics.ts';

/** The requests per second of each key: a token bucket per key. A rate of 0 disables the limit. */
export class RateLimit {
  readonly #perSecond: number;
  readonly #buckets = new Map<string, { tokens: number; atMs: number }>();

  constructor(perSecond: number) {
    this.#perSecond = perSecond;
  }

  /** Takes a token. Returns 0, or the seconds until there is one. */
  take(keyId: string, nowMs: number = performance.now()): number {
    if (this.#perSecond <= 0) return 0;
    const full = Math.max(1, this.#perSecond);
    const bucket = this.#buckets.get(keyId) ?? { tokens: full, atMs: nowMs };
    const refilled = Math.min(full, bucket.tokens + ((nowMs - bucket.atMs) / 1000) * this.#perSecond);
    const isAllowed = refilled >= 1;
    if (this.#buckets.size > 10_000) this.#buckets.clear();
    this.#buckets.set(keyId, { tokens: isAllowed ? refilled - 1 : refilled, atMs: nowMs });
    return isAllowed ? 0 : (1 - refilled) / this.#perSecond;
  }
}

/** The open waits, streams and polls of each key. A shutdown ends them all. */
export class OpenReplies {
  readonly #metrics: Metrics;
  readonly #closing: AbortSignal;
  readonly #byKey = new Map<string, { replies: number; agents: number }>();
  /** Not listeners of the signal: removing one takes longer the more there are. */
  readonly #onClosing = new Set<() => void>();

  constructor(metrics: Metrics, closing: AbortSignal) {
    this.#metrics = metrics;
    this.#closing = closing;
    closing.addEventListener('abort', () => {
      for (const listener of this.#onClosing) listener();
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
    const open = this.#byKey.get(keyId) ?? { replies: 0, agents: 0 };
    if (open.replies >= limits.openRepliesPerKey)
      throw exhausted(`this key has ${open.replies} open waits and streams, the most that are allowed`);
    if (open.agents + agents > limits.watchedAgentsPerKey)
      throw exhausted(
        `the open waits and streams of this key watch ${open.agents} agents; ${agents} more exceed ${limits.watchedAgentsPerKey}`,
      );
    open.replies += 1;
    open.agents += agents;
    this.#byKey.set(keyId, open);
    this.#metrics.longReplies.inc({ kind });
    return () => {
      this.#metrics.longReplies.dec({ kind });
      open.replies -= 1;
      open.agents -= agents;
      if (open.replies === 0) this.#byKey.delete(keyId);
    };
  }
}

const exhausted = (message: string): HttpError => new HttpError('RESOURCE_EXHAUSTED', message);
