import type { AgentEntry } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import { type Api, statusOf } from '../support/api.ts';
import { apiWithNewKey, newMember, uniqueName, writeResource } from '../support/catalog.ts';
import { expectError } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { newTestTenant } from '../support/test-tenant.ts';

const { api: admin } = await useSharedServer({ runner: false });

type Fields = Record<string, unknown>;

interface Page {
  readonly entries: AgentEntry[];
  readonly nextPageToken: string;
}

const spawn = async (api: Api, agent: string[], more: Fields = {}) => {
  const answer = await api.post('/v1/agent/spawn', { agentId: { agent, ...more }, description: 'x' });
  expect(answer.status, JSON.stringify(answer.body)).toBe(200);
};

const kill = (api: Api, ...agent: string[]) => api.post('/v1/agent/kill', { agentId: { agent } });

const page = async (api: Api, request: Fields = {}): Promise<Page> => {
  const { status, body } = await api.post<Page>('/v1/agents', request);
  expect(status, JSON.stringify(body)).toBe(200);
  return body;
};

const paths = async (api: Api, request: Fields = {}) =>
  (await page(api, request)).entries.map(({ agentId }) => agentId.agent.join('/'));

describe('accounts', () => {
  test('an empty account, or none, means the caller’s own agents, newest first', async () => {
    const { api } = await newMember(admin);
    for (const name of ['first', 'second', 'third']) await spawn(api, [name]);
    expect(await paths(api)).toEqual(['third', 'second', 'first']);
    expect(await paths(api, { account: '' })).toEqual(['third', 'second', 'first']);
    expect(await page(api)).toHaveProperty('nextPageToken', '');
  });

  test('`*` means every account', async () => {
    const [one, two] = [await newMember(admin), await newMember(admin)];
    await writeResource(admin, 'profile', 'robot', {});
    await spawn(one.api, ['star-one']);
    await spawn(two.api, ['star-two']);
    const owner = { ownerProvider: 'PROVIDER_SERVICE_PROFILE', account: 'robot' };
    await spawn(admin, ['star-robot'], owner);
    const all = await paths(one.api, { account: '*', text: 'star-' });
    expect(all).toEqual(['star-robot', 'star-two', 'star-one']);
  });

  test('a bare name means one account of the caller’s own provider', async () => {
    const { api } = await newMember(admin);
    const account = uniqueName('twin');
    await spawn(admin, ['ours'], { account });
    await spawn(admin, ['idp'], { account, ownerProvider: 'PROVIDER_IDP_OIDC' });
    expect(await paths(api, { account })).toEqual(['ours']);
    const idp = await apiWithNewKey(admin, {
      role: 'viewer',
      ownerProvider: 'PROVIDER_IDP_OIDC',
      account: 'v',
    });
    expect(await paths(idp, { account })).toEqual(['idp']);
  });

  test('<provider_name>/<account> means one account of that provider', async () => {
    const account = uniqueName('profile');
    await writeResource(admin, 'profile', account, {});
    await spawn(admin, ['bot'], { account, ownerProvider: 'PROVIDER_SERVICE_PROFILE' });
    await spawn(admin, ['human'], { account });
    expect(await paths(admin, { account: `service_profile/${account}` })).toEqual(['bot']);
    expect(await paths(admin, { account: `codehost_oauth/${account}` })).toEqual(['human']);
    expect(await paths(admin, { account: `idp_oidc/${account}` })).toEqual([]);
  });

  test('an account without agents has an empty list', async () => {
    expect(await page(admin, { account: uniqueName('nobody') })).toEqual({ entries: [], nextPageToken: '' });
  });

  test.each([
    'github/ann',
    'PROVIDER_IDP_OIDC/ann',
    '/ann',
    'x/',
    'service_profile/',
    '**',
    'a/b/c',
    'idp_oidc/b/c',
    'idp_oidc/**',
  ])('the account %j is refused', async (account) => {
    expectError(await admin.post('/v1/agents', { account }), 'INVALID_ARGUMENT', 'account');
  });
});

