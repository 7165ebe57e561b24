import type { MusterClient } from '@muster/sdk';
import type { ReportRequest } from '@muster/sdk/contract';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { ReportStream } from './report-stream.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** A stream, and the texts of each report that came of it. */
function open() {
  const reports: string[][] = [];
  const client = {
    call: async (_route: string, { items = [] }: ReportRequest) => {
      reports.push(items.map(({ text = '' }) => text));
      return { activeTaskIds: [] };
    },
  } as unknown as MusterClient;
  const stream = new ReportStream({
    client,
    runnerId: 'r',
    agentKey: 'a',
    runId: 1,
    token: 'mst_a.secret',
    reportItems: 500,
    reportedTextLength: 1000,
    signal: new AbortController().signal,
    mayAct: () => true,
    onReply: () => {},
    onFenced: () => {},
    onDropped: () => {},
  });
  const say = (...texts: string[]) => {
    for (const text of texts) stream.item({ type: 'MESSAGE', text });
  };
  return { say, reports };
}

test('what is said in one go is one report, at once; what comes right after it waits for the next', async () => {
  const { say, reports } = open();
  say('a', 'b');
  await vi.advanceTimersByTimeAsync(2);
  expect(reports).toEqual([['a', 'b']]);
  say('c');
  await vi.advanceTimersByTimeAsync(30);
  say('d');
  expect(reports).toHaveLength(1);
  await vi.advanceTimersByTimeAsync(20);
  expect(reports).toEqual([
    ['a', 'b'],
    ['c', 'd'],
  ]);
  await vi.advanceTimersByTimeAsync(1_000);
  say('e');
  await vi.advanceTimersByTimeAsync(2);
  expect(reports.at(-1)).toEqual(['e']);
});

test('so many that they would burden one report do not wait', async () => {
  const { say, reports } = open();
  say('first');
  await vi.advanceTimersByTimeAsync(2);
  say(...Array.from({ length: 200 }, (_, i) => `${i}`));
  await vi.advanceTimersByTimeAsync(0);
  expect(reports.map(({ length }) => length)).toEqual([1, 200]);
});
