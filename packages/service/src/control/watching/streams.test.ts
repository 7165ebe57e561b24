import { setImmediate as nextTurn } from 'node:timers/promises';
import { type AgentEntry, limits, type Phase, type TimelineEntry } from '@muster/sdk/contract';
import { expect, test } from 'vitest';
import type { FoundRow } from '../../store/statements/find-agents.ts';
import type { ListScope } from '../agents/read.ts';
import type { LiveOutputRelay } from './live-output-relay.ts';
import { type ListReader, type ListSources, streamList, streamTimeline } from './streams.ts';
import type { ListWatcher, Wakes } from './wakes.ts';

const scope: ListScope = {
  tenant: 1,
  parent: null,
  allDepths: true,
  owner: null,
  reader: null,
  includeTerminal: true,
  endedSince: null,
  workspace: '',
  phases: [],
  text: '',
  labels: {},
};

/** A stream over a list of agents that have only ids; `seen` is what the reader received. */
class TestListStream {
  readonly seen: string[] = [];
  readonly reads: (readonly string[])[] = [];
  readonly done: Promise<void>;
  readonly #abort = new AbortController();
  watcher: ListWatcher | undefined;

  constructor(pages: readonly (readonly string[])[], reader: Partial<ListReader> = {}, of = scope) {
    const entryOf = (id: string) => id as unknown as AgentEntry;
    const sources: ListSources = {
      wakes: {
        watchList: (watcher) => {
          this.watcher = watcher;
          return () => (this.watcher = undefined);
        },
      },
      reads: {
        list: async (_, before) => {
          const at = Number(before ?? 0);
          const keys = [...(pages[at] ?? [])];
          const next = at + 1 < pages.length ? String(at + 1) : null;
          return { entries: keys.map(entryOf), keys, next };
        },
        // An id with a capital letter fits the list's phases.
        changed: async (_, ids) => {
          this.reads.push(ids);
          return {
            entries: ids.map(entryOf),
            keys: ids.map((id) => id.toLowerCase()),
            fits: ids.map((id) => id !== id.toLowerCase()),
            rest: [],
          };
        },
      },
    };
    this.done = streamList(
      sources,
      { scope: of, before: null, pageSize: 2 },
      {
        signal: this.#abort.signal,
        show: async (entries) => void this.seen.push(...entries.map(String)),
        endOfList: async () => void this.seen.push('whole'),
        ...reader,
      },
    );
  }

  async stop(): Promise<string[]> {
    this.#abort.abort();
    await this.done.catch(() => {});
    return this.seen;
  }
}

test('a list stream sends the whole list page after page, then what changed meanwhile', async () => {
  const stream = new TestListStream([['a', 'b'], ['c']]);
  stream.watcher?.changed('A');
  await nextTurn();
  expect(await stream.stop()).toEqual(['a', 'b', 'c', 'whole', 'A']);
  expect(stream.watcher).toBeUndefined();
});

test('a list stream reads the first change immediately and batches those that follow', async () => {
  const stream = new TestListStream([[]]);
  await nextTurn();
  stream.watcher?.changed('A');
  await nextTurn();
  expect(stream.reads).toEqual([['A']]);
  const began = performance.now();
  let changes = 0;
  while (performance.now() - began < 350) {
    stream.watcher?.changed(`A${++changes}`);
    await nextTurn();
  }
  const tookMs = performance.now() - began;
  await stream.stop();
  expect(changes).toBeGreaterThan(50);
  expect(stream.reads.length - 1).toBeLessThanOrEqual(tookMs / 99 + 1);
  expect(stream.reads.length).toBeGreaterThan(1);
});

test('a list stream sends an agent once more when it leaves the list, and never one that was not in it', async () => {
  const live = { ...scope, includeTerminal: false };
  const stream = new TestListStream([['left']], {}, live);
  await nextTurn();
  stream.watcher?.changed('left');
  stream.watcher?.changed('stranger');
  await nextTurn();
  stream.watcher?.changed('left');
  stream.watcher?.changed('Late');
  while (!stream.seen.includes('Late')) await nextTurn();
  expect(await stream.stop()).toEqual(['left', 'whole', 'left', 'Late']);
});

test('a list stream ends when its reader is too far behind', async () => {
  let read: () => void = () => {};
  const slow = new Promise<void>((resolve) => (read = resolve));
  const stream = new TestListStream([['a']], { show: () => slow });
  for (let i = 0; i <= 100 * limits.pageSize; i += 1) stream.watcher?.changed(`A${i}`);
  read();
  await stream.done;
  expect(stream.reads).toEqual([]);
  expect(stream.seen).toEqual(['whole']);
});

test('a list stream that may have missed a change ends', async () => {
  const stream = new TestListStream([['a']]);
  await nextTurn();
  stream.watcher?.missed();
  await stream.done;
  expect(stream.seen).toEqual(['a', 'whole']);
});

