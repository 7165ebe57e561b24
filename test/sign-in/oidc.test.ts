import { describe, expect, test } from 'vitest';
import {
  createKey,
  decode,
  deleteResource,
  encode,
  postResource,
  readDocument,
  type WrittenResource,
  writeResource,
} from '../support/catalog.ts';
import { useDatabase } from '../support/database.ts';
import { expectOk } from '../support/expect-reply.ts';
import { BrowserLike } from './browser-like.ts';
import { useCompany } from './company.ts';
import { callerOf, newTeam, outcomeOf, signIn, signInName } from './team.ts';

const { idp, server, team, document, newPerson } = await useCompany();
const database = await useDatabase(server.databaseUrl);

describe('a person who signs in', () => {
  test('gets the account and the role that the rules give, and comes back to the page', async () => {
    const browser = new BrowserLike();
    const { url } = await browser.visit(`${team.startUrl}?return=${encodeURIComponent('/spend?by=account')}`);
    const { caller } = await outcomeOf(browser, url);
    expect(caller).toMatchObject({
      ownerProvider: 'PROVIDER_IDP_OIDC',
      account: idp.person.preferred_username,
      role: 'member',
      tenant: team.tenant,
    });
    expect(url).toBe(`${server.url}/spend?by=account`);
    const [attempt] = await team.attempts();
    expect(attempt).toMatchObject({
      outcome: 'ACCEPTED',
      account: idp.person.preferred_username,
      displayName: idp.person.name,
      subject: idp.person.sub,
      role: 'member',
      rule: 'allow[0]: domain example.com; roles[1]: group developers → member',
      claims: { groups: ['developers'], email: idp.person.email },
    });
    expect(JSON.stringify(attempt)).not.toContain('nonce');
  });

  test('can spawn and list agents as any member', async () => {
    const { browser } = await signIn(team);
    const spawned = await browser.post(`${server.url}/v1/agent/spawn`, {
      name: 'from-sign-in',
      description: 'x',
    });
    expect(spawned).toMatchObject({ status: 200 });
  });

  test('has a key that nobody knows, and that expires', async () => {
    const { caller } = await signIn(team);
    expect(caller?.expiresAt).not.toBeNull();
    const { rows } = await database.query('SELECT kind, name FROM keys WHERE key_id = $1', [caller?.keyId]);
    expect(rows[0]).toMatchObject({ kind: 'sign-in', name: signInName });
  });

  test('keeps the account when the name changes, and the new owner of the name gets another one', async () => {
    const first = idp.person;
    const before = await signIn(team);
    idp.person = { ...first, preferred_username: 'renamed', name: 'Ada Lovelace' };
    const renamed = await signIn(team);
    expect(renamed.caller?.account).toBe(before.caller?.account);
    expect((await team.attempts())[0]).toMatchObject({ displayName: 'Ada Lovelace' });
    idp.person = newPerson({ preferred_username: first.preferred_username });
    const stranger = await signIn(team);
    expect(stranger.caller?.account).toBe(`${first.preferred_username}-2`);
  });

  test('is signed out elsewhere by nothing but the rules: a second browser is a second session', async () => {
    const one = await signIn(team);
    const two = await signIn(team);
    expect(two.caller?.keyId).toBe(one.caller?.keyId);
    expect(await callerOf(one.browser, server.url)).not.toBeNull();
  });

  test('replaces the session that the browser had', async () => {
    const browser = new BrowserLike();
    await signIn(team, browser);
    const secrets = () => [...browser.cookies(server.url)].filter(([name]) => name.includes('session'));
    const [[name = '', before = ''] = []] = secrets();
    idp.person = newPerson();
    await signIn(team, browser);
    expect(secrets()).toHaveLength(1);
    expect(secrets()[0]?.[1]).not.toBe(before);
    const old = new BrowserLike();
    old.cookies(server.url).set(name, before);
    expect(await callerOf(old, server.url)).toBeNull();
  });
});

