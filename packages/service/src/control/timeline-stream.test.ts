import { setImmediate as turn } from 'node:timers/promises';
import type { TimelineEntry } from '@muster/sdk/contract';
import { expect, test } from 'vitest';
import type { FoundRow } from '../store/statements/find-agents.ts';
import { streamTimeline } from './timeline-stream.ts';
import type { Wakes } from './wakes.ts';

/** A stream over a timeline of numbered entries. `duringRead` runs while a page is being read. */
function played(options: { duringRead?: (read: number, stop: () => void) => void } = {}) {
  const stored = [1, 2];
  const seen: number[] = [];
  const controller = new AbortController();
  let reads = 0;
  let tell: Parameters<Wakes['watchAgent']>[1] = () => {};
  const done = streamTimeline(
    {
      reads: {
        timeline: async (_, from) => {
          const after = 'after' in from ? from.after : 0;
          const entries = stored
            .filter((sequence) => sequence > after)
            .map((sequence) => ({ sequence: String(sequence) }) as TimelineEntry);
          await turn();
          reads += 1;
          options.duringRead?.(reads, () => controller.abort());
          return { entries, more: false, firstSequence: '1' };
        },
      },
      wakes: {
        watchAgent: (_, listener) => {
          tell = listener;
          return () => (tell = () => {});
        },
      },
    },
    { sequence: 2 } as FoundRow,
    0,
    { signal: controller.signal, send: async ({ sequence }) => void seen.push(Number(sequence)) },
  );
  const add = (sequence: number) => {
    stored.push(sequence);
    tell({ phase: 'PHASE_RUNNING', sequence });
  };
  return { seen, done, add, stop: () => controller.abort(), reads: () => reads };
}

test('what is stored comes first, then each new entry, once', async () => {
  const stream = played();
  await expect.poll(() => stream.reads()).toBe(2);
  stream.add(3);
  await expect.poll(() => stream.seen).toEqual([1, 2, 3]);
  stream.stop();
  await stream.done;
});

test.each([1, 2])('ends when its reader leaves while page %i is read', async (page) => {
  const stream = played({ duringRead: (read, stop) => read === page && stop() });
  await stream.done;
  expect(stream.seen).toEqual(page === 1 ? [] : [1, 2]);
});

test('an entry that is added while the last page is read is not missed', async () => {
  const stream = played({ duringRead: (read) => read === 2 && stream.add(3) });
  await expect.poll(() => stream.seen).toEqual([1, 2, 3]);
  stream.stop();
  await stream.done;
});
