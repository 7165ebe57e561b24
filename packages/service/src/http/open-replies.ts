import { limits } from '@muster/sdk/contract';
import type { Principal } from '../control/principal.ts';
import { EdgeError } from './errors.ts';
import type { Metrics } from './metrics.ts';

/** The waits, streams and polls that are open: refuses a key that has too many, and cuts them when the service closes. */
export class OpenReplies {
  readonly #metrics: Metrics;
  readonly #closing: AbortSignal;
  readonly #ofKey = new Map<string, { replies: number; agents: number }>();
  /** Beside the signal, which takes a time for each listener that grows with their number. */
  readonly #cuts = new Set<() => void>();

  constructor(metrics: Metrics, closing: AbortSignal) {
    this.#metrics = metrics;
    this.#closing = closing;
    closing.addEventListener('abort', () => {
      for (const cut of this.#cuts) cut();
    });
  }

  /** Calls back once the service shuts down, also when it does already, until the returned function is called. */
  whenClosing(cut: () => void): () => void {
    if (this.#closing.aborted) cut();
    this.#cuts.add(cut);
    return () => this.#cuts.delete(cut);
  }

  /** Counts one as open, with the agents it watches, until the returned function is called. */
  open({ keyId }: Principal, kind: 'wait' | 'stream' | 'poll', agents = 1): () => void {
    const open = this.#ofKey.get(keyId) ?? { replies: 0, agents: 0 };
    if (open.replies >= limits.openRepliesPerKey)
      throw exhausted(`this key has ${open.replies} open waits and streams, the most that are allowed`);
    if (open.agents + agents > limits.watchedAgentsPerKey)
      throw exhausted(
        `the open waits and streams of this key watch ${open.agents} agents; ${agents} more exceed ${limits.watchedAgentsPerKey}`,
      );
    open.replies += 1;
    open.agents += agents;
    this.#ofKey.set(keyId, open);
    const closed = this.#metrics.openLong(kind);
    return () => {
      closed();
      open.replies -= 1;
      open.agents -= agents;
      if (open.replies === 0) this.#ofKey.delete(keyId);
    };
  }
}

const exhausted = (message: string): EdgeError => new EdgeError('RESOURCE_EXHAUSTED', message);
