import type { ChildProcess } from 'node:child_process';
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import type { AuditEntry, Caller, ListedKey } from '@muster/sdk/contract';
import { afterEach, describe, expect, test } from 'vitest';
import { until } from '../support/async.ts';
import { createKey, uniqueName } from '../support/catalog.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { newTenant } from '../support/tenants.ts';
import { resultOf, TestUser } from './cli.ts';

const server = await useSharedServer({ runner: false });
const account = uniqueName('mia');
const mia = await createKey(server.api, { role: 'member', account });

let user = new TestUser();
afterEach(() => {
  user.remove();
  user = new TestUser();
});

const loginFile = () => join(user.home, '.config', 'muster', 'login.json');

/** The code that a process of `muster login` shows. */
async function codeOf(child: ChildProcess): Promise<string> {
  let text = '';
  child.stderr?.on('data', (chunk: Buffer) => {
    text += chunk.toString();
  });
  const shown = await until(
    'the code',
    async () => /approve the code (\S+)\./.exec(text),
    (found) => found !== null,
  );
  expect(text).toContain(`Open ${server.url}/device#${shown?.[1]}\n`);
  return shown?.[1] ?? '';
}

/** Signs in as mia, who approves or denies. */
async function login(args: readonly string[] = [], approve = true) {
  const child = user.start(['login', '--url', server.url, ...args]);
  const done = resultOf(child);
  const userCode = await codeOf(child);
  expectOk(await mia.api.post('/v1/device/answer', { userCode, approve }));
  return done;
}

const stored = () => JSON.parse(readFileSync(loginFile(), 'utf8'));
const keysOfMia = async (): Promise<ListedKey[]> =>
  expectOk(await mia.api.post<{ entries: ListedKey[] }>('/v1/keys')).entries;

describe('muster login', () => {
  test('gets a key when a person approves its code, and muster logout revokes it', async () => {
    expect(await login()).toMatchObject({ code: 0, out: `${account} (member) at ${server.url}\n` });
    expect(statSync(loginFile()).mode & 0o777).toBe(0o600);
    expect(await user.muster(['whoami'])).toMatchObject({
      err: expect.stringContaining('from muster login'),
    });
    const { keyId } = await user.data<Caller>(['whoami']);
    const { client } = (await keysOfMia()).find((key) => key.keyId === keyId) ?? {};
    expect(client).toMatch(/^muster \d\S* on \S+/);
    const listed = await user.prints(['keys', 'ls']);
    expect(listed).toMatch(
      new RegExp(`^${keyId} +login \\(this one\\) +codehost_oauth/${account} +member`, 'm'),
    );

    const { apiKey } = stored().profiles.default;
    expect(await user.prints(['logout'])).toBe(`signed out of ${server.url}\n`);
    expectError(await server.api.as(apiKey).get('/v1/whoami'), 'UNAUTHENTICATED');
    expect(readFileSync(loginFile(), 'utf8')).not.toContain(keyId);
    expect(await user.muster(['whoami'])).toMatchObject({ code: 6 });
  });

  test('ends when the person denies it', async () => {
    expect(await login([], false)).toMatchObject({
      code: 4,
      err: expect.stringMatching(/muster: the sign-in was denied on the page\n$/),
    });
    expect(await user.muster(['whoami'])).toMatchObject({ code: 6 });
  });

  test('a second one to the same service replaces the key and revokes the first', async () => {
    await login();
    const first = stored().profiles.default.apiKey;
    await login();
    expectError(await server.api.as(first).get('/v1/whoami'), 'UNAUTHENTICATED');
    expect(await user.muster(['whoami'])).toMatchObject({ code: 0 });
  });

  test('says what to do where the service is older', async () => {
    const old = createServer((_, response) => {
      response.writeHead(401, { 'content-type': 'application/json' });
      response.end('{"code":16,"message":"send a valid key","details":[]}');
    });
    await new Promise<void>((resolve) => old.listen(0, '127.0.0.1', resolve));
    const url = `http://127.0.0.1:${(old.address() as AddressInfo).port}`;
    expect(await user.muster(['login', '--url', url])).toMatchObject({
      code: 1,
      err: `muster: the service at ${url} is older than this sign-in; use --key-stdin\n`,
    });
    old.close();
  });
});

