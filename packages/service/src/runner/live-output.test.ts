import type { SentPartial } from '@muster/sdk/contract';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { ValueMask } from '../lib/value-mask.ts';
import { LiveOutput } from './live-output.ts';

const token = 'mst_run.token-of-the-run';
const mask = new ValueMask(['hidden-value', 'line one of it\nline two of it']);

beforeEach(() => vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }));
afterEach(() => vi.useRealTimers());

/** A runner with one run of agent `a`, which is watched. `reply` is what a request waits for. */
function open({ reply = async () => {} }: { reply?: () => Promise<void> } = {}) {
  const requests: SentPartial[][] = [];
  const live = new LiveOutput(async (partials) => {
    requests.push(partials);
    await reply();
  });
  const run = live.open({ agentKey: 'a', runId: 1 }, mask, token);
  live.update([{ agentKey: 'a', since: 1 }]);
  const say = (text: string, key = 'k') => run.add({ key, type: 'MESSAGE', text });
  const sent = () => requests.flat().map(({ offset, text }) => [offset, text]);
  return { live, run, requests, say, sent };
}

const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

it('sends at most ten partials of a run in a second, and all of its text', async () => {
  const { say, sent, requests } = open();
  await pass(1000);
  for (let i = 0; i < 490; i += 1) {
    say(`${i % 10}`);
    await pass(2);
  }
  expect(requests.length).toBeLessThanOrEqual(10);
  await pass(1000);
  expect(
    sent()
      .map(([, text]) => text)
      .join(''),
  ).toBe('0123456789'.repeat(49));
  const counts = requests.map(({ length }) => length);
  expect(new Set(counts)).toEqual(new Set([1]));
});

it('is held while entries that came before it are being reported', async () => {
  const { run, say, sent } = open();
  run.hold();
  say('Hello');
  await pass(1000);
  say(', world');
  expect(sent()).toEqual([]);
  run.release();
  await pass(0);
  expect(sent()).toEqual([[0, 'Hello, world']]);
});

it('sends nothing while nobody watches; a new reader gets what is being written from its beginning', async () => {
  const { live, say, sent } = open();
  live.update([]);
  say('Hello');
  await pass(1000);
  expect(sent()).toEqual([]);
  live.update([{ agentKey: 'a', since: 2 }]);
  await pass(0);
  say(', world');
  await pass(1000);
  expect(sent()).toEqual([
    [0, 'Hello'],
    [5, ', world'],
  ]);
  live.update([{ agentKey: 'a', since: 2 }]);
  await pass(1000);
  expect(sent()).toHaveLength(2);
  live.update([{ agentKey: 'a', since: 3 }]);
  await pass(1000);
  expect(sent().slice(2)).toEqual([[0, 'Hello, world']]);
  expect(live.watched).toEqual([{ agentKey: 'a', since: 3 }]);
});

it.each(['hidden-value', 'line two of it', token])('masks %s however it is divided', async (secret) => {
  for (let border = 1; border < secret.length; border += 1) {
    const { say, sent } = open();
    await pass(1000);
    say(`<${secret.slice(0, border)}`);
    await pass(200);
    say(`${secret.slice(border)}>`);
    await pass(1000);
    const text = sent()
      .map(([, piece]) => piece)
      .join('');
    expect(text).toBe('<***>');
  }
});

it('sends what only looked like the beginning of a value', async () => {
  const { say, sent } = open();
  say('hidden-val');
  await pass(200);
  say('ley');
  await pass(200);
  expect(
    sent()
      .map(([, text]) => text)
      .join(''),
  ).toBe('hidden-valley');
});

it('does not divide characters, and replaces what can not be stored', async () => {
  const { say, sent } = open();
  say('a\ud83d');
  await pass(200);
  say('\ude00\0');
  await pass(200);
  expect(sent()).toEqual([
    [0, 'a'],
    [1, '😀\ufffd'],
  ]);
});

it('skips what a slow service does not take, and sends one request at a time', async () => {
  let answer: () => void = () => {};
  const { say, sent, requests } = open({ reply: () => new Promise((resolve) => (answer = resolve)) });
  say('first');
  await pass(1000);
  for (let i = 0; i < 1000; i += 1) say('x'.repeat(1000));
  await pass(60_000);
  expect(requests).toHaveLength(1);
  answer();
  await pass(1000);
  const [offset, text] = sent()[1] ?? [];
  expect(offset).toBe(1_000_005 - 8000);
  expect(text).toHaveLength(2000);
});

it('goes on after a failed request', async () => {
  const { say, sent } = open({ reply: () => Promise.reject(new Error('unavailable')) });
  say('one');
  await pass(1000);
  say('two');
  await pass(1000);
  expect(sent()).toEqual([
    [0, 'one'],
    [3, 'two'],
  ]);
});

it('sends nothing more of a text whose item is reported, and tells readers to remove one without', async () => {
  const { run, say, requests } = open();
  say('settled', 'a');
  say('discarded', 'b');
  run.settle('a');
  await pass(1000);
  run.discard('b');
  await pass(1000);
  say('after the end', 'c');
  run.close();
  await pass(1000);
  expect(requests.flat().map(({ key, text }) => `${key} ${text}`)).toEqual(['b discarded', 'b ']);
});

it('keeps few texts, and all runs get their turn', async () => {
  const { live, run, say, requests } = open();
  live.update([]);
  for (let i = 0; i < 50; i += 1) say('x', `key ${i}`);
  const others = Array.from({ length: 250 }, (_, i) =>
    live.open({ agentKey: `b${i}`, runId: 1 }, mask, token),
  );
  for (const other of others) other.add({ key: 'k', type: 'TOOL_RESULT', text: 'y' });
  live.update(['a', ...others.map(({ ref }) => ref.agentKey)].map((agentKey) => ({ agentKey, since: 1 })));
  await pass(5000);
  expect(requests.flat().filter(({ agentKey }) => agentKey === run.ref.agentKey)).toHaveLength(16);
  expect(new Set(requests.flat().map(({ agentKey }) => agentKey)).size).toBe(251);
  expect(Math.max(...requests.map(({ length }) => length))).toBe(100);
});