describe('phases', () => {
  test('ended agents are listed only with includeTerminal, which changes nothing else', async () => {
    const { api } = await newMember(admin);
    const t = await newTestTenant(admin);
    const account = (await api.get<{ account: string }>('/v1/whoami')).body.account;
    const owned = { agentId: { ...t.id('x'), account } };
    for (const name of ['live', 'completed', 'failed', 'canceled']) {
      await t.spawn(name, { agentId: { ...owned.agentId, agent: [name] } });
    }
    const claims = { completed: await t.claim('completed'), failed: await t.claim('failed') };
    await t.end(claims.completed, 'COMPLETED', { finished: true });
    await t.end(claims.failed, 'FAILED', { error: { code: 'REHEARSED_FAILURE', message: 'x' } });
    await kill(api, 'canceled');
    expect(await paths(api)).toEqual(['live']);
    expect(await paths(api, { includeTerminal: false })).toEqual(['live']);
    const entries = (await page(api, { includeTerminal: true })).entries;
    expect(entries.map(({ agentId, phase }) => [agentId.agent[0], phase]).toSorted()).toEqual([
      ['canceled', 'PHASE_CANCELED'],
      ['completed', 'PHASE_COMPLETED'],
      ['failed', 'PHASE_FAILED'],
      ['live', expect.stringMatching(/^PHASE_(PENDING|RUNNING)$/)],
    ]);
  });

  test('includeTerminal does not change the account scope', async () => {
    const [mine, other] = [await newMember(admin), await newMember(admin)];
    await spawn(other.api, ['theirs']);
    await kill(other.api, 'theirs');
    expect(await paths(mine.api, { includeTerminal: true })).toEqual([]);
    expect(await paths(mine.api, { includeTerminal: true, account: other.account })).toEqual(['theirs']);
  });

  test('`phases` selects phases; terminal ones still need includeTerminal', async () => {
    const { api } = await newMember(admin);
    await spawn(api, ['live']);
    await spawn(api, ['dead']);
    await kill(api, 'dead');
    expect(await paths(api, { phases: ['PHASE_PENDING'] })).toEqual(['live']);
    expect(await paths(api, { phases: ['PHASE_RUNNING', 'PHASE_WAITING_FOR_INPUT'] })).toEqual([]);
    expect(await paths(api, { phases: ['PHASE_CANCELED'] })).toEqual([]);
    expect(await paths(api, { phases: ['PHASE_CANCELED'], includeTerminal: true })).toEqual(['dead']);
    expect(await paths(api, { phases: [], includeTerminal: true })).toEqual(['dead', 'live']);
    expectError(await api.post('/v1/agents', { phases: ['RUNNING'] }), 'INVALID_ARGUMENT', /^phases/);
  });
});

describe('one level deep', () => {
  test('without parentId the list has the roots, with it that agent’s children', async () => {
    const { api } = await newMember(admin);
    for (const path of [['r'], ['r', 'a'], ['r', 'b'], ['r', 'a', 'x'], ['s']]) await spawn(api, path);
    expect(await paths(api)).toEqual(['s', 'r']);
    expect(await paths(api, { parentId: { agent: ['r'] } })).toEqual(['r/b', 'r/a']);
    expect(await paths(api, { parentId: { agent: ['r', 'a'] } })).toEqual(['r/a/x']);
    expect(await paths(api, { parentId: { agent: ['s'] } })).toEqual([]);
    expect((await page(api)).entries.map(({ childCount }) => childCount)).toEqual([0, 2]);
  });

  test('an empty path in parentId means the roots', async () => {
    const { api } = await newMember(admin);
    await spawn(api, ['r']);
    await spawn(api, ['r', 'a']);
    for (const parentId of [{}, { agent: [] }, null]) expect(await paths(api, { parentId })).toEqual(['r']);
  });

  test('the account filters children too', async () => {
    const [mine, other] = [await newMember(admin), await newMember(admin)];
    await spawn(mine.api, ['r']);
    await spawn(mine.api, ['r', 'a']);
    const parentId = { agent: ['r'], account: mine.account };
    expect(await paths(other.api, { parentId })).toEqual([]);
    expect(await paths(other.api, { parentId, account: mine.account })).toEqual(['r/a']);
    expect(await paths(other.api, { parentId, account: '*' })).toEqual(['r/a']);
  });

  test('a parent that does not exist is NOT_FOUND', async () => {
    expectError(await admin.post('/v1/agents', { parentId: { agent: ['nobody'] } }), 'NOT_FOUND');
  });

  test('ended children need includeTerminal, under an ended parent too', async () => {
    const { api } = await newMember(admin);
    await spawn(api, ['r']);
    await spawn(api, ['r', 'a']);
    await kill(api, 'r');
    const parentId = { agent: ['r'] };
    expect(await paths(api, { parentId })).toEqual([]);
    expect(await paths(api, { parentId, includeTerminal: true })).toEqual(['r/a']);
  });
});

