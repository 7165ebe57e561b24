import type { ReplyOf } from '@muster/sdk/contract';
import { afterAll, expect, test } from 'vitest';
import { type Api, apiOf } from '../support/api.ts';
import { until } from '../support/async.ts';
import { freshDatabase, useDatabase } from '../support/database.ts';
import { expectOk } from '../support/expect-reply.ts';
import { bootstrapKey, startServer } from '../support/server.ts';
import { newTestTenant } from '../support/test-tenant.ts';

// Its own database: the node that does maintenance is the one that starts last.
const store = await freshDatabase();
afterAll(store.drop);
const database = await useDatabase(store.url);
const key = bootstrapKey();
const options = { runner: false, databaseUrl: store.url, env: { MUSTER_BOOTSTRAP_KEY: key } };

/** A node that begins with maintenance. */
async function restarted(): Promise<{ api: Api; close: () => Promise<void> }> {
  await database.query("UPDATE maintenance SET lease_until = '-infinity'");
  const server = await startServer(options);
  return { api: apiOf({ url: server.url, key }), close: () => server.close() };
}

const used = (times: number) => ({
  inputTokens: 100 * times,
  outputTokens: 10 * times,
  costUsd: 0.25 * times,
});
const parts = (times: number) => [{ model: 'm', account: 'anthropic/a', ...used(times) }];

const usage = async (api: Api, request: object = {}) =>
  expectOk(await api.post<ReplyOf<'usage'>>('/v1/usage', { interval: 'total', ...request })).rows;

/** Cost by these keys, and how many runs. */
const usageBy = async (api: Api, groupBy: string[], request: object = {}) =>
  Object.fromEntries(
    (await usage(api, { groupBy, ...request })).map(({ keys, costUsd, runs }) => [
      groupBy.map((name) => keys[name]).join(' '),
      [costUsd, runs],
    ]),
  );

const unmetered = async () =>
  (await database.query<{ agent: string }>('SELECT agent FROM runs WHERE is_metered IS NULL')).rows.length;

test('what an earlier build recorded is imported once, under the hour of the end of the run', async () => {
  const { api, close } = await restarted();
  const t = await newTestTenant(api);
  const runOf = async (name: string, times: number) => {
    await t.spawn(name, { model: 'claude-opus-4-8' });
    const run = await t.start(name);
    await t.report(run, { usage: { ...used(times), parts: parts(times) } });
    return run;
  };
  for (const name of ['before', 'during', 'deleted']) {
    await runOf(name, 2);
    await t.kill(name);
  }
  await runOf('live', 1);
  const ofPaths = 'agent IN (SELECT id FROM agents WHERE path = ANY ($1))';
  // An earlier build took all reports of two of the runs, and a second one of the third.
  await database.query(`DELETE FROM usage_hours WHERE ${ofPaths}`, [['before', 'deleted']]);
  await database.query(
    `UPDATE runs SET cost = cost + 0.25, input_tokens = input_tokens + 100 WHERE ${ofPaths}`,
    [['during']],
  );
  await database.query(
    `UPDATE runs SET ended_at = now() - interval '3 days', gone_at = now() - interval '3 days' WHERE ${ofPaths}`,
    [['before', 'during', 'deleted']],
  );
  const before = { before: [0.5, 1], during: [0.75, 1], live: [0.25, 1], '': [0.5, 1] };
  expectOk(await t.send('agent/delete', 'deleted', {}));
  await close();

  for (let time = 0; time < 2; time += 1) {
    const { api: after, close: closeAfter } = await restarted();
    await until('the live run is left', unmetered, (count) => count === 1);
    await until(
      'the deleted agent erased',
      async () => (await database.query('SELECT FROM deleted_agents WHERE erased_at IS NULL')).rows.length,
      (count) => count === 0,
    );
    expect(await usageBy(after, ['agent'])).toEqual(before);
    expect(await usageBy(after, ['model', 'providerAccount'])).toEqual({
      'claude-opus-4-8 ': [1.25, 3],
      'm anthropic/a': [0.75, 2],
    });
    const [row] = await usage(after, { filter: { agent: 'before' } });
    expect(row).toMatchObject({ inputTokens: '200', outputTokens: '20' });
    const days = await usage(after, { interval: 'day', filter: { agent: 'before' } });
    expect(days.map(({ start }) => start.slice(0, 10))).toEqual([
      new Date(Date.now() - 3 * 86_400_000).toISOString().slice(0, 10),
    ]);
    await closeAfter();
  }
});

test('after 400 days usage is stored by the day', async () => {
  const { api, close } = await restarted();
  const t = await newTestTenant(api);
  await t.spawn('a');
  await t.report(await t.start('a'), { usage: used(1) });
  const copies = (ago: string, hour: number, run: number) =>
    database.query(
      `INSERT INTO usage_hours SELECT tenant, date_trunc('day', now() - $1::interval, 'UTC') + make_interval(hours => $2), agent, $3,
         model, provider_account, root, owner_provider, account, workspace, backend, cost, input_tokens, cached_tokens,
         output_tokens, unpriced_tokens, is_estimated
       FROM usage_hours WHERE workspace = $4 AND run = 1 ORDER BY hour DESC LIMIT 1`,
      [ago, hour, run, t.workspace],
    );
  for (const [hour, run] of [
    [0, 2],
    [9, 2],
    [23, 3],
  ] as const)
    await copies('402 days', hour, run);
  await copies('403 days', 23, 4);
  await copies('399 days', 5, 5);
  const range = { from: new Date(Date.now() - 500 * 86_400_000).toISOString() };
  const rows = async (by: Api, interval: string) =>
    (await usage(by, { ...range, interval, filter: { workspace: t.workspace } })).map(
      ({ costUsd, runs, inputTokens }) => [costUsd, runs, inputTokens],
    );
  const days = [
    [0.25, 1, '100'],
    [0.75, 2, '300'],
    [0.25, 1, '100'],
    [0.25, 1, '100'],
  ];
  expect(await rows(api, 'day')).toEqual(days);
  await close();

  const { api: after, close: closeAfter } = await restarted();
  const merged = async () => (await database.query('SELECT FROM usage_days')).rows.length;
  await until('two days merged', merged, (count) => count === 2);
  expect(await rows(after, 'day')).toEqual(days);
  expect(await rows(after, 'total')).toEqual([[1.5, 5, '600']]);
  const { rows: left } = await database.query(
    "SELECT FROM usage_hours WHERE hour < now() - interval '401 days'",
  );
  expect(left).toEqual([]);
  await closeAfter();
});
