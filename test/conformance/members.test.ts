import type { Member, Provider, ReplyOf } from '@muster/sdk/contract';
import { beforeAll, describe, expect, test } from 'vitest';
import { type Answer, type Api, agent, apiOf } from '../support/api.ts';
import { until } from '../support/async.ts';
import { createKey, createShareLink, readDocument, uniqueName, writeResource } from '../support/catalog.ts';
import { useDatabase } from '../support/database.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { useTwoNodes } from '../support/shared-server.ts';
import { browserOf } from '../support/sign-in.ts';
import { openRequest } from '../support/streams.ts';
import { newTenant } from '../support/tenants.ts';
import { newTestTenant } from '../support/test-tenant.ts';

const { secondUrl, ...server } = await useTwoNodes();
const admin = server.api;
const database = await useDatabase(server.databaseUrl);

type Role = 'viewer' | 'member' | 'admin';
const ownerProvider: Provider = 'PROVIDER_CODEHOST_OAUTH';

const membersOf = async (caller: Api, body = {}): Promise<Member[]> =>
  expectOk(await caller.post<ReplyOf<'listMembers'>>('/v1/members', body)).entries;
const find = async (account: string): Promise<Member | undefined> =>
  (await membersOf(admin, { text: account })).find((member) => member.account === account);
const update = (account: string, change: object, caller = admin) =>
  caller.post<Member>('/v1/members/update', { account, ownerProvider, ...change });
const roleOf = async (api: Api): Promise<string> =>
  ((await api.get('/v1/whoami')).body as { role: string }).role;
const there = (key: string): Api => apiOf({ url: secondUrl, key });
/** The type of the precondition that failed. */
const violated = (answer: Answer<unknown>): string =>
  JSON.stringify(expectError(answer, 'FAILED_PRECONDITION').details);

/** A key as a sign-in makes it. */
async function signInKey(account: string, role: Role, more = {}): Promise<Api> {
  const { name, api } = await createKey(admin, { role, account, ...more });
  await database.query("UPDATE keys SET kind = 'sign-in' WHERE kind = 'token' AND name = $1", [name]);
  return api;
}

const untilRole = (api: Api, role: string) =>
  until(
    `the role ${role}`,
    () => roleOf(api),
    (is) => is === role,
  );

