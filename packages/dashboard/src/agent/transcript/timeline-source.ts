import type { MusterClient } from '@muster/sdk';
import type { AgentId, TimelineEntry } from '@muster/sdk/contract';
import { connection } from '../../session/connection.ts';

/** Where a window reads its timeline from. */
export interface TimelineSource {
  /** The entries just before one, oldest first. */
  readonly before: (
    sequence: number,
    limit: number,
    signal: AbortSignal,
  ) => Promise<readonly TimelineEntry[]>;
  /** The entries just behind one, oldest first. */
  readonly after: (sequence: number, limit: number, signal: AbortSignal) => Promise<readonly TimelineEntry[]>;
  /** Everything behind one, as it comes, until the signal. */
  readonly stream: (after: number, signal: AbortSignal) => AsyncIterable<TimelineEntry>;
}

export const timelineSource = (client: MusterClient, agentId: AgentId): TimelineSource => ({
  before: async (before, limit, signal) =>
    (await client.timeline(agentId, { before, limit, signal })).entries,
  after: async (after, limit, signal) => (await client.timeline(agentId, { after, limit, signal })).entries,
  stream: async function* (after, signal) {
    const onOpen = () => connection.restored('timelineStream');
    try {
      yield* client.timelineStream(agentId, { after, signal, onOpen });
    } finally {
      connection.restored('timelineStream');
    }
  },
});