describe('all depths', () => {
  const family = async () => {
    const { api, account } = await newMember(admin);
    for (const path of [['r'], ['r', 'a'], ['s'], ['r', 'a', 'x'], ['r', 'b'], ['s', 'a']])
      await spawn(api, path);
    return { api, account };
  };

  test('allDepths without a parent lists every agent, newest first', async () => {
    const { api } = await family();
    expect(await paths(api, { allDepths: true })).toEqual(['s/a', 'r/b', 'r/a/x', 's', 'r/a', 'r']);
    expect(await paths(api, { allDepths: false })).toEqual(['s', 'r']);
  });

  test('allDepths with a parent lists everything below it', async () => {
    const { api } = await family();
    const below = (agent: string[]) => paths(api, { parentId: { agent }, allDepths: true });
    expect(await below(['r'])).toEqual(['r/b', 'r/a/x', 'r/a']);
    expect(await below(['r', 'a'])).toEqual(['r/a/x']);
    expect(await below(['r', 'b'])).toEqual([]);
    expectError(
      await api.post('/v1/agents', { parentId: { agent: ['nobody'] }, allDepths: true }),
      'NOT_FOUND',
    );
  });

  test('agents whose names only start alike are not below it', async () => {
    const { api } = await newMember(admin);
    const names = ['r', 'r-', 'r.', 'r0', 'ra', 'r_'];
    for (const name of names) await spawn(api, [name]);
    for (const name of ['x', 'x-', 'x0'])
      for (const path of [
        ['r', name],
        ['r', name, 'y'],
      ])
        await spawn(api, path);
    const parentId = { agent: ['r', 'x'] };
    expect(await paths(api, { parentId, allDepths: true, includeTerminal: true })).toEqual(['r/x/y']);
    expect(
      await paths(api, { parentId: { agent: ['r'] }, allDepths: true, includeTerminal: true }),
    ).toHaveLength(6);
    const [r] = (await page(api, { text: 'r' })).entries.filter(({ agentId }) => agentId.agent[0] === 'r');
    expect(r).toMatchObject({ childCount: 3 });
  });

  test('what was below an earlier agent of that name is not below its successor', async () => {
    const { api } = await newMember(admin);
    for (const path of [['r'], ['r', 'a'], ['r', 'a', 'x']]) await spawn(api, path);
    await kill(api, 'r', 'a');
    await spawn(api, ['r', 'a']);
    const below = { allDepths: true, includeTerminal: true };
    expect(await paths(api, { ...below, parentId: { agent: ['r', 'a'] } })).toEqual([]);
    expect(await paths(api, { ...below, parentId: { agent: ['r'] } })).toEqual(['r/a', 'r/a/x']);
  });

  test('ended agents still need includeTerminal, at every depth', async () => {
    const { api } = await family();
    await kill(api, 'r', 'a');
    expect(await paths(api, { allDepths: true })).toEqual(['s/a', 'r/b', 's', 'r']);
    const all = ['s/a', 'r/b', 'r/a/x', 's', 'r/a', 'r'];
    expect(await paths(api, { allDepths: true, includeTerminal: true })).toEqual(all);
    const parentId = { agent: ['r'] };
    expect(await paths(api, { parentId, allDepths: true })).toEqual(['r/b']);
    expect(await paths(api, { parentId, allDepths: true, includeTerminal: true })).toEqual([
      'r/b',
      'r/a/x',
      'r/a',
    ]);
  });

  test('the other filters apply at every depth', async () => {
    const { api, account } = await family();
    const other = await newMember(admin);
    const all = { allDepths: true };
    expect(await paths(other.api, all)).toEqual([]);
    expect(await paths(other.api, { ...all, account })).toHaveLength(6);
    expect(await paths(other.api, { ...all, account: '*', text: 'r/a' })).toContain('r/a/x');
    expect(await paths(api, { ...all, text: '/a' })).toEqual(['s/a', 'r/a/x', 'r/a']);
    expect(await paths(api, { ...all, workspace: 'elsewhere' })).toEqual([]);
    expect(await paths(api, { ...all, phases: ['PHASE_RUNNING'] })).toEqual([]);
    expect(await paths(api, { ...all, phases: ['PHASE_PENDING'] })).toHaveLength(6);
  });

  test.each([
    ['live ones', {}],
    ['ended ones too', { includeTerminal: true }],
    ['those that ended lately too', { includeTerminal: true, endedSince: '2020-01-01T00:00:00Z' }],
    ['those below one', { parentId: { agent: ['r'] }, includeTerminal: true }],
    [
      'those below one that ended lately',
      { parentId: { agent: ['r'] }, includeTerminal: true, endedSince: '2020-01-01T00:00:00Z' },
    ],
  ])('pages of %s together are the list', async (_, request) => {
    const { api } = await family();
    await kill(api, 'r', 'a');
    const all = await paths(api, { ...request, allDepths: true });
    const seen: string[] = [];
    let pageToken = '';
    do {
      const part = await page(api, { ...request, allDepths: true, pageSize: 2, pageToken });
      seen.push(...part.entries.map(({ agentId }) => agentId.agent.join('/')));
      pageToken = part.nextPageToken;
    } while (pageToken !== '');
    expect(seen).toEqual(all);
    expect(all.length).toBeGreaterThan(2);
  });

  test('the key of a run lists what is below its agent, at every depth, and nothing else', async () => {
    const t = await newTestTenant(admin);
    for (const path of ['r', 'r/a', 'r/a/x', 'r/b', 's', 's/y']) await t.spawn(path);
    const claim = await t.start('r/a');
    const own = admin.as(claim.token);
    const request = { allDepths: true, includeTerminal: true };
    expect(await paths(own, { ...request, parentId: t.id('r/a') })).toEqual(['r/a/x']);
    for (const path of ['r', 's', 'r/b']) {
      expectError(await own.post('/v1/agents', { ...request, parentId: t.id(path) }), 'PERMISSION_DENIED');
    }
    for (const parentId of [undefined, {}, { agent: [] }]) {
      expectError(await own.post('/v1/agents', { ...request, account: '*', parentId }), 'PERMISSION_DENIED');
    }
  });
});