describe('the list of members', () => {
  test('has accounts with keys, sessions, live agents and spend, and those that own agents only', async () => {
    const account = uniqueName('ada');
    const { key, api } = await createKey(admin, { role: 'member', account });
    await createKey(admin, { role: 'admin', account });
    await createKey(admin, { role: 'admin', account, expiresAt: '2001-01-01T00:00:00Z' });
    await createShareLink(admin, { agent: ['x'], account, ownerProvider });
    await browserOf(server.url, key);
    const id = agent(uniqueName('spender'));
    expectOk(await api.post('/v1/agent/spawn', { agentId: id, description: 'x' }));
    await database.query(
      `INSERT INTO usage_hours (tenant, hour, agent, run, model, provider_account, root, owner_provider, account, workspace,
         backend, cost, input_tokens, cached_tokens, output_tokens, unpriced_tokens, is_estimated)
       SELECT a.tenant, now() - h * interval '40 days', a.id, 1, 'm', '', a.id, a.owner_provider, a.account, a.workspace,
         a.backend, 2.5, 0, 0, 0, 0, false
       FROM agents a CROSS JOIN generate_series(0, 1) h WHERE a.account = $1`,
      [account],
    );
    expect(await find(account)).toEqual({
      ...{ ownerProvider, account, displayName: '', role: 'admin', roleOverride: '', disabled: false },
      ...{
        lastSignIn: '',
        lastSeenAt: expect.any(String),
        keys: 2,
        sessions: 1,
        liveAgents: 1,
        spendUsd: 2.5,
      },
    });
    await database.query('DELETE FROM keys WHERE account = $1', [account]);
    expect(await find(account)).toMatchObject({
      role: '',
      keys: 0,
      sessions: 0,
      liveAgents: 1,
      lastSeenAt: null,
    });
    expectOk(await admin.post('/v1/agent/kill', { agentId: { ...id, account, ownerProvider } }));
    await until(
      'the end of the agent',
      () => find(account),
      (member) => member === undefined,
    );
  });

  test('has who signed in, found by name and display name, page by page', async () => {
    const word = uniqueName('list');
    const rows = ['a', 'b', 'c', 'd', 'e'].map((letter) => `${word}-${letter}`);
    const { keyId } = expectOk(await admin.get<{ keyId: string }>('/v1/whoami'));
    for (const account of rows.slice(0, 3))
      await database.query(
        `INSERT INTO members (tenant, owner_provider, account, display_name, sign_in, role, signed_in_at, created_at)
         SELECT tenant, 'PROVIDER_IDP_OIDC', $2, $3, 'acme', 'viewer', now(), now() FROM keys WHERE key_id = $1`,
        [keyId, account, `${account.toUpperCase()} Lovelace`],
      );
    for (const account of rows.slice(2)) await createKey(admin, { role: 'member', account });
    const all = await membersOf(admin, { text: word.toUpperCase() });
    // The same name at two providers is two accounts.
    expect(all.map(({ account }) => account)).toEqual([...rows.slice(2), ...rows.slice(0, 3)]);
    expect(all.at(-1)).toMatchObject({
      ownerProvider: 'PROVIDER_IDP_OIDC',
      role: 'viewer',
      lastSignIn: 'acme',
    });
    expect(await membersOf(admin, { text: `${rows[0]} love` })).toHaveLength(1);
    const paged: Member[] = [];
    let pageToken = '';
    do {
      const page = expectOk(
        await admin.post<ReplyOf<'listMembers'>>('/v1/members', { text: word, pageSize: 2, pageToken }),
      );
      paged.push(...page.entries);
      pageToken = page.nextPageToken;
    } while (pageToken);
    expect(paged).toEqual(all);
    expectError(await admin.post('/v1/members', { pageToken: 'x' }), 'INVALID_ARGUMENT');
  });

  test('is for admins of the tenant', async () => {
    for (const role of ['viewer', 'member']) {
      const { api } = await createKey(admin, { role, account: uniqueName('mia') });
      expectError(await api.post('/v1/members', {}), 'PERMISSION_DENIED');
      expectError(await update('admin', { disabled: true }, api), 'PERMISSION_DENIED');
    }
    const { admin: elsewhere, tenant } = await newTenant(server.operator);
    const account = uniqueName('ada');
    await createKey(admin, { role: 'member', account });
    expect((await membersOf(elsewhere)).map((member) => member.account)).toEqual(['chief']);
    expectError(await update(account, { disabled: true }, elsewhere), 'NOT_FOUND');
    expectError(await admin.post('/v1/members', { tenant }), 'PERMISSION_DENIED');
    expectError(await update('chief', { disabled: true, tenant }), 'PERMISSION_DENIED');
    const justification = 'asked by the owner';
    expectError(await update('chief', { disabled: true, tenant }, server.operator), 'INVALID_ARGUMENT');
    const last = await update('chief', { disabled: true, tenant, justification }, server.operator);
    expect(violated(last)).toContain('LAST_ADMIN');
  });
});

