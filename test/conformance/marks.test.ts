import type { AgentEntry, Caller } from '@muster/sdk/contract';
import pg from 'pg';
import { describe, expect, test } from 'vitest';
import type { Api } from '../support/api.ts';
import { apiWithNewKey, createKey, createShareLink, uniqueName } from '../support/catalog.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { openStream } from '../support/streams.ts';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';

const server = await useSharedServer({ runner: false });
const { api } = server;

const mark = (by: Api, agentId: unknown, marks: object) =>
  by.post('/v1/agents/marks', { marks: [{ agentId, ...marks }] });

async function entryOf(by: Api, t: TestTenant, path = 'a'): Promise<AgentEntry | undefined> {
  const { entries } = expectOk(
    await by.post<{ entries: AgentEntry[] }>('/v1/agents', {
      workspace: t.workspace,
      account: '*',
      allDepths: true,
      includeTerminal: true,
    }),
  );
  return entries.find(({ agentId }) => agentId.agent.join('/') === path);
}

describe('marks of agents', () => {
  test('what was seen only grows, until it is cleared, and never exceeds the timeline', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    expect(await entryOf(api, t)).toMatchObject({ seen: '0', pinned: false });
    for (const [seen, shown] of [
      [1, '1'],
      ['0', '0'],
      [-5, '0'],
      ['9223372036854775807', 'all'],
      [1, 'all'],
      [0, '0'],
    ] as const) {
      expectOk(await mark(api, t.id('a'), { seen }));
      const entry = await entryOf(api, t);
      expect(entry?.seen, String(seen)).toBe(shown === 'all' ? entry?.sequence : shown);
    }
  });

  test('a pin and what was seen are independent', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    await mark(api, t.id('a'), { pinned: true });
    expect(await entryOf(api, t)).toMatchObject({ seen: '0', pinned: true });
    await mark(api, t.id('a'), { seen: 1 });
    expect(await entryOf(api, t)).toMatchObject({ seen: '1', pinned: true });
    await mark(api, t.id('a'), {});
    expect(await entryOf(api, t)).toMatchObject({ seen: '1', pinned: true });
    await mark(api, t.id('a'), { pinned: false });
    expect(await entryOf(api, t)).toMatchObject({ seen: '1', pinned: false });
  });

  test('belong to an account: every key of it shows them, and no other one', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const [phone, desk] = [
      await apiWithNewKey(api, { role: 'member', account: 'mo' }),
      await apiWithNewKey(api, { role: 'viewer', account: 'mo' }),
    ];
    const other = await apiWithNewKey(api, { role: 'member', account: 'olga' });
    await mark(phone, (await entryOf(api, t))?.agentId, { pinned: true, seen: 1 });
    expect(await entryOf(desk, t)).toMatchObject({ seen: '1', pinned: true });
    for (const reader of [other, api])
      expect(await entryOf(reader, t)).toMatchObject({ seen: '0', pinned: false });
  });

  test('reach the open lists of their account, and wake nobody else', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const [mine, others] = [
      await apiWithNewKey(api, { role: 'viewer', account: 'ann' }),
      await apiWithNewKey(api, { role: 'viewer', account: 'bob' }),
    ];
    const open = (by: Api) =>
      openStream<AgentEntry>(by, '/v1/agents/stream', { workspace: t.workspace, account: '*' });
    const [list, theirs] = [await open(mine), await open(others)];
    for (const stream of [list, theirs]) await stream.until(({ type }) => type === 'whole');
    await mark(mine, (await entryOf(api, t))?.agentId, { pinned: true });
    expect(await list.until(({ data }) => data.pinned)).toBe(true);
    await t.spawn('b');
    const isB = ({ data }: { data: AgentEntry }) => data.agentId?.agent[0] === 'b';
    expect(await theirs.until(isB)).toBe(true);
    expect(theirs.seen.filter(({ type }) => type === 'entry')).toHaveLength(2);
    for (const stream of [list, theirs]) stream.close();
  });

  test('one request marks many; unknown agents are ignored, and the last mark of one counts', async () => {
    const t = await newTestTenant(api);
    for (const name of ['a', 'b']) await t.spawn(name);
    const marks = [
      { agentId: t.id('a'), pinned: true },
      { agentId: t.id('gone'), pinned: true },
      { agentId: t.id('b'), seen: 1 },
      { agentId: t.id('a'), pinned: false, seen: 1 },
    ];
    expectOk(await api.post('/v1/agents/marks', { marks }));
    expect(await entryOf(api, t)).toMatchObject({ seen: '1', pinned: false });
    expect(await entryOf(api, t, 'b')).toMatchObject({ seen: '1', pinned: false });
    expect(await entryOf(api, t, 'gone')).toBeUndefined();
  });

  test('a new agent of the same name has none', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    await mark(api, t.id('a'), { pinned: true, seen: 1 });
    await t.kill('a');
    await t.spawn('a');
    expect(await entryOf(api, t)).toMatchObject({ seen: '0', pinned: false, phase: 'PHASE_PENDING' });
  });

  test('of an account that has too many, those of the oldest agents go', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const account = uniqueName('busy');
    const { api: busy } = await createKey(api, { role: 'member', account });
    const { ownerProvider } = expectOk(await busy.get<Caller>('/v1/whoami'));
    const { agentId } = (await entryOf(api, t)) as AgentEntry;
    const client = new pg.Client({ connectionString: server.databaseUrl });
    await client.connect();
    // The agents need not exist.
    await client.query('SET session_replication_role = replica');
    await client.query(
      `INSERT INTO agent_marks (tenant, agent, owner_provider, account, seen)
       SELECT t.id, ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid, $3, $1, 1
       FROM tenants t, generate_series(1, 20001) n WHERE t.org = $2`,
      [account, agentId.tenant.org, ownerProvider],
    );
    expectOk(await mark(busy, agentId, { seen: 1 }));
    const { rows } = await client.query(
      'SELECT count(*)::int AS marks, min(agent::text) AS oldest FROM agent_marks WHERE account = $1',
      [account],
    );
    await client.query('DELETE FROM agent_marks WHERE account = $1', [account]);
    await client.end();
    expect(rows).toEqual([{ marks: 20_000, oldest: '00000000-0000-4000-8000-000000000003' }]);
    expect(await entryOf(busy, t)).toMatchObject({ seen: '0' });
  });

  test('are only of people, within limits', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const share = (await createShareLink(api, t.id('a'))).api;
    expectError(await mark(share, t.id('a'), { pinned: true }), 'PERMISSION_DENIED');
    await mark(api, t.id('a'), { pinned: true });
    expect(expectOk(await api.post<object>('/v1/agent/status', { agentId: t.id('a') }))).not.toHaveProperty(
      'pinned',
    );
    const many = Array.from({ length: 501 }, () => ({ agentId: t.id('a'), seen: 1 }));
    expectError(await api.post('/v1/agents/marks', { marks: many }), 'INVALID_ARGUMENT', 'marks');
    expectError(await mark(api, {}, { seen: 1 }), 'INVALID_ARGUMENT', 'marks[0].agentId.agent');
    expectError(await api.post('/v1/agents/marks', {}), 'INVALID_ARGUMENT', 'marks');
  });
});
