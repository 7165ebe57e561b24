import type { MusterClient } from '@muster/sdk';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { agentEntry } from '../../../../test/support/samples.ts';
import { Marks, takeStoredMarks } from './marks.ts';

const [page, entry] = agentEntry('a');
const { agentId } = entry;
let answer = (): void => {};
const markAgents = vi.fn(
  (_marks: Parameters<MusterClient['markAgents']>[0]) =>
    new Promise<object>((resolve) => {
      answer = () => resolve({});
    }),
);
let marks: Marks;

const answered = async () => {
  answer();
  await vi.advanceTimersByTimeAsync(0);
};

beforeEach(() => {
  vi.useFakeTimers();
  markAgents.mockClear();
  marks = new Marks({ markAgents });
});
afterEach(() => vi.useRealTimers());

test('the first mark is sent immediately, and further ones together after a pause', async () => {
  marks.put(page, { agentId, seen: '1' });
  await vi.advanceTimersByTimeAsync(0);
  await answered();
  for (const seen of ['2', '3', '4']) {
    marks.put(page, { agentId, seen });
    await vi.advanceTimersByTimeAsync(100);
  }
  expect(markAgents).toHaveBeenCalledTimes(1);
  await vi.advanceTimersByTimeAsync(2_000);
  expect(markAgents.mock.calls.map(([some]) => some)).toEqual([
    [{ agentId, seen: '1' }],
    [{ agentId, seen: '4' }],
  ]);
});

test('what is on its way applies to entries that arrive meanwhile, and never hides what was seen elsewhere', async () => {
  marks.put(page, { agentId, seen: '3', pinned: true });
  await vi.advanceTimersByTimeAsync(0);
  expect(marks.applied(page, entry)).toMatchObject({ seen: '3', pinned: true });
  expect(marks.applied(page, { ...entry, seen: '10' })).toMatchObject({ seen: '10' });
  expect(marks.applied('/another', entry)).toBe(entry);
  marks.put(page, { agentId, seen: '0' });
  await answered();
  expect(marks.applied(page, { ...entry, seen: '3' })).toMatchObject({ seen: '0', pinned: true });
  await vi.advanceTimersByTimeAsync(2_000);
  await answered();
  expect(marks.applied(page, entry)).toBe(entry);
});

test('a page that is being hidden sends what waits', async () => {
  marks.put(page, { agentId, seen: '1' });
  await vi.advanceTimersByTimeAsync(0);
  await answered();
  marks.put(page, { agentId, seen: '2' });
  marks.flush();
  expect(markAgents).toHaveBeenCalledTimes(2);
});

test('of stored marks, those of listed agents are taken, and none stays', () => {
  const stored = new Map([
    [`muster.seen ${page}`, `4 1767225600000 ${entry.createdAt}`],
    ['muster.seen /agents/gone', `4 1767225600000 ${entry.createdAt}`],
    ['muster.theme', 'dark'],
  ]);
  const storage = {
    get length() {
      return stored.size;
    },
    key: (at: number) => [...stored.keys()][at],
    getItem: (key: string) => stored.get(key),
    removeItem: (key: string) => stored.delete(key),
  } as unknown as Storage;
  const agentOf = (path: string) => (path === page ? entry : undefined);
  expect(takeStoredMarks(storage, agentOf)).toEqual([[page, { agentId, seen: '4' }]]);
  expect([...stored.keys()]).toEqual(['muster.theme']);
  stored.set(`muster.seen ${page}`, '4 1767225600000 2020-01-01T00:00:00.000Z');
  expect(takeStoredMarks(storage, agentOf)).toEqual([]);
});
