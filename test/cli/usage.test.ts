import { beforeAll, expect, test } from 'vitest';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';
import { userOfSharedServer } from './cli.ts';

const ada = userOfSharedServer({ runner: false });
let t: TestTenant;

beforeAll(async () => {
  t = await newTestTenant(ada.api);
  for (const [name, costUsd] of [
    ['small', 0.5],
    ['large', 2.25],
  ] as const) {
    await t.spawn(name, { labels: { team: 'web' } });
    const amounts = { inputTokens: 12_000, cachedInputTokens: 100, outputTokens: 40, costUsd };
    const part = {
      ...amounts,
      model: 'm',
      account: 'chatgpt/1',
      estimated: name === 'small',
      unpricedTokens: 7,
    };
    await t.report(await t.start(name), { usage: { ...amounts, parts: [part] } });
  }
});

const usage = (...args: string[]) => ['usage', '--filter', `workspace=${t.workspace}`, ...args];

test('usage prints a table, the largest first, and its total', async () => {
  const { out, err } = await ada.muster(usage('--by', 'agent'));
  expect(out.split('\n').map((line) => line.trim().split(/ +/))).toEqual([
    ['AGENT', 'COST', 'IN', 'CACHED', 'OUT', 'UNPRICED', 'RUNS', 'AGENTS'],
    ['large', '$2.25', '12k', '100', '40', '7', '1', '1'],
    ['small', '~$0.50', '12k', '100', '40', '7', '1', '1'],
    [''],
    ['total:', '$2.75'],
    [''],
  ]);
  expect(err).toContain('list price');
});

test('usage prints days of the time zone, data, and CSV', async () => {
  const today = new Date().toISOString().slice(0, 10);
  const days = await ada.prints(usage('--interval', 'day', '--from', '2h', '--zone', 'UTC'));
  expect(days).toContain(`\n${today}  ~$2.75`);
  const rows = await ada.data(usage('--by', 'label:team', '--by', 'model'));
  expect(rows).toMatchObject([{ keys: { 'label:team': 'web', model: 'm' }, costUsd: 2.75, runs: 2 }]);
  const csv = await ada.prints(usage('--by', 'agent', '--csv'));
  expect(csv.split('\r\n').map((line) => line.split(',')[1])).toEqual(['agent', 'large', 'small', undefined]);
  expect(await ada.muster(usage('--filter', 'agent=none'))).toMatchObject({ out: '', code: 0 });
});

test('usage says what is wrong with its options', async () => {
  for (const [args, text] of [
    [['--by', 'colour'], 'groupBy[0]'],
    [['--from', 'whenever'], '--from: "whenever" is not a time'],
    [['--filter', 'x'], 'filter "x": expected key=value'],
    [['--csv', '-o', 'json'], 'use --csv or --output, not both'],
  ] as const) {
    const { code, err } = await ada.muster(usage(...args));
    expect([code, err]).toEqual([2, expect.stringContaining(text)]);
  }
});