/** A stream over a timeline of numbered entries. `duringRead` runs while a page is being read. */
function startTimelineStream(
  options: { duringRead?: (read: number, stop: () => void) => void; room?: Promise<void> } = {},
) {
  const stored = [1, 2];
  const partials: string[] = [];
  let watchers = 0;
  let show: Parameters<LiveOutputRelay['watch']>[1] = () => {};
  const seen: number[] = [];
  const controller = new AbortController();
  let reads = 0;
  let notify: Parameters<Wakes['watchAgent']>[1] = () => {};
  const done = streamTimeline(
    {
      reads: {
        timeline: async (_, from) => {
          const after = 'after' in from ? from.after : 0;
          const entries = stored
            .filter((sequence) => sequence > after)
            .map(
              (sequence) =>
                ({
                  sequence: String(sequence),
                  data: { key: `key ${sequence}` },
                }) as unknown as TimelineEntry,
            );
          await nextTurn();
          reads += 1;
          options.duringRead?.(reads, () => controller.abort());
          return { entries, more: false, nextSequence: '' };
        },
      },
      live: {
        watch: (_, listener) => {
          watchers += 1;
          show = listener;
          return () => (watchers -= 1);
        },
      },
      wakes: {
        watchAgent: (_, listener) => {
          notify = listener;
          return () => (notify = () => {});
        },
      },
    },
    { sequence: 2 } as FoundRow,
    0,
    {
      signal: controller.signal,
      send: async ({ sequence }) => void seen.push(Number(sequence)),
      sendPartial: async ({ text }) => {
        partials.push(text);
        await options.room;
      },
    },
  );
  const add = (sequence: number, phase: Phase = 'PHASE_RUNNING') => {
    stored.push(sequence);
    notify({ phase, sequence });
  };
  const say = (text: string, key = 'key 9') => show({ runId: '1', key, type: 'MESSAGE', offset: 0, text });
  return {
    seen,
    partials,
    say,
    watchers: () => watchers,
    done,
    add,
    stop: () => controller.abort(),
    reads: () => reads,
  };
}

test('a timeline stream sends what is stored, then each new entry once', async () => {
  const stream = startTimelineStream();
  await expect.poll(() => stream.reads()).toBe(2);
  stream.add(3);
  await expect.poll(() => stream.seen).toEqual([1, 2, 3]);
  stream.stop();
  await stream.done;
});

test.each([1, 2])('a timeline stream ends when its reader leaves while page %i is read', async (page) => {
  const stream = startTimelineStream({ duringRead: (read, stop) => read === page && stop() });
  await stream.done;
  expect(stream.seen).toEqual(page === 1 ? [] : [1, 2]);
});

test('a timeline stream sends an entry that is added while the last page is read', async () => {
  const stream = startTimelineStream({ duringRead: (read) => read === 2 && stream.add(3) });
  await expect.poll(() => stream.seen).toEqual([1, 2, 3]);
  stream.stop();
  await stream.done;
});

test('a timeline stream watches what an agent produces only while it runs', async () => {
  const stream = startTimelineStream();
  await expect.poll(() => stream.reads()).toBe(2);
  expect(stream.watchers()).toBe(0);
  stream.add(3);
  expect(stream.watchers()).toBe(1);
  stream.say('one');
  stream.say('two');
  await expect.poll(() => stream.partials).toEqual(['one', 'two']);
  const reads = stream.reads();
  stream.say('three');
  await expect.poll(() => stream.partials).toHaveLength(3);
  expect(stream.reads()).toBe(reads);
  stream.add(4, 'PHASE_WAITING_FOR_INPUT');
  expect(stream.watchers()).toBe(0);
  stream.add(5);
  stream.stop();
  await stream.done;
  expect(stream.watchers()).toBe(0);
});

test('a timeline stream sends no partial after the entry that replaces it', async () => {
  const stream = startTimelineStream();
  stream.add(3);
  await expect.poll(() => stream.seen).toEqual([1, 2, 3]);
  stream.say('too late', 'key 3');
  stream.say('in time', 'key 4');
  await expect.poll(() => stream.partials).toEqual(['in time']);
  stream.stop();
  await stream.done;
});

test('a slow reader of a timeline stream loses partials, and no entry', async () => {
  let free: () => void = () => {};
  const room = new Promise<void>((resolve) => {
    free = resolve;
  });
  const stream = startTimelineStream({ room });
  stream.add(3);
  await expect.poll(() => stream.seen).toHaveLength(3);
  for (let i = 0; i < 1000; i += 1) stream.say(`piece ${i}`, 'slow');
  for (let sequence = 4; sequence < 50; sequence += 1) stream.add(sequence);
  free();
  await expect.poll(() => stream.seen).toHaveLength(49);
  await expect.poll(() => stream.partials.at(-1)).toBe('piece 999');
  expect(stream.partials.length).toBeLessThan(20);
  stream.stop();
  await stream.done;
});