describe('a disabled account', () => {
  const account = uniqueName('eve');
  let key: string;
  let api: Api;
  beforeAll(async () => {
    ({ key, api } = await createKey(admin, { role: 'member', account }));
    expectOk(await api.post('/v1/agent/spawn', { agentId: agent(account), description: 'x' }));
  });

  test('loses its keys, sessions and streams on every node; its agents stay', async () => {
    const signedIn = await signInKey(account, 'member');
    const { api: link } = await createShareLink(api, { agent: [account] });
    const browser = await browserOf(server.url, key);
    const stream = openRequest({ url: secondUrl, key }, '/v1/agents/stream', {});
    expect(await stream.opened).toBe(200);
    for (const one of [api, signedIn, link, there(key)]) expectOk(await one.get('/v1/whoami'));
    expectOk(await update(account, { disabled: true, justification: 'left' }));
    const since = performance.now();
    const ends = [api, signedIn, link, there(key)].map((one) =>
      until(
        'the end of the key',
        () => one.get('/v1/whoami'),
        ({ status }) => status === 401,
      ),
    );
    await Promise.all([...ends, stream.ended]);
    expect(performance.now() - since).toBeLessThan(5_000);
    expectError(await browser.send('/v1/whoami'), 'UNAUTHENTICATED');
    expectError(await browser.send('/v1/sign-in', {}, { authorization: `Bearer ${key}` }), 'UNAUTHENTICATED');
    expect(await find(account)).toMatchObject({ disabled: true, sessions: 0, liveAgents: 1 });
    const audit = await admin.post<ReplyOf<'audit'>>('/v1/audit', {
      kind: 'member',
      name: `codehost_oauth/${account}`,
    });
    expect(expectOk(audit).entries).toMatchObject([{ action: 'DISABLE', justification: 'left' }]);
    const status = await admin.post('/v1/agent/status', {
      agentId: { agent: [account], account, ownerProvider },
    });
    expect(expectOk(status)).not.toMatchObject({ phase: 'PHASE_CANCELED' });
    // What it had: its tokens come back, its sessions and sign-ins do not.
    expectOk(await update(account, { disabled: false }));
    await until(
      'the key to work',
      () => there(key).get('/v1/whoami'),
      ({ status }) => status === 200,
    );
    expectError(await signedIn.get('/v1/whoami'), 'UNAUTHENTICATED');
    expectError(await browser.send('/v1/whoami'), 'UNAUTHENTICATED');
  });

  test('has no share links any more, also those that it made to agents of others', async () => {
    const name = uniqueName('ada');
    const made = await createKey(admin, { role: 'admin', account: name });
    const agentId = { agent: [account], account, ownerProvider };
    const { name: linkName, api: link } = await createShareLink(made.api, agentId);
    const { api: other } = await createShareLink(admin, agentId);
    const read = (): Promise<Answer> => link.post('/v1/agent/status', {});
    const opened = async () => (await readDocument(admin, 'share-link', linkName)).document;
    expect(await opened()).toMatchObject({ opens: 0, openedAt: null });
    const browser = await browserOf(server.url, link.key, { share: true });
    expect(await opened()).toMatchObject({ opens: 1, openedAt: expect.stringMatching(/^20/) });
    const inBrowser = () => browser.send('/v1/agent/status', {}, { 'muster-session': browser.session.id });
    expectOk(await inBrowser());
    for (const isDisabled of [true, false]) {
      expectOk(await update(name, { disabled: isDisabled }));
      await until('the link to end or work', read, ({ status }) => status === (isDisabled ? 401 : 200));
      expectOk(await other.post('/v1/agent/status', {}));
      const session = await inBrowser();
      if (isDisabled) expectError(session, 'UNAUTHENTICATED');
      else expectOk(session);
    }
  });

  test('starts nothing by its schedules, which are paused', async () => {
    const name = uniqueName('nightly');
    const spawn = { agentId: { agent: [name] }, description: 'x', model: 'rehearsal-a' };
    await writeResource(api, 'schedule', name, { cron: '0 7 * * *', spawn });
    expectOk(await update(account, { disabled: true }));
    const refused = expectError(await admin.post('/v1/schedule/run', { name }), 'FAILED_PRECONDITION');
    expect(refused.message).toContain('is disabled');
    expectOk(await update(account, { disabled: false }));
    expectOk(await admin.post('/v1/schedule/run', { name }));
  });

  test('is another one than that of the same name at another provider', async () => {
    const { api: namesake } = await createKey(admin, {
      ...{ role: 'member', account, ownerProvider: 'PROVIDER_IDP_OIDC' },
    });
    expectOk(await update(account, { disabled: true }));
    await until(
      'the end of the key',
      () => there(key).get('/v1/whoami'),
      ({ status }) => status === 401,
    );
    expectOk(await namesake.get('/v1/whoami'));
    // It has the name, and none of the agents.
    const status = await namesake.post('/v1/agent/queue', { agentId: agent(account), description: 'x' });
    expectError(status, 'NOT_FOUND');
    expectOk(await update(account, { disabled: false }));
  });
});

