import { randomUUID } from 'node:crypto';
import type { ReplyOf, UsageRow } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import type { Api } from '../support/api.ts';
import { createKey } from '../support/catalog.ts';
import { useDatabase } from '../support/database.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { newTenant } from '../support/tenants.ts';

const { operator, databaseUrl, api: other } = await useSharedServer({ runner: false });
const database = await useDatabase(databaseUrl);

type Fields = Record<string, unknown>;

interface Stored {
  readonly table?: 'hour' | 'day';
  readonly at: string;
  readonly cost?: number;
  readonly agent?: string;
  readonly run?: number;
  readonly model?: string;
}

/** A tenant that used this. */
async function tenantWith(...rows: readonly Stored[]) {
  const { tenant, admin } = await newTenant(operator);
  for (const { table = 'hour', at, cost = 1, agent = randomUUID(), run = 1, model = 'm' } of rows)
    await database.query(
      `INSERT INTO usage_${table}s (tenant, ${table}, agent, ${table === 'hour' ? 'run' : 'runs'}, model, provider_account, root,
         owner_provider, account, workspace, backend, cost, input_tokens, cached_tokens, output_tokens, unpriced_tokens, is_estimated)
       SELECT id, $3, $4, $5, $6, '', $4, 'PROVIDER_CODEHOST_OAUTH', 'ada', 'w', 'BACKEND_A', $7, 1, 0, 1, 0, false
       FROM tenants WHERE provider = $1 AND org = $2`,
      [tenant.provider, tenant.org, at, agent, run, model, cost],
    );
  return { tenant, admin };
}

const usage = async (api: Api, request: Fields): Promise<UsageRow[]> =>
  expectOk(await api.post<ReplyOf<'usage'>>('/v1/usage', request)).rows;
const costs = async (api: Api, request: Fields) =>
  (await usage(api, request)).map(({ start, costUsd }) => [start.replace(':00.000Z', 'Z'), costUsd]);

const hours = (from: string, count: number): Stored[] =>
  Array.from({ length: count }, (_, i) => ({ at: new Date(Date.parse(from) + i * 3_600_000).toISOString() }));

describe('intervals', () => {
  test.each([
    ['a day of 25 hours', '2026-10-24T22:00:00Z', '2026-10-25T23:00:00Z', 25],
    ['a day of 23 hours', '2026-03-28T23:00:00Z', '2026-03-29T22:00:00Z', 23],
  ])('of a zone: %s', async (_what, from, to, count) => {
    const { admin } = await tenantWith(...hours(from, count));
    const zone = 'Europe/Berlin';
    expect(await costs(admin, { from, to, zone })).toEqual([[from.replace(':00Z', 'Z'), count]]);
    const byHour = await costs(admin, { from, to, zone, interval: 'hour' });
    expect(byHour).toEqual(hours(from, count).map(({ at }) => [at.replace(':00.000Z', 'Z'), 1]));
    expect(await costs(admin, { from, to })).toHaveLength(2);
  });

  test('a month of a zone, and the total', async () => {
    const { admin } = await tenantWith(...hours('2026-01-31T20:00:00Z', 8));
    const range = { from: '2026-01-01T05:00:00Z', to: '2026-03-01T00:00:00Z', zone: 'Asia/Tokyo' };
    expect(await costs(admin, { ...range, interval: 'month' })).toEqual([['2026-01-31T15:00Z', 8]]);
    expect(await costs(admin, { ...range, zone: 'UTC', interval: 'month' })).toEqual([
      ['2026-01-01T00:00Z', 4],
      ['2026-02-01T00:00Z', 4],
    ]);
    expect(await costs(admin, { ...range, interval: 'total' })).toEqual([['2026-01-01T05:00Z', 8]]);
  });

  test('an hour of UTC counts where it begins in a zone that is off by half an hour', async () => {
    const { admin } = await tenantWith({ at: '2026-05-01T18:00:00Z' }, { at: '2026-05-01T19:00:00Z' });
    const request = { from: '2026-05-01T00:00:00Z', to: '2026-05-02T00:00:00Z', zone: 'Asia/Kolkata' };
    expect(await costs(admin, request)).toEqual([
      ['2026-04-30T18:30Z', 1],
      ['2026-05-01T18:30Z', 1],
    ]);
  });

  test('a range has the whole hours that it touches', async () => {
    const { admin } = await tenantWith(...hours('2026-05-01T08:00:00Z', 4));
    const range = { from: '2026-05-01T09:59:00Z', to: '2026-05-01T10:01:00Z', interval: 'hour' };
    expect(await costs(admin, range)).toEqual([
      ['2026-05-01T09:00Z', 1],
      ['2026-05-01T10:00Z', 1],
    ]);
  });

  test('what is stored by day counts for the day of that date', async () => {
    const { admin } = await tenantWith(
      { table: 'day', at: '2024-05-01T00:00:00Z', run: 3 },
      { at: '2024-05-02T10:00:00Z' },
    );
    for (const [zone, start] of [
      ['America/New_York', '2024-05-01T04:00Z'],
      ['Asia/Tokyo', '2024-04-30T15:00Z'],
    ]) {
      const rows = await costs(admin, { from: '2024-04-30T12:00:00Z', to: '2024-05-02T00:00:00Z', zone });
      expect(rows).toEqual([[start, 1]]);
    }
    const [total] = await usage(admin, {
      from: '2024-04-01T00:00:00Z',
      to: '2024-06-01T00:00:00Z',
      interval: 'total',
    });
    expect(total).toMatchObject({ costUsd: 2, runs: 4, agents: 2 });
  });
});

