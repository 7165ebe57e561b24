import { setImmediate as turn } from 'node:timers/promises';
import { type AgentEntry, limits } from '@muster/sdk/contract';
import { expect, test } from 'vitest';
import { type ListReader, type ListSources, streamList } from './list-stream.ts';
import type { ListScope } from './read.ts';
import type { ListWatcher } from './wakes.ts';

const scope: ListScope = {
  tenant: 1,
  parent: null,
  allDepths: true,
  owner: null,
  includeTerminal: true,
  endedSince: null,
  workspace: '',
  phases: [],
  text: '',
  labels: {},
};

/** A stream over a list of agents that are nothing but their ids; what the reader got is in `seen`. */
class Played {
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
        // What is written large fits the list's phases.
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
        sayWhole: async () => void this.seen.push('whole'),
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

test('the whole list comes page after page, and what changed meanwhile behind it', async () => {
  const played = new Played([['a', 'b'], ['c']]);
  played.watcher?.changed('A');
  await turn();
  expect(await played.stop()).toEqual(['a', 'b', 'c', 'whole', 'A']);
  expect(played.watcher).toBeUndefined();
});

test('a change is read at once, those that follow together, however many they are', async () => {
  const played = new Played([[]]);
  await turn();
  played.watcher?.changed('A');
  await turn();
  expect(played.reads).toEqual([['A']]);
  const began = performance.now();
  let changes = 0;
  while (performance.now() - began < 350) {
    played.watcher?.changed(`A${++changes}`);
    await turn();
  }
  const tookMs = performance.now() - began;
  await played.stop();
  expect(changes).toBeGreaterThan(50);
  expect(played.reads.length - 1).toBeLessThanOrEqual(tookMs / 99 + 1);
  expect(played.reads.length).toBeGreaterThan(1);
});

test('an agent that leaves the list is shown once more, one that never was in it is not', async () => {
  const live = { ...scope, includeTerminal: false };
  const played = new Played([['left']], {}, live);
  await turn();
  played.watcher?.changed('left');
  played.watcher?.changed('stranger');
  await turn();
  played.watcher?.changed('left');
  played.watcher?.changed('Late');
  while (!played.seen.includes('Late')) await turn();
  expect(await played.stop()).toEqual(['left', 'whole', 'left', 'Late']);
});

test('a reader that is too far behind is let go, and nothing waits for it', async () => {
  let read: () => void = () => {};
  const slow = new Promise<void>((resolve) => (read = resolve));
  const played = new Played([['a']], { show: () => slow });
  for (let i = 0; i <= 100 * limits.pageSize; i += 1) played.watcher?.changed(`A${i}`);
  read();
  await played.done;
  expect(played.reads).toEqual([]);
  expect(played.seen).toEqual(['whole']);
});

test('a stream that may have missed something ends', async () => {
  const played = new Played([['a']]);
  await turn();
  played.watcher?.missed();
  await played.done;
  expect(played.seen).toEqual(['a', 'whole']);
});
