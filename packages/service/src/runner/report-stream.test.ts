import { type MusterClient, MusterError } from '@muster/sdk';
import type { ReportRequest } from '@muster/sdk/contract';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { ReportStream } from './report-stream.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** A stream, the texts of each report that came of it, and the incidents for which it gave up. */
function open(answer: (report: ReportRequest) => void = () => {}) {
  const reports: string[][] = [];
  const failed: string[] = [];
  const client = {
    call: async (_route: string, report: ReportRequest) => {
      reports.push((report.items ?? []).map(({ text = '' }) => text));
      answer(report);
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
    mayAct: () => true,
    onReply: () => {},
    onFenced: () => {},
    onDropped: () => {},
    onFailed: (incident) => failed.push(incident),
  });
  const say = (...texts: string[]) => {
    for (const text of texts) stream.item({ type: 'MESSAGE', text });
  };
  return { say, reports, stream, failed };
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

describe('a report on which the service fails', () => {
  const incident = (n: number) => `0000000${n}-0000-4000-8000-000000000000`;
  const internal = (n: number, text = 'something went wrong on our side') =>
    new MusterError(500, { code: 13, message: `${text} (incident ${incident(n)})` });

  /** Answers reports with these errors, in order, and takes every later one. */
  const failing = (...errors: Error[]) =>
    open(() => {
      const error = errors.shift();
      if (error) throw error;
    });

  test('is given up after three equal failures, with the number of the last incident', async () => {
    const { say, reports, failed } = failing(internal(1), internal(2), internal(3), internal(4));
    say('a');
    await vi.advanceTimersByTimeAsync(60_000);
    expect(failed).toEqual([incident(3)]);
    expect(reports).toEqual([['a'], ['a'], ['a']]);
  });

  test.each<[what: string, errors: Error[]]>([
    ['failed twice', [internal(1), internal(2)]],
    ['failed in different ways', [internal(1), internal(2, 'other'), internal(3), internal(4, 'other')]],
    [
      'failed twice on either side of an outage',
      [internal(1), internal(2), new MusterError(503, {}), internal(3)],
    ],
    [
      'met an unavailable service',
      Array.from({ length: 8 }, () => new MusterError(503, { message: `incident ${incident(1)}` })),
    ],
    ['met an unreachable service', Array.from({ length: 8 }, () => new TypeError('fetch failed'))],
    ['met a proxy that answers for the service', Array.from({ length: 8 }, () => new MusterError(500, {}))],
  ])('is sent until it is taken when it %s', async (_what, errors) => {
    const { say, reports, failed } = failing(...errors);
    const sent = errors.length + 1;
    say('a');
    await vi.advanceTimersByTimeAsync(60_000);
    expect(failed).toEqual([]);
    expect(reports).toHaveLength(sent);
  });

  test('the last word is tried three times, and says whether it was taken', async () => {
    const refused = failing(...Array.from({ length: 9 }, (_, n) => internal(n)));
    const taken = failing(internal(1), internal(2));
    const words = [refused.stream.failed(incident(0)), taken.stream.failed(incident(0))];
    await vi.advanceTimersByTimeAsync(60_000);
    expect(await Promise.all(words)).toEqual([false, true]);
    expect([refused.reports, taken.reports].map(({ length }) => length)).toEqual([3, 3]);
  });
});
