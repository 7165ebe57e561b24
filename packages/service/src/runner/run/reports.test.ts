import { type MusterClient, MusterError } from '@muster/sdk';
import type { ReportItem, ReportRequest } from '@muster/sdk/contract';
import { afterEach, beforeEach, describe, expect, it, test, vi } from 'vitest';
import { ValueMask } from '../../lib/value-mask.ts';
import { LiveOutput } from '../live-output.ts';
import { bounded, jsonBytes, storable, storableValue } from '../report-text.ts';
import { ReportQueue } from './report-queue.ts';
import { ReportStream } from './report-stream.ts';

const mask = new ValueMask(['hidden-value']);

beforeEach(() => {
  vi.useFakeTimers();
  vi.spyOn(Math, 'random').mockReturnValue(0.5);
});
afterEach(() => {
  live.update([]);
  vi.useRealTimers();
  vi.restoreAllMocks();
});

const images = { accept: (base64: string) => Buffer.from(base64, 'base64'), upload: async () => ['stored'] };
const partials: string[] = [];
const live = new LiveOutput(async (sent) => void partials.push(...sent.map(({ text }) => text)));
const output = live.open({ agentKey: 'a', runId: 1 }, mask, 'mst_a.secret');

/** A stream, the texts of each report it sent, and the errors with which the run has to end. */
function open(answer: (report: ReportRequest) => void | Promise<void> = () => {}) {
  const reports: string[][] = [];
  const failed: string[] = [];
  const client = {
    call: async (_route: string, report: ReportRequest) => {
      reports.push((report.items ?? []).map(({ text = '' }) => text));
      await answer(report);
      return { activeTaskIds: [] };
    },
  } as unknown as MusterClient;
  const stream = new ReportStream({
    client,
    runnerId: 'r',
    agentKey: 'a',
    runId: 1,
    token: 'mst_a.secret',
    maxItems: 500,
    textLength: 1000,
    onPush: () => {},
    mask,
    output,
    images,
    mayAct: () => true,
    renewLease: () => {},
    onReply: () => {},
    onFenced: () => {},
    onDropped: () => {},
    onFailed: ({ error }) => failed.push(`${error?.code}: ${error?.message}`),
  });
  const say = (...texts: string[]) => {
    for (const text of texts) stream.queue.item({ type: 'MESSAGE', text });
  };
  return { say, reports, stream, failed };
}