describe('profiles', () => {
  const withKey = (args: readonly string[], key: string) =>
    user.prints(['login', '--url', server.url, '--key-stdin', ...args], { input: key });

  test('are stored by name, listed, and used one at a time', async () => {
    const { admin: chief, tenant } = await newTenant(server.operator);
    await withKey([], server.key);
    expect(await withKey(['--profile', 'work'], chief.key)).toBe(
      `chief (admin) at ${server.url}, profile work\n`,
    );
    const org = async (env = {}) => (await user.data<Caller>(['whoami'], { env })).tenant.org;
    expect(await org()).toBe(tenant.org);
    expect(await user.muster(['whoami'])).toMatchObject({
      err: expect.stringContaining('from the profile work'),
    });
    expect(await user.prints(['profiles'])).toMatch(/^ +PROFILE[\s\S]*^ +default +http.*\n\* +work +http/m);
    expect(await user.prints(['use', 'default'])).toBe(`default: ${server.url}\n`);
    expect(await org()).toBe(server.tenant.org);
    expect(await org({ MUSTER_PROFILE: 'work' })).toBe(tenant.org);
    expect(await user.prints(['use'])).toMatch(/^\* +default/m);
    expect(await user.muster(['use', 'nothing'])).toMatchObject({
      code: 3,
      err: 'muster: no profile "nothing"; the profiles are default, work\n',
    });
    expect(await user.muster(['login', '--profile', '../x', '--key-stdin'], { input: 'x' })).toMatchObject({
      code: 2,
    });
    for (const key of [server.key, chief.key]) expect(await user.prints(['profiles'])).not.toContain(key);

    const { code, err } = await user.muster(['logout', '--profile', 'work']);
    expect({ code, err }).toEqual({ code: 0, err: expect.stringContaining('may be used elsewhere') });
    expectOk(await chief.get('/v1/whoami'));
    expect(await org()).toBe(server.tenant.org);
    await user.prints(['logout']);
    await withKey(['--profile', 'other'], server.key);
    await withKey(['--profile', 'more'], server.key);
    await user.prints(['logout']);
    expect(await user.muster(['whoami'])).toMatchObject({
      code: 6,
      err: 'muster: no profile is in use: muster use NAME chooses one, and muster profiles lists them\n',
    });
  });

  test('the key of a profile is used for its URL, and MUSTER_API_KEY before it', async () => {
    await withKey(['--profile', 'work'], mia.key);
    await user.prints(['login', '--url', server.url, '--profile', 'admin', '--key-stdin'], {
      input: server.key,
    });
    const who = async (args: string[], env = {}) =>
      (await user.data<Caller>(['whoami', ...args], { env })).account;
    expect(await who(['--url', server.url])).toBe('admin');
    expect(await who([], { MUSTER_API_KEY: mia.key })).toBe(account);
  });

  test('a file of the first version is one profile', async () => {
    mkdirSync(dirname(loginFile()), { recursive: true });
    writeFileSync(loginFile(), JSON.stringify({ url: server.url, apiKey: mia.key }));
    expect(await user.muster(['whoami'])).toMatchObject({
      code: 0,
      err: expect.stringContaining('from muster login'),
    });
    await withKey(['--profile', 'work'], server.key);
    expect(await user.prints(['profiles'])).toMatch(/^ +default[\s\S]*^\* +work/m);
  });

  test('logout deletes the key also where the service can not be reached, and says that it is not revoked', async () => {
    mkdirSync(dirname(loginFile()), { recursive: true });
    const gone = { url: 'http://127.0.0.1:9', apiKey: 'mst_gone1.aaaaaaaaaaaaaaaaaaaaaaaa', isOwnKey: true };
    writeFileSync(loginFile(), JSON.stringify({ current: 'far', profiles: { far: gone } }));
    expect(await user.muster(['logout'])).toMatchObject({
      code: 6,
      err: expect.stringMatching(
        /deleted the profile far, but its key gone1 is not revoked, because http:\/\/127.0.0.1:9 can't be reached: revoke it with muster keys revoke gone1/,
      ),
    });
    expect(stored()).toEqual({ current: '', profiles: {} });
  });
});

describe('muster keys and muster audit', () => {
  test('revoke asks first, and an admin sees it in the audit', async () => {
    const admin = new TestUser(server);
    const { api, name } = await createKey(server.api, { role: 'viewer', account });
    const { keyId } = expectOk(await api.get<Caller>('/v1/whoami'));
    expect(await admin.muster(['keys', 'revoke', keyId])).toMatchObject({ code: 2 });
    expectOk(await api.get('/v1/whoami'));
    expect(await admin.prints(['keys', 'revoke', keyId, '--yes', '--justification', 'Lost laptop'])).toBe(
      `revoked ${keyId}\n`,
    );
    expectError(await api.get('/v1/whoami'), 'UNAUTHENTICATED');
    const shown = await admin.prints(['audit', '--name', name, '--action', 'delete']);
    expect(shown).toMatch(new RegExp(`admin +deleted +token/${name} +Lost laptop$`, 'm'));
    const entries = await admin.data<AuditEntry[]>(['audit', '--kind', 'token', '--name', name]);
    expect(entries.map(({ action }) => action)).toEqual(['DELETE', 'WRITE']);
    await admin.prints([
      'apply',
      '-f',
      admin.file('p.md', `---\nkind: persona\nname: ${name}\n---\nBe kind.\n`),
    ]);
    expect(await admin.prints(['audit', '--name', name, '--kind', 'persona'])).not.toContain('[write');
    expect(await admin.data<AuditEntry[]>(['audit', '--limit', '1'])).toHaveLength(1);
    expect(await admin.muster(['audit', '--kind', 'nothing'])).toMatchObject({ code: 2 });
    admin.remove();
  });
});

test('muster sign-in lists, shows and checks providers', async () => {
  const admin = new TestUser(server);
  const name = uniqueName('corp');
  expect(await admin.muster(['sign-in', 'test', name])).toMatchObject({ code: 3 });
  const document = `kind: sign-in\nname: ${name}\ntype: oidc\nissuer: https://nobody.invalid\nclientId: muster\n`;
  await admin.prints(['apply', '-f', admin.file('corp.yaml', document)]);
  expect(await admin.prints(['sign-in', 'ls'])).toMatch(
    new RegExp(
      `^${name} +active +oidc · https://nobody.invalid +${server.url}/sign-in/callback/\\S+/${name}$`,
      'm',
    ),
  );
  expect(await admin.prints(['sign-in', 'show', name])).toBe(document);
  const tested = await admin.muster(['sign-in', 'test', name]);
  expect(tested).toMatchObject({ code: 1, err: `muster: ${name}: 1 of 1 checks failed\n` });
  expect(tested.out).toMatch(
    /^failed +configuration of the provider: nobody\.invalid: the name can't be resolved( now)? \(E\w+\)$/m,
  );
  expect(tested.out).toMatch(/^nobody has signed in with it yet$/m);
  admin.remove();
});
