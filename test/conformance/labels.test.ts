import type { AgentEntry, ListRequest } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import { accepted, type Fields } from '../support/agents.ts';
import { apiWithNewKey } from '../support/catalog.ts';
import { expectError } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { openStream } from '../support/streams.ts';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';

const { api } = await useSharedServer({ runner: false });

type Labels = Record<string, string>;

const label = async (t: TestTenant, path: string, labels: Fields): Promise<Labels> =>
  accepted('labels', await t.send<{ labels: Labels }>('agent/labels', path, { labels })).labels;

async function listed(t: TestTenant, more: ListRequest): Promise<string[]> {
  const paths: string[] = [];
  let pageToken = '';
  do {
    const page = accepted(
      'list',
      await api.post<{ entries: AgentEntry[]; nextPageToken: string }>('/v1/agents', {
        workspace: t.workspace,
        allDepths: true,
        ...more,
        pageToken,
      }),
    );
    paths.push(...page.entries.map(({ agentId }) => agentId.agent.join('/')));
    pageToken = page.nextPageToken;
  } while (pageToken !== '');
  return paths;
}

const numbered = (count: number): Labels =>
  Object.fromEntries(Array.from({ length: count }, (_, i) => [`key-${i}`, 'x']));

describe('labels of an agent', () => {
  test('are set at spawn; status and list entries have them', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', { labels: { team: 'web', 'app.io/tier': 'front end', empty: '' } });
    await t.spawn('b');
    const labels = { team: 'web', 'app.io/tier': 'front end' };
    expect((await t.status('a')).labels).toEqual(labels);
    expect((await t.status('b')).labels).toEqual({});
    const { entries } = (await api.post<{ entries: AgentEntry[] }>('/v1/agents', { workspace: t.workspace }))
      .body;
    expect(entries.map((entry) => entry.labels)).toEqual([{}, labels]);
  });

  test('are merged by the route, and an empty value removes', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', { labels: { team: 'web', sprint: '7' } });
    expect(await label(t, 'a', { sprint: '', team: 'core', owner: 'ada' })).toEqual({
      team: 'core',
      owner: 'ada',
    });
    expect(await label(t, 'a', {})).toEqual({ team: 'core', owner: 'ada' });
    expect(await label(t, 'a', { never: '' })).toEqual({ team: 'core', owner: 'ada' });
    expect((await t.status('a')).labels).toEqual({ team: 'core', owner: 'ada' });
  });

  test('stay through runs and the end of the agent, which can still be labelled', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', { labels: { team: 'web' } });
    await t.turn('a', { finished: true });
    expect(await label(t, 'a', { outcome: 'good' })).toEqual({ team: 'web', outcome: 'good' });
    expect((await t.status('a')).phase).toBe('PHASE_COMPLETED');
  });

  test('names that every object has are ordinary keys, except __proto__', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const labels = { constructor: 'a', toString: 'b', hasOwnProperty: 'c' };
    expect(await label(t, 'a', labels)).toEqual(labels);
    expect(await listed(t, { labels })).toEqual(['a']);
    expect(await listed(t, { labels: { valueOf: 'x' } })).toEqual([]);
    const body = `{"agentId": ${JSON.stringify(t.id('a'))}, "labels": {"__proto__": "x"}}`;
    expectError(await api.post('/v1/agent/labels', body), 'INVALID_ARGUMENT', /^labels/);
  });

  test.each<[what: string, labels: Fields]>([
    ['an empty key', { '': 'x' }],
    ['a key of 64 characters', { ['k'.repeat(64)]: 'x' }],
    ['a key with white space', { 'a b': 'x' }],
    ['a key with =', { 'a=b': 'x' }],
    ['a key with a comma', { 'a,b': 'x' }],
    ['a value of 257 characters', { a: 'v'.repeat(257) }],
    ['a value with a line break', { a: 'x\ny' }],
    ['a value that is a number', { a: 7 }],
    ['33 labels', numbered(33)],
  ])('%s is refused by spawn, by the route and by list', async (_what, labels) => {
    const t = await newTestTenant(api);
    expectError(await t.send('agent/spawn', 'a', { labels }), 'INVALID_ARGUMENT', /^labels/);
    await t.spawn('a');
    expectError(await t.send('agent/labels', 'a', { labels }), 'INVALID_ARGUMENT', /^labels/);
    expectError(await api.post('/v1/agents', { labels }), 'INVALID_ARGUMENT', /^labels/);
  });

  test('the longest key and value, and 32 labels, are accepted; one more is RESOURCE_EXHAUSTED', async () => {
    const t = await newTestTenant(api);
    const longest = { ['k'.repeat(63)]: '😀'.repeat(256) };
    await t.spawn('a', { labels: { ...numbered(31), ...longest } });
    expect((await t.status('a')).labels).toEqual({ ...numbered(31), ...longest });
    expect(await listed(t, { labels: longest })).toEqual(['a']);
    expectError(await t.send('agent/labels', 'a', { labels: { more: 'x' } }), 'RESOURCE_EXHAUSTED');
    expect(await label(t, 'a', { more: 'x', 'key-0': '' })).toHaveProperty('more');
  });

  test('a null value is the same as an absent one', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', { labels: { team: 'web' } });
    expect(await label(t, 'a', { team: null })).toEqual({ team: 'web' });
  });

  test('anyone who may command the agent may label it; others may not', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const body = { agentId: { ...t.id('a'), account: 'admin' }, labels: { team: 'web' } };
    for (const role of ['viewer', 'member']) {
      const other = await apiWithNewKey(api, { role, account: 'other' });
      expectError(await other.post('/v1/agent/labels', body), 'PERMISSION_DENIED');
    }
    expectError(await t.send('agent/labels', 'nobody', { labels: {} }), 'NOT_FOUND');
  });
});