describe('an account name', () => {
  const names = ['keys', 'agents', 'documents'] as const;
  test.each(names)('that has %s goes to nobody who signs in', async (what) => {
    const account = `taken-by-${what}`;
    const owner = { ownerProvider: 'PROVIDER_IDP_OIDC', account };
    const { api, name } = await createKey(team.admin, { role: 'member', ...owner });
    if (what === 'agents') expectOk(await api.post('/v1/agent/spawn', { name: 'own', description: 'x' }));
    if (what === 'documents') await writeResource(api, 'persona', 'own-persona', { instructions: 'x' });
    if (what !== 'keys') await deleteResource(team.admin, 'token', name);
    idp.person = newPerson({ preferred_username: account });
    expect((await signIn(team)).caller?.account).toBe(`${account}-2`);
  });

  test('that is in use belongs to the person to whom an admin gives it', async () => {
    const account = 'given';
    await createKey(team.admin, { role: 'member', ownerProvider: 'PROVIDER_IDP_OIDC', account });
    idp.person = newPerson({ preferred_username: account });
    const { sub } = idp.person;
    const first = await signIn(team);
    expect(first.caller?.account).toBe('given-2');
    await team.write({ ...document(), accounts: [{ subject: sub, account }] });
    const second = await signIn(team);
    expect(second.caller?.account).toBe(account);
    expect(await callerOf(first.browser, server.url)).toBeNull();
    idp.person = newPerson();
    await team.write({ ...document(), accounts: [{ subject: idp.person.sub, account }] });
    expect((await signIn(team)).refusal).toContain('belongs to another person');
    await team.write(document());
  });

  test.each([
    ['../../admin*', 'admin'],
    ['ADA@other.example', 'ada'],
    ['Zoë Müller', 'zo-m-ller'],
  ])('is made of what the provider says: %s', async (wish, expected) => {
    idp.person = newPerson({ preferred_username: wish, email: undefined, hd: 'example.com' });
    const account = (await signIn(team)).caller?.account ?? '';
    expect(account.replace(/-\d$/, '')).toBe(expected);
  });

  test('without any letter of ours is made from the subject', async () => {
    idp.person = newPerson({ preferred_username: '日本', name: '日本', email: undefined, hd: 'example.com' });
    expect((await signIn(team)).caller?.account).toMatch(/^user-[0-9a-f]{12}$/);
  });
});

describe('the rules', () => {
  test('refuse whoever is in none of the groups, and say which', async () => {
    idp.person = newPerson({ email: 'eve@evil.example', groups: ['developers'] });
    const { refusal, caller } = await signIn(team);
    expect(caller).toBeUndefined();
    expect(refusal).toBe(
      'Your account is in none of the groups that may sign in: domain example.com; group guests.',
    );
    expect((await team.attempts())[0]).toMatchObject({
      outcome: 'REFUSED',
      claims: { email: 'eve@evil.example' },
    });
  });

  test('do not count an address that the provider has not verified', async () => {
    idp.person = newPerson({ email_verified: false });
    expect((await signIn(team)).refusal).toContain('none of the groups');
    idp.person = newPerson({ email_verified: 'true' });
    expect((await signIn(team)).refusal).toContain('none of the groups');
  });

  test('count the hosted domain of Google', async () => {
    idp.person = newPerson({ email: undefined, email_verified: undefined, hd: 'Example.com' });
    expect((await signIn(team)).caller?.role).toBe('member');
  });

  test('read groups that are a text with commas, and those at a path', async () => {
    idp.person = newPerson({ groups: 'guests, platform' });
    expect((await signIn(team)).caller?.role).toBe('admin');
    await team.write({ ...document(), groupsClaim: 'realm_access.roles' });
    idp.person = newPerson({ groups: ['platform'], realm_access: { roles: ['developers'] } });
    expect((await signIn(team)).caller?.role).toBe('member');
    await team.write(document());
  });

  test('take the first role that matches', async () => {
    idp.person = newPerson({ groups: ['developers', 'platform'] });
    expect((await signIn(team)).caller?.role).toBe('admin');
  });

  test('explain when Entra has sent a link instead of the groups', async () => {
    idp.person = newPerson({ groups: undefined, email: undefined, _claim_names: { groups: 'src1' } });
    expect((await signIn(team)).refusal).toContain('a link instead of your groups');
  });

  test('without a default role refuse a person for whom no role is meant', async () => {
    await team.write({ ...document(), allow: undefined, roles: [{ group: 'platform', role: 'admin' }] });
    expect((await signIn(team)).refusal).toContain('group platform');
    await team.write({ ...document(), allow: undefined, roles: [], defaultRole: 'viewer' });
    expect((await signIn(team)).caller?.role).toBe('viewer');
    await team.write(document());
  });
});