test('items added together go into one report immediately; later ones wait for the next report', async () => {
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

test('what is added while a report is on its way goes into one report after it', async () => {
  const { say, reports } = open(() => new Promise((resolve) => setTimeout(resolve, 300)));
  say('a');
  for (const text of ['b', 'c', 'd']) {
    await vi.advanceTimersByTimeAsync(90);
    say(text);
  }
  expect(reports).toEqual([['a']]);
  await vi.advanceTimersByTimeAsync(2_000);
  expect(reports).toEqual([['a'], ['b', 'c', 'd']]);
});

test.each([
  ['a service that takes a millisecond', 1, 0.5, 50],
  ['one that takes 10 ms', 10, 0.5, 500],
  ['it, sooner', 10, 0, 375],
  ['one that takes a second', 1_000, 0.5, 1_000],
])('reports to %s leave it alone in between', async (_, tookMs, random, intervalMs) => {
  vi.spyOn(Math, 'random').mockReturnValue(random);
  const { say, reports } = open(() => new Promise((resolve) => setTimeout(resolve, tookMs)));
  say('a');
  await vi.advanceTimersByTimeAsync(2 + tookMs);
  say('b');
  await vi.advanceTimersByTimeAsync(intervalMs - 1);
  expect(reports).toEqual([['a']]);
  await vi.advanceTimersByTimeAsync(1);
  expect(reports).toEqual([['a'], ['b']]);
});

test('an agent that is watched reports ten times as often, and its live output follows what it reported', async () => {
  live.update([{ agentKey: 'a', since: 1 }]);
  const { say, reports, stream } = open(() => new Promise((resolve) => setTimeout(resolve, 20)));
  say('a');
  await vi.advanceTimersByTimeAsync(22);
  say('b');
  stream.queue.partial({ key: 'k', type: 'MESSAGE', text: 'live' });
  await vi.advanceTimersByTimeAsync(100);
  expect([reports, partials]).toEqual([[['a'], ['b']], []]);
  await vi.advanceTimersByTimeAsync(21);
  expect(partials).toEqual(['live']);
});

test('many items do not wait', async () => {
  const { say, reports } = open();
  say('first');
  await vi.advanceTimersByTimeAsync(2);
  say(...Array.from({ length: 200 }, (_, i) => `${i}`));
  await vi.advanceTimersByTimeAsync(0);
  expect(reports.map(({ length }) => length)).toEqual([1, 200]);
});

describe("a call of one of the agent's tools", () => {
  const call = {
    type: 'TOOL_CALL',
    text: 'create_tasks',
    data: { tool: 'mcp__muster__create_tasks' },
  } as const;

  test('waits until the harness has reported it and the service has that report', async () => {
    let accept = (): void => {};
    const { stream, reports } = open(() => new Promise((resolve) => (accept = resolve)));
    const order: string[] = [];
    void stream.queue.beforeTool('create_tasks').then(() => order.push('called'));
    await vi.advanceTimersByTimeAsync(100);
    stream.queue.item(call);
    await vi.advanceTimersByTimeAsync(100);
    expect(reports).toEqual([['create_tasks']]);
    expect(order).toEqual([]);
    accept();
    await vi.advanceTimersByTimeAsync(0);
    expect(order).toEqual(['called']);
  });

  test('waits for a report that is on its way, and for each of two calls', async () => {
    const accepts: (() => void)[] = [];
    const { stream } = open(() => new Promise((resolve) => accepts.push(resolve)));
    const order: number[] = [];
    stream.queue.item(call);
    await vi.advanceTimersByTimeAsync(10);
    void stream.queue.beforeTool('create_tasks').then(() => order.push(1));
    void stream.queue.beforeTool('create_tasks').then(() => order.push(2));
    await vi.advanceTimersByTimeAsync(10);
    expect(order).toEqual([]);
    accepts.shift()?.();
    await vi.advanceTimersByTimeAsync(10);
    expect(order).toEqual([1]);
    stream.queue.item(call);
    await vi.advanceTimersByTimeAsync(100);
    accepts.shift()?.();
    await vi.advanceTimersByTimeAsync(10);
    expect(order).toEqual([1, 2]);
  });

  test('goes on if it is never reported, or if the service does not answer', async () => {
    const { stream } = open(() => new Promise(() => {}));
    const order: number[] = [];
    void stream.queue.beforeTool('other').then(() => order.push(1));
    await vi.advanceTimersByTimeAsync(1_000);
    expect(order).toEqual([1]);
    stream.queue.item(call);
    void stream.queue.beforeTool('create_tasks').then(() => order.push(2));
    await vi.advanceTimersByTimeAsync(5_000);
    expect(order).toEqual([1, 2]);
  });
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

  test('is abandoned after three equal failures, with the number of the last incident', async () => {
    const { say, reports, failed } = failing(internal(1), internal(2), internal(3), internal(4));
    say('a');
    await vi.advanceTimersByTimeAsync(60_000);
    expect(failed).toEqual([expect.stringMatching(`^REPORT_FAILED: .*incident ${incident(3)}`)]);
    expect(reports).toEqual([['a'], ['a'], ['a']]);
  });

  test('that the service refuses is sent without its items, and the run ends if that is refused too', async () => {
    const refusal = new MusterError(400, { code: 3, message: 'usage.inputTokens: must be at most 1' });
    const once = failing(refusal);
    const always = failing(refusal, refusal);
    for (const { say, stream } of [once, always]) {
      say('a');
      stream.queue.usage({ inputTokens: 2 ** 60, cachedInputTokens: 0, outputTokens: 0, costUsd: 0 });
    }
    await vi.advanceTimersByTimeAsync(60_000);
    const text = `The service refused a report: ${refusal.message}`;
    expect(once.reports).toEqual([['a'], [text]]);
    expect(once.failed).toEqual([]);
    expect(always.reports).toEqual([['a'], [text]]);
    expect(always.failed).toEqual([`REPORT_REFUSED: ${text}`]);
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
  ])('is sent until it is accepted when it %s', async (_what, errors) => {
    const { say, reports, failed } = failing(...errors);
    const sent = errors.length + 1;
    say('a');
    await vi.advanceTimersByTimeAsync(60_000);
    expect(failed).toEqual([]);
    expect(reports).toHaveLength(sent);
  });

  test('the last report is tried three times, and the result says whether it was accepted', async () => {
    const refused = failing(...Array.from({ length: 9 }, (_, n) => internal(n)));
    const accepted = failing(internal(1), internal(2));
    const results = [refused, accepted].map(({ stream }) => stream.sendLast({ gone: true }));
    await vi.advanceTimersByTimeAsync(60_000);
    expect(await Promise.all(results)).toEqual([false, true]);
    expect([refused.reports, accepted.reports].map(({ length }) => length)).toEqual([3, 3]);
  });
});

describe('ReportQueue', () => {
  const queueOf = (maxItems: number, textLength: number) =>
    new ReportQueue({
      maxItems,
      textLength,
      mask,
      output,
      images,
      onChange: () => {},
      onPush: () => {},
      flush: async () => {},
    });

  it('masks the values of secrets in every text, before it is cut', () => {
    const queue = queueOf(10, 16);
    queue.item({
      type: 'TOOL_CALL',
      text: 'hidden-value',
      data: { input: { 'hidden-value': ['=hidden-value'] } },
    });
    queue.item({ type: 'MESSAGE', text: '0123456789hidden-value' });
    queue.action('Running hidden-value');
    queue.push({ ref: 'r', commits: [], files: ['a/hidden-value'] });
    queue.diff({ repo: 'r', files: 1, insertions: 1, deletions: 0, text: '+hidden-value' });
    queue.flushPushes();
    expect(queue.take()).toMatchObject({
      items: [{ text: '***', data: { input: { '***': ['=***'] } } }, { text: '0123456789***' }],
      currentAction: 'Running ***',
      pushes: [{ files: ['a/***'] }],
      diff: { text: '+***' },
    });
  });

  it('splits what waits into reports of limited size, in order', () => {
    const queue = queueOf(2, 100);
    for (const text of ['a', 'b', 'c']) queue.item({ type: 'MESSAGE', text });
    expect(queue.take().items?.map((item) => item.text)).toEqual(['a', 'b']);
    expect(queue.length).toBe(1);
    expect(queue.take().items?.map((item) => item.text)).toEqual(['c']);
    expect(queue.length).toBe(0);
    expect(queue.take()).toEqual({});
  });

  it('adds up usage between reports and keeps the last action', () => {
    const queue = queueOf(10, 100);
    queue.usage({ inputTokens: 1, cachedInputTokens: 0, outputTokens: 2, costUsd: 0.5 });
    queue.usage({ inputTokens: 1, cachedInputTokens: 3, outputTokens: 0, costUsd: 0.25 });
    queue.action('one');
    queue.action('two');
    queue.session('s');
    expect(queue.take()).toEqual({
      usage: { inputTokens: 2, cachedInputTokens: 3, outputTokens: 2, costUsd: 0.75 },
      currentAction: 'two',
      session: 's',
    });
    expect(queue.take()).toEqual({});
  });

  it('drops items beyond its memory limit, and reports how many', () => {
    const queue = queueOf(500, 256 * 1024);
    for (let i = 0; i < 100; i++) queue.item({ type: 'MESSAGE', text: 'x'.repeat(200_000) });
    const items = [];
    while (queue.length > 0) items.push(...(queue.take().items ?? []));
    expect(items.length).toBeLessThan(100);
    expect(items.at(-1)).toMatchObject({
      type: 'WARNING',
      text: expect.stringMatching(/^\d+ items were dropped/),
    });
  });
});

describe('the order of pushes', () => {
  function recorded() {
    const reported: string[] = [];
    const onChange = () => {
      const { items = [], pushes = [] } = queue.take();
      reported.push(...items.map(({ type, data }) => `${type} ${data?.id}`), ...pushes.map(({ ref }) => ref));
    };
    const queue = new ReportQueue({
      maxItems: 10,
      textLength: 100,
      mask,
      output,
      images,
      onChange,
      onPush: () => {},
      flush: async () => {},
    });
    const item = (type: ReportItem['type'], id: string) => queue.item({ type, data: { id } });
    const push = (ref: string) => queue.push({ ref, commits: [], files: [] });
    const flush = () => {
      queue.flushPushes();
      onChange();
    };
    return { reported, item, push, flush };
  }

  it('reports a push immediately while a call is running', () => {
    const { reported, item, push } = recorded();
    item('TOOL_CALL', '1');
    push('a');
    item('TOOL_RESULT', '1');
    expect(reported).toEqual(['TOOL_CALL 1', 'a', 'TOOL_RESULT 1']);
  });

  it('reports a push after a call that is reported late, and a warning does not release it', () => {
    const { reported, item, push } = recorded();
    item('TOOL_CALL', '1');
    item('TOOL_RESULT', '1');
    push('a');
    item('WARNING', '2');
    item('TOOL_CALL', '3');
    expect(reported).toEqual(['TOOL_CALL 1', 'TOOL_RESULT 1', 'WARNING 2', 'TOOL_CALL 3', 'a']);
  });

  it('reports waiting pushes when it is flushed', () => {
    const { reported, push, flush } = recorded();
    push('a');
    push('b');
    expect(reported).toEqual([]);
    flush();
    expect(reported).toEqual(['a', 'b']);
  });
});

describe('texts for the service', () => {
  it('have no NUL and no lone surrogates', () => {
    expect(storable('a\0b\ud83dc\ude00d')).toBe('a\ufffdb\ufffdc\ufffdd');
    expect(storable('é 😀 \u0001\n')).toBe('é 😀 \u0001\n');
  });

  it('are cleaned at every depth of a value', () => {
    expect(storableValue({ 'k\0': ['\0', { n: 1, t: null }] })).toEqual({
      'k\ufffd': ['\ufffd', { n: 1, t: null }],
    });
  });

  it('are cut to a number of characters', () => {
    expect(bounded('abc', 3)).toBe('abc');
    expect(bounded('abcdefghij', 8)).toBe('abcd […]');
    expect(bounded('😀'.repeat(10), 9)).toMatch(/^😀😀\ufffd? \[…\]$/u);
  });

  it('are cut to a number of bytes as JSON', () => {
    const text = bounded('\u0001'.repeat(1000), 1000, 900);
    expect(jsonBytes(text)).toBeLessThanOrEqual(900);
    expect(text.length).toBeGreaterThan(50);
  });
});