describe('the role of an account', () => {
  test('replaces that of a sign-in, and limits that of a token, until it is cleared', async () => {
    const account = uniqueName('max');
    const { api: token } = await createKey(admin, { role: 'admin', account });
    const { api: viewer } = await createKey(admin, { role: 'viewer', account });
    const { api: runner } = await createKey(admin, { role: 'runner', account });
    const signedIn = await signInKey(account, 'member');
    const [bySignIn, byToken] = (await Promise.all(
      ['sign-in', 'token'].map(async (approver) => {
        const { name, api } = await createKey(admin, { role: 'viewer', account });
        const login = "UPDATE keys SET kind = 'login', granted_by = $2 WHERE kind = 'token' AND name = $1";
        await database.query(login, [name, approver]);
        return api;
      }),
    )) as [Api, Api];
    const roles = () => Promise.all([token, viewer, runner, signedIn].map(roleOf));
    expect(await roles()).toEqual(['admin', 'viewer', 'runner', 'member']);
    expect(expectOk(await update(account, { role: 'viewer' }))).toMatchObject({
      roleOverride: 'viewer',
      role: 'viewer',
    });
    expect(await roles()).toEqual(['viewer', 'viewer', 'runner', 'viewer']);
    expectOk(await update(account, { role: 'admin' }));
    // A token gets no more than it has, and so does a command line that it approved.
    expect([await roleOf(bySignIn), await roleOf(byToken)]).toEqual(['admin', 'viewer']);
    expect(await roles()).toEqual(['admin', 'viewer', 'runner', 'admin']);
    expectOk(await update(account, { role: 'member' }));
    expect(await roles()).toEqual(['member', 'viewer', 'runner', 'member']);
    await untilRole(there(token.key), 'member');
    expectError(await token.post('/v1/catalog/workspace/w', { payload: '' }), 'PERMISSION_DENIED');
    expect(expectOk(await update(account, { role: '' }))).toMatchObject({ roleOverride: '', role: 'admin' });
    expect(await roles()).toEqual(['admin', 'viewer', 'runner', 'member']);
    expectError(await update(account, { role: 'operator' }), 'INVALID_ARGUMENT');
  });

  test('also counts for what acts as the account', async () => {
    const account = uniqueName('max');
    const { api } = await createKey(admin, { role: 'member', account });
    const name = uniqueName('nightly');
    const spawn = { agentId: { agent: [name] }, description: 'x', model: 'rehearsal-a' };
    await writeResource(api, 'schedule', name, { cron: '0 7 * * *', spawn });
    expectOk(await update(account, { role: 'viewer' }));
    expectError(await admin.post('/v1/schedule/run', { name }), 'FAILED_PRECONDITION');
  });
});

describe('an admin can not', () => {
  test('disable itself or change its own role', async () => {
    const whoami = expectOk(await admin.get<{ account: string }>('/v1/whoami'));
    for (const change of [{ disabled: true }, { role: 'viewer' }, { role: '' }])
      expect(violated(await update(whoami.account, change))).toContain('OWN_ACCOUNT');
    expectOk(await update(whoami.account, { role: 'admin' }));
    expectOk(await update(whoami.account, { disabled: false }));
  });

  test('change an account with a higher role, or one that the tenant does not have', async () => {
    const account = uniqueName('op');
    await createKey(
      server.operator,
      { role: 'operator', account, ownerProvider },
      {
        ref: { tenant: server.tenant },
        justification: 'to operate',
      },
    );
    for (const change of [{ disabled: true }, { role: 'viewer' }])
      expectError(await update(account, change), 'PERMISSION_DENIED');
    expectError(await update(uniqueName('nobody'), { disabled: true }), 'NOT_FOUND');
    expectError(await update('', { disabled: true }), 'INVALID_ARGUMENT');
  });

  test('leave a tenant without an admin, also if two admins disable each other at the same time', async () => {
    const { admin: first, tenant } = await newTenant(server.operator, 'first');
    for (let round = 0; round < 5; round += 1) {
      const other = uniqueName('second');
      const { api: second } = await createKey(first, { role: 'admin', account: other });
      const answers = await Promise.all([
        update(other, { role: 'member' }, first),
        update('first', { role: 'member' }, second),
      ]);
      expect(answers.some(({ status }) => status !== 200)).toBe(true);
      const admins = (await membersOf(server.operator, { tenant })).filter(({ role }) => role === 'admin');
      expect(admins.length).toBeGreaterThan(0);
      const justification = 'for the next round';
      expectOk(await update('first', { role: '', tenant, justification }, server.operator));
      expectOk(await update(other, { role: 'viewer', tenant, justification }, server.operator));
    }
  });
});