describe('a role that falls at the provider', () => {
  test('ends the sessions and the keys that the higher one opened', async () => {
    idp.person = newPerson({ groups: ['platform'] });
    const { browser, caller } = await signIn(team);
    const keyOf = async (name: string, role: string): Promise<string> => {
      const payload = encode({ role });
      const reply = await browser.post(`${server.url}/v1/catalog/token/${name}`, {
        payload,
        justification: 'test',
      });
      return String(decode((reply.body as WrittenResource).payload).key);
    };
    const high = await keyOf('high', 'admin');
    const low = await keyOf('low', 'viewer');
    await database.query(
      `INSERT INTO keys (tenant, key_id, hash, role, owner_provider, account, kind, name, created)
       SELECT tenant, 'login-' || key_id, '\\x00', role, owner_provider, account, 'login', 'laptop', 0
       FROM keys WHERE key_id = $1`,
      [caller?.keyId],
    );
    idp.person = { ...idp.person, groups: ['developers'] };
    const lower = await signIn(team);
    expect(lower.caller?.role).toBe('member');
    expect(await callerOf(browser, server.url)).toBeNull();
    expect((await team.admin.as(high).get('/v1/whoami')).status).toBe(401);
    expect((await team.admin.as(low).get('/v1/whoami')).status).toBe(200);
    const { rows } = await database.query('SELECT FROM keys WHERE key_id = $1', [`login-${caller?.keyId}`]);
    expect(rows).toHaveLength(0);
  });

  test('to none ends everything when the person tries again', async () => {
    const { browser } = await signIn(team);
    idp.person = { ...idp.person, email: 'former@elsewhere.example' };
    expect((await signIn(team)).refusal).toContain('none of the groups');
    expect(await callerOf(browser, server.url)).toBeNull();
  });

  test('a role that an admin sets replaces that of the rules, but not who may sign in', async () => {
    const { caller } = await signIn(team);
    const { ownerProvider = 'PROVIDER_IDP_OIDC', account = '' } = caller ?? {};
    const set = (role: string) => team.admin.post('/v1/members/update', { ownerProvider, account, role });
    expectOk(await set('admin'));
    expect((await signIn(team)).caller?.role).toBe('admin');
    expect((await team.attempts())[0]?.rule).toContain('an admin set admin; without that, roles[1]');
    idp.person = { ...idp.person, email: 'former@elsewhere.example' };
    expect((await signIn(team)).refusal).toContain('none of the groups');
  });

  test('is on record with every sign-in, accepted or refused', async () => {
    const { caller } = await signIn(team);
    const actor = `idp_oidc/${caller?.account}`;
    idp.person = { ...idp.person, email: 'former@elsewhere.example' };
    await signIn(team);
    type Records = { entries: { action: string; details: Record<string, string> }[] };
    const { entries } = expectOk(await team.admin.post<Records>('/v1/audit', { actor }));
    expect(entries.map(({ action }) => action)).toEqual(['REFUSE', 'SIGN_IN']);
    expect(entries[0]?.details.reason).toContain('none of the groups');
    expect(entries[1]?.details).toMatchObject({ signIn: signInName, role: 'member' });
  });

  test('a disabled account is refused', async () => {
    const { caller } = await signIn(team);
    await database.query('UPDATE members SET disabled = true WHERE account = $1', [caller?.account]);
    expect((await signIn(team)).refusal).toContain('disabled');
  });
});