describe('a list by labels', () => {
  test('has the agents with all of them, newest first, page by page', async () => {
    const t = await newTestTenant(api);
    for (const [path, labels] of Object.entries({
      a: { team: 'web', tier: '1' },
      b: { team: 'web', tier: '2' },
      'b/child': { team: 'web', tier: '1' },
      c: { team: 'core', tier: '1' },
      d: {},
    }))
      await t.spawn(path, { labels });
    expect(await listed(t, { labels: { team: 'web' } })).toEqual(['b/child', 'b', 'a']);
    expect(await listed(t, { labels: { team: 'web' }, pageSize: 1 })).toEqual(['b/child', 'b', 'a']);
    expect(await listed(t, { labels: { team: 'web', tier: '1' } })).toEqual(['b/child', 'a']);
    expect(await listed(t, { labels: { tier: '1', team: 'core' } })).toEqual(['c']);
    expect(await listed(t, { labels: { team: 'core', tier: '2' } })).toEqual([]);
    expect(await listed(t, { labels: { team: 'web' }, allDepths: false })).toEqual(['b', 'a']);
    expect(await listed(t, { labels: { tier: '1' }, parentId: t.id('b') })).toEqual(['b/child']);
    expect(await listed(t, { labels: {} })).toHaveLength(5);
  });

  test('has ended agents with includeTerminal, and follows changes of labels', async () => {
    const t = await newTestTenant(api);
    for (const path of ['a', 'b', 'c']) await t.spawn(path, { labels: { team: 'web' } });
    await t.kill('a');
    await label(t, 'b', { team: 'core' });
    const labels = { team: 'web' };
    expect(await listed(t, { labels })).toEqual(['c']);
    expect(await listed(t, { labels, includeTerminal: true })).toEqual(['c', 'a']);
    const lately = { includeTerminal: true, endedSince: new Date(Date.now() - 60_000).toISOString() };
    expect(await listed(t, { labels, ...lately })).toEqual(['c', 'a']);
    await label(t, 'a', { team: '' });
    expect(await listed(t, { labels, includeTerminal: true })).toEqual(['c']);
  });

  test('of one account has no agents of others', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', { labels: { team: 'web' } });
    const other = await apiWithNewKey(api, { role: 'member', account: 'labeller' });
    accepted('spawn', await other.post('/v1/agent/spawn', { agentId: t.id('z'), labels: { team: 'web' } }));
    expect(await listed(t, { labels: { team: 'web' } })).toEqual(['a']);
    expect(await listed(t, { labels: { team: 'web' }, account: '*' })).toEqual(['z', 'a']);
  });

  test('as a stream sends an agent that gets the label, and once more one that loses it', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', { labels: { team: 'web' } });
    await t.spawn('b');
    const stream = await openStream<AgentEntry>(api, '/v1/agents/stream', {
      workspace: t.workspace,
      labels: { team: 'web' },
      includeTerminal: true,
    });
    const shows = (path: string, team: string | undefined) =>
      stream.until(
        ({ type, data }) =>
          type === 'entry' && data.agentId.agent.join('/') === path && data.labels.team === team,
      );
    try {
      expect(await shows('a', 'web')).toBe(true);
      await label(t, 'b', { team: 'web' });
      expect(await shows('b', 'web')).toBe(true);
      await label(t, 'a', { team: '' });
      expect(await shows('a', undefined)).toBe(true);
    } finally {
      stream.close();
    }
  });
});

test('an account of <provider_name>/* is every account of that provider', async () => {
  const t = await newTestTenant(api);
  await t.spawn('mine');
  const other = await apiWithNewKey(api, { role: 'member', account: 'someone' });
  accepted('spawn', await other.post('/v1/agent/spawn', { agentId: t.id('theirs') }));
  const service = await apiWithNewKey(api, {
    role: 'member',
    ownerProvider: 'PROVIDER_SERVICE_PROFILE',
    account: 'robot',
  });
  accepted('spawn', await service.post('/v1/agent/spawn', { agentId: t.id('robots') }));
  expect(await listed(t, { account: 'codehost_oauth/*' })).toEqual(['theirs', 'mine']);
  expect(await listed(t, { account: 'service_profile/*' })).toEqual(['robots']);
  expect(await listed(t, { account: 'idp_oidc/*' })).toEqual([]);
  expect(await listed(t, { account: '*' })).toEqual(['robots', 'theirs', 'mine']);
  expectError(await api.post('/v1/agents', { account: 'nothing/*' }), 'INVALID_ARGUMENT', 'account');
});