describe('what is left to set up', () => {
  const stepsOf = async (caller: Api) => {
    const { steps, dismissed } = expectOk(await caller.post<ReplyOf<'setup'>>('/v1/setup', {}));
    return { dismissed, ...Object.fromEntries(steps.map(({ name, state }) => [name, state])) };
  };

  test('is what the service finds, until an admin dismisses it', async () => {
    const { admin: fresh } = await newTenant(server.operator);
    const later = { 'sign-in': 'MISSING', notification: 'MISSING' };
    const missing = { repository: 'MISSING', agent: 'MISSING', ...later };
    expect(await stepsOf(fresh)).toEqual({ dismissed: false, provider: 'MISSING', ...missing });
    await writeResource(fresh, 'workspace', 'shop', { repos: ['https://git.example.com/shop.git'] });
    await writeResource(fresh, 'notification', 'team', {
      ...{ type: 'webhook', url: 'https://hooks.example.com/x', events: ['agent.failed'] },
    });
    const t = await newTestTenant(fresh);
    const paused = {
      ...{ account: 'anthropic/default', state: 'PAUSED', runs: 0, accepted: false },
      error: 'refused (401)',
    };
    await t.runner.poll({ rehearses: false, accountStates: [{ ...paused, pausedUntil: null }] });
    expect(await stepsOf(fresh)).toMatchObject({
      provider: 'FAILING',
      repository: 'DONE',
      notification: 'DONE',
    });
    const { steps } = expectOk(await fresh.post<ReplyOf<'setup'>>('/v1/setup', {}));
    expect(steps[0]?.text).toBe('anthropic/default: refused (401)');
    await t.runner.poll({
      ...{ rehearses: false, accountStates: [{ ...paused, state: 'FREE', error: '', pausedUntil: null }] },
    });
    expect(await stepsOf(fresh)).toMatchObject({ provider: 'DONE' });
    const textFor = async (caller: Api) =>
      expectOk(await caller.post<ReplyOf<'setup'>>('/v1/setup', {})).steps[0]?.text;
    expect(await textFor(fresh)).toBe('anthropic/default: found, not used yet');
    await t.runner.poll({
      ...{ rehearses: false },
      accountStates: [{ ...paused, state: 'FREE', accepted: true, error: '', pausedUntil: null }],
    });
    expect(await textFor(fresh)).toBe('anthropic/default: accepted by the provider');
    const { api: second } = await createKey(fresh, { role: 'admin', account: 'second' });
    expectOk(await fresh.post('/v1/setup', { dismissed: true }));
    expect(await stepsOf(second)).toMatchObject({ dismissed: true });
    expectOk(await second.post('/v1/setup', { dismissed: false }));
    expect(await stepsOf(fresh)).toMatchObject({ dismissed: false });
    const { api: member } = await createKey(fresh, { role: 'member', account: 'mia' });
    // Others see the steps; what a runner reports of its accounts is for admins.
    expect(await stepsOf(member)).toMatchObject({ provider: 'DONE', repository: 'DONE', agent: 'MISSING' });
    expect(await textFor(member)).toBe('');
    expectError(await member.post('/v1/setup', { dismissed: true }), 'PERMISSION_DENIED');
  });

  test('a repository on the machine of the runner counts; the agent that checks it does not count as the first agent', async () => {
    const { admin: fresh } = await newTenant(server.operator);
    await writeResource(fresh, 'workspace', 'empty', { repos: [] });
    expectOk(
      await fresh.post('/v1/agent/spawn', { agentId: { agent: ['repository-check'] }, description: 'x' }),
    );
    expect(await stepsOf(fresh)).toMatchObject({ repository: 'MISSING', agent: 'MISSING' });
    await writeResource(fresh, 'workspace', 'local', { repos: [{ url: '/srv/git/shop' }] });
    expectOk(await fresh.post('/v1/agent/spawn', { agentId: { agent: ['first'] }, description: 'x' }));
    expect(await stepsOf(fresh)).toMatchObject({ repository: 'DONE', agent: 'DONE' });
  });
});