describe('endedSince', () => {
  /** Three agents that ended one after the other, with the times of their ends, and a live one. */
  const ended = async () => {
    const { api } = await newMember(admin);
    for (const name of ['one', 'two', 'three', 'live']) await spawn(api, [name]);
    const at: Record<string, string> = {};
    for (const name of ['one', 'two', 'three']) {
      await kill(api, name);
      at[name] = (await statusOf(api, name)).endedAt ?? '';
    }
    return { api, at };
  };

  test('selects agents that ended then or later', async () => {
    const { api, at } = await ended();
    const since = (endedSince: unknown) => paths(api, { includeTerminal: true, endedSince });
    expect(await since(at.one)).toEqual(['live', 'three', 'two', 'one']);
    expect(await since(at.two)).toEqual(['live', 'three', 'two']);
    expect(await since(new Date(Date.parse(at.two ?? '') + 1).toISOString())).toEqual(['live', 'three']);
    expect(await since('2999-12-31T23:59:59Z')).toEqual(['live']);
    expect(await since('1999-12-31T23:59:59+01:00')).toHaveLength(4);
  });

  test('does not affect live agents, and does not include ended ones by itself', async () => {
    const { api, at } = await ended();
    expect(await paths(api, { endedSince: at.one })).toEqual(['live']);
    expect(await paths(api, { endedSince: at.one, phases: ['PHASE_CANCELED'] })).toEqual([]);
    const canceled = { includeTerminal: true, phases: ['PHASE_CANCELED'], endedSince: at.three };
    expect(await paths(api, canceled)).toEqual(['three']);
  });

  test('applies to children, and at every depth', async () => {
    const { api } = await newMember(admin);
    for (const path of [['r'], ['r', 'old'], ['r', 'new'], ['r', 'new', 'x']]) await spawn(api, path);
    await kill(api, 'r', 'old');
    await kill(api, 'r', 'new');
    const { endedAt } = await statusOf(api, 'r', 'new');
    const request = { includeTerminal: true, endedSince: endedAt };
    const parentId = { agent: ['r'] };
    expect(await paths(api, { ...request, parentId })).toEqual(['r/new']);
    expect(await paths(api, { ...request, parentId, allDepths: true })).toEqual(['r/new/x', 'r/new']);
    expect(await paths(api, { ...request, allDepths: true })).toEqual(['r/new/x', 'r/new', 'r']);
    expect(await paths(api, { ...request, allDepths: true, account: '*', text: 'r/' })).toContain('r/new/x');
  });

  test.each(['yesterday', '2026-01-31', '', '2026-13-01T00:00:00Z', '2016-12-31T23:59:60Z', 7, {}])(
    'endedSince %j is refused',
    async (endedSince) => {
      expectError(await admin.post('/v1/agents', { endedSince }), 'INVALID_ARGUMENT', 'endedSince');
    },
  );

  test.each(['0000-01-01T00:00:00Z', '0000-01-01T00:00:00+23:59', '9999-12-31T23:59:59-23:59'])(
    'endedSince %j is accepted',
    async (endedSince) => {
      const { api } = await newMember(admin);
      await spawn(api, ['live']);
      expect(await paths(api, { endedSince, includeTerminal: true })).toEqual(['live']);
    },
  );
});