test('a run and an agent count once in a row, in however many hours and models they used something', async () => {
  const agent = randomUUID();
  const { admin } = await tenantWith(
    { at: '2026-05-01T08:00:00Z', agent },
    { at: '2026-05-01T09:00:00Z', agent },
    { at: '2026-05-01T09:00:00Z', agent, model: 'n' },
    { at: '2026-05-01T09:00:00Z', agent, run: 2 },
    { at: '2026-05-02T09:00:00Z' },
  );
  const range = { from: '2026-05-01T00:00:00Z', to: '2026-05-03T00:00:00Z' };
  const counts = async (request: Fields) =>
    (await usage(admin, { ...range, ...request })).map(({ runs, agents, costUsd }) => [
      runs,
      agents,
      costUsd,
    ]);
  expect(await counts({ interval: 'total' })).toEqual([[3, 2, 5]]);
  expect(await counts({ interval: 'day' })).toEqual([
    [2, 1, 4],
    [1, 1, 1],
  ]);
  expect(await counts({ interval: 'total', groupBy: ['model'] })).toEqual([
    [3, 2, 4],
    [1, 1, 1],
  ]);
});

test('the last 30 days, by day, are the default', async () => {
  const now = Date.now();
  const at = (days: number) => new Date(now - days * 86_400_000).toISOString().replace(/:.*/, ':00:00Z');
  const { admin } = await tenantWith({ at: at(0) }, { at: at(29) }, { at: at(31) });
  const rows = await usage(admin, {});
  expect(rows.map(({ start }) => start.slice(0, 10))).toEqual([at(29).slice(0, 10), at(0).slice(0, 10)]);
});

describe('as CSV', () => {
  const csv = async ({ url, key }: Api, request: Fields, accept = 'text/csv') => {
    const headers = { authorization: `Bearer ${key}`, accept, 'content-type': 'application/json' };
    const reply = await fetch(`${url}/v1/usage`, { method: 'POST', headers, body: JSON.stringify(request) });
    return { headers: reply.headers, text: await reply.text() };
  };
  const range = { from: '2026-05-01T00:00:00Z', to: '2026-05-02T00:00:00Z', interval: 'total' };

  test('has a header and a line per row, and no formula', async () => {
    const { admin } = await tenantWith(
      { at: '2026-05-01T08:00:00Z', model: '=1+"1",2', cost: 0.5 },
      { at: '2026-05-01T08:00:00Z', model: 'm' },
    );
    const reply = await csv(admin, { ...range, groupBy: ['model', 'account'] });
    expect(reply.headers.get('content-type')).toBe('text/csv; charset=utf-8');
    expect(reply.text).toBe(
      [
        'start,model,account,costUsd,estimated,inputTokens,cachedInputTokens,outputTokens,runs,agents,unpricedTokens',
        '2026-05-01T00:00:00.000Z,"\'=1+""1"",2",codehost_oauth/ada,0.5,false,1,0,1,1,1,0',
        '2026-05-01T00:00:00.000Z,m,codehost_oauth/ada,1,false,1,0,1,1,1,0',
        '',
      ].join('\r\n'),
    );
    const first = await csv(admin, { ...range, groupBy: ['model'], pageSize: 1 });
    const pageToken = first.headers.get('muster-next-page-token');
    const second = await csv(admin, { ...range, groupBy: ['model'], pageSize: 1, pageToken });
    expect(second.text.split('\r\n')[1]).toContain('Z,m,1,');
    expect(second.headers.get('muster-next-page-token')).toBeNull();
  });

  test('only if asked for, and an error is JSON', async () => {
    const { admin } = await tenantWith();
    for (const accept of ['*/*', 'application/json', 'application/json, text/csv']) {
      const reply = await csv(admin, range, accept);
      expect(JSON.parse(reply.text)).toEqual({ rows: [], nextPageToken: '' });
    }
    const refused = await admin.post('/v1/usage', { zone: 'x' }, { accept: 'text/csv' });
    expectError(refused, 'INVALID_ARGUMENT', 'zone');
  });
});

describe('who may', () => {
  test('people of the tenant and operators see what it used; nobody else does', async () => {
    const { tenant, admin } = await tenantWith({ at: new Date().toISOString().replace(/:.*/, ':00:00Z') });
    for (const role of ['viewer', 'member', 'admin']) {
      const { api } = await createKey(admin, { role });
      expect(await usage(api, {})).toHaveLength(1);
    }
    expect(await usage(operator, { tenant })).toHaveLength(1);
    expectError(await other.post('/v1/usage', { tenant }), 'PERMISSION_DENIED');
    expect(await usage(other, { filter: { workspace: 'w', account: '*' } })).toEqual([]);
    const { api: runner } = await createKey(admin, { role: 'runner', pool: 'default' });
    expectError(await runner.post('/v1/usage', {}), 'PERMISSION_DENIED');
  });
});