describe('the document', () => {
  const errorOf = async (fields: Record<string, unknown>): Promise<string> => {
    const { status, body } = await postResource(team.admin, 'sign-in', 'wrong', fields);
    return status === 400 ? (body as unknown as { message: string }).message : 'accepted';
  };

  test.each([
    [{ type: 'oidc', issuer: 'http://id.example.com' }, 'https://'],
    [{ type: 'oidc', issuer: 'https://login.microsoftonline.com/common/v2.0' }, 'tenant'],
    [{ type: 'oidc', allow: [{}] }, 'names nobody'],
    [{ type: 'oidc', allow: [{ org: 'acme' }] }, 'allow[0].org'],
    [{ type: 'oidc', roles: [{ group: '', role: 'admin' }] }, 'must not be empty'],
    [{ type: 'oidc', roles: [{ group: 'x' }] }, 'roles[0].role'],
    [{ type: 'oidc', roles: [{ group: 'x', role: 'operator' }] }, 'role'],
    [{ type: 'github', allow: [{ group: 'x' }] }, 'allow[0].group'],
    [{ type: 'github', allow: [{ team: 'x' }] }, 'organization/team'],
    [{ type: 'github', defaultRole: 'viewer' }, 'anybody can have an account'],
    [{ type: 'oidc', issuer: 'https://accounts.google.com', defaultRole: 'member' }, 'anybody'],
    [{ type: 'oidc', clientSecret: 'plain' }, 'fromSecret'],
  ])('is refused if it can not be meant: %j', async (fields, text) => {
    expect(await errorOf(fields)).toContain(text);
  });

  test('is for admins', async () => {
    const { api } = await createKey(team.admin, { role: 'member', account: 'member' });
    expect((await postResource(api, 'sign-in', 'own', document())).status).toBe(403);
    expect((await api.post('/v1/sign-in/test', { name: signInName })).status).toBe(403);
    expect((await api.post('/v1/sign-in/list', { name: signInName })).status).toBe(403);
  });

  test('shows the address that the provider has to know', async () => {
    const { document: stored } = await readDocument(team.admin, 'sign-in', signInName);
    expect(stored.redirectUri).toBe(team.callbackUrl);
  });

  test('that is paused or deleted lets nobody in, and a deleted one ends its sessions', async () => {
    const own = await newTeam(server, document());
    idp.redirectUris.push(own.callbackUrl);
    const { browser } = await signIn(own);
    await own.write({ ...document(), paused: true });
    expect((await signIn(own)).refusal).toContain('paused');
    expect(await callerOf(browser, server.url)).not.toBeNull();
    await deleteResource(own.admin, 'sign-in', signInName);
    expect((await signIn(own)).refusal).toContain('no such sign-in');
    expect(await callerOf(browser, server.url)).toBeNull();
  });

  test('is checked by asking the provider', async () => {
    type Checks = { redirectUri: string; checks: { name: string; ok: boolean; advice: string }[] };
    const own = await newTeam(server, document());
    const unknown = expectOk(await own.admin.post<Checks>('/v1/sign-in/test', { name: signInName }));
    expect(unknown.checks.map(({ ok }) => ok)).toEqual([true, true, false]);
    expect((await own.admin.post('/v1/sign-in/test', { name: signInName })).status).toBe(429);
    idp.redirectUris.push(own.callbackUrl);
    const known = await newTeam(server, document());
    idp.redirectUris.push(known.callbackUrl);
    const all = expectOk(await known.admin.post<Checks>('/v1/sign-in/test', { name: signInName }));
    expect(all.checks.map(({ ok }) => ok)).toEqual([true, true, true]);
    await writeResource(known.admin, 'secret', 'client-secret', { value: 'another-secret-value' });
    await known.write(document(), 'second');
    const wrong = expectOk(await known.admin.post<Checks>('/v1/sign-in/test', { name: 'second' }));
    expect(wrong.checks[1]).toMatchObject({ ok: false });
    expect(JSON.stringify(wrong)).not.toContain('another-secret-value');
  });
});
