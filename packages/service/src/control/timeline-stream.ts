import type { TimelineEntry } from '@muster/sdk/contract';
import { Change } from '../lib/change.ts';
import type { FoundRow } from '../store/statements/find-agents.ts';
import type { Reads } from './read.ts';
import { isRefusal } from './refusal.ts';
import type { Wakes } from './wakes.ts';

const pageEntries = 500;

/** Who reads the stream. `send` resolves when there is room for more. */
export interface TimelineReader {
  readonly signal: AbortSignal;
  send(entry: TimelineEntry): Promise<void>;
}

export interface TimelineSources {
  readonly reads: Pick<Reads, 'timeline'>;
  readonly wakes: Pick<Wakes, 'watchAgent'>;
}

/** Every entry of an agent's timeline after the given one, then each new one, until the reader leaves. */
export async function streamTimeline(
  { reads, wakes }: TimelineSources,
  agent: FoundRow,
  after: number,
  { signal, send }: TimelineReader,
): Promise<void> {
  const change = new Change();
  const wake = () => change.happened();
  let last = after;
  let newest = agent.sequence;
  const unwatch = wakes.watchAgent(agent, ({ sequence }) => {
    newest = Math.max(newest, sequence);
    if (newest > last) wake();
  });
  signal.addEventListener('abort', wake);
  try {
    while (!signal.aborted) {
      const page = await reads.timeline(agent, { after: last }, pageEntries);
      if (isRefusal(page)) return;
      for (const entry of page.entries) {
        if (signal.aborted) return;
        await send(entry);
        last = Number(entry.sequence);
      }
      if (page.entries.length === 0 && newest <= last) await change.within(Number.POSITIVE_INFINITY);
    }
  } finally {
    unwatch();
    signal.removeEventListener('abort', wake);
  }
}
