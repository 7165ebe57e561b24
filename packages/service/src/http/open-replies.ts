import { limits } from '@muster/sdk/contract';
import type { Principal } from '../control/principal.ts';
import { EdgeError } from './errors.ts';
import type { Metrics } from './metrics.ts';

/** Counts the waits, streams and polls that are open, and refuses a key that has too many. */
export class OpenReplies {
  readonly #metrics: Metrics;
  readonly #ofKey = new Map<string, { replies: number; agents: number }>();

  constructor(metrics: Metrics) {
    this.#metrics = metrics;
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
