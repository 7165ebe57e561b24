import { type Caller, limits, type SignedIn, type SignInCode } from '@muster/sdk/contract';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Api, apiOf } from '../support/api.ts';
import { createKey, createShareLink, uniqueName } from '../support/catalog.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { type RawAnswer, sendRaw } from '../support/raw-requests.ts';
import { type Server, startServer } from '../support/server.ts';
import { codeOf, giveBack } from '../support/sign-in.ts';
import { operatorOf } from '../support/tenants.ts';
import { newTestTenant } from '../support/test-tenant.ts';

const publicHost = 'muster.example.com';

let server: Server;
let admin: Api;

beforeAll(async () => {
  server = await startServer({ runner: false, env: { MUSTER_PUBLIC_URL: `https://${publicHost}` } });
  admin = apiOf(server);
});
afterAll(() => server?.close());

const callerIn = (answer: RawAnswer): Caller => (expectOk(answer) as SignedIn).caller;

describe('sign-in code', () => {
  test('signs in as the key that requested it, and does not reveal the key', async () => {
    const keys = await Promise.all(['viewer', 'member', 'admin'].map((role) => createKey(admin, { role })));
    for (const api of [...keys.map((made) => made.api), await operatorOf(server)]) {
      const answer = await giveBack(server.url, await codeOf(api));
      expect(callerIn(answer)).toEqual((await api.get('/v1/whoami')).body);
      expect(answer.text + JSON.stringify([...answer.headers])).not.toContain(api.key.split('.')[1]);
    }
  });

  test('works once, and then says what to do', async () => {
    const code = await codeOf(admin);
    expectOk(await giveBack(server.url, code));
    const { message } = expectError(await giveBack(server.url, code), 'UNAUTHENTICATED');
    expect(message).toMatch(/used or has expired.*muster open/);
    expect(message).not.toContain(code);
  });

  test('works once among many concurrent uses', async () => {
    const code = await codeOf(admin);
    const answers = await Promise.all(Array.from({ length: 12 }, () => giveBack(server.url, code)));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(11).fill(401)]);
  });

  test('is valid for five minutes, on the node that created it', async () => {
    const askedMs = Date.now();
    const { code, expiresAt } = expectOk(await admin.post<SignInCode>('/v1/sign-in/code'));
    const livesMs = Date.parse(expiresAt) - askedMs;
    expect(livesMs).toBeGreaterThan(limits.signInCodeMinutes * 60_000 - 5_000);
    expect(livesMs).toBeLessThan(limits.signInCodeMinutes * 60_000 + 30_000);
    const neighbour = await startServer({ runner: false, databaseUrl: server.databaseUrl });
    try {
      expectError(await giveBack(neighbour.url, code), 'UNAUTHENTICATED');
    } finally {
      await neighbour.close();
    }
    expectOk(await giveBack(server.url, code));
  });

  test('of a key that was revoked meanwhile does not work', async () => {
    const { api, name } = await createKey(admin, { role: 'member' });
    const code = await codeOf(api);
    expectOk(await admin.del(`/v1/catalog/token/${name}`));
    expectError(await giveBack(server.url, code), 'UNAUTHENTICATED');
  });

  test('is dropped when its key has requested twenty more', async () => {
    const { api } = await createKey(admin, { role: 'member' });
    const codes: string[] = [];
    for (let i = 0; i < limits.signInCodesPerKey + 1; i++) codes.push(await codeOf(api));
    const [oldest, second] = codes;
    expectError(await giveBack(server.url, oldest), 'UNAUTHENTICATED');
    expect(callerIn(await giveBack(server.url, second))).toEqual((await api.get('/v1/whoami')).body);
  });

  test('and its reply may not be cached', async () => {
    const made = await admin.post<SignInCode>('/v1/sign-in/code');
    expect(made.headers.get('cache-control')).toBe('no-store');
    const answer = await giveBack(server.url, made.body.code);
    expect(answer.headers.get('cache-control')).toBe('no-store');
  });

  test('is not for machines', async () => {
    const tenant = await newTestTenant(admin);
    await tenant.spawn('held');
    const { token, agentId } = await tenant.start('held');
    const machines = [
      (await createKey(admin, { role: 'runner', pool: 'default' })).api,
      admin.as(token),
      (await createShareLink(admin, agentId)).api,
    ];
    for (const machine of machines) expectError(await machine.post('/v1/sign-in/code'), 'PERMISSION_DENIED');
  });

  test('needs a key', async () => {
    expectError(await sendRaw(server.url, { path: '/v1/sign-in/code' }), 'UNAUTHENTICATED');
  });
});

describe('sign-in', () => {
  const unknown = uniqueName('never-made');

  test('ignores keys', async () => {
    for (const authorization of ['Bearer mst_nobody.0123456789abcdef0123456789abcdef', 'nonsense'])
      expectOk(await giveBack(server.url, await codeOf(admin), { authorization }));
  });

  test.each<[what: string, code: unknown]>([
    ['none', undefined],
    ['null', null],
    ['empty', ''],
    ['a number', 7],
    ['a list', ['x']],
    ['too long', 'x'.repeat(129)],
  ])('with a code that is %s is INVALID_ARGUMENT', async (_, code) => {
    expectError(await giveBack(server.url, code), 'INVALID_ARGUMENT', 'code');
  });

  test('of more than 4 KiB is refused', async () => {
    const { message } = expectError(await giveBack(server.url, 'x'.repeat(5_000)), 'INVALID_ARGUMENT');
    expect(message).toContain('4 KiB');
  });

  test('with an unknown code is UNAUTHENTICATED', async () => {
    expectError(await giveBack(server.url, unknown), 'UNAUTHENTICATED');
  });

  test.each<[host: string, origin: string]>([
    ['localhost', 'http://localhost'],
    ['localhost:8420', 'http://localhost:8420'],
    ['127.0.0.1:9000', 'http://127.0.0.1:9000'],
    ['[::1]:8420', 'http://[::1]:8420'],
    [publicHost, `https://${publicHost}`],
    [`${publicHost}:443`, `https://${publicHost}`],
  ])('at Host %s from %s works', async (host, origin) => {
    const answer = await giveBack(server.url, await codeOf(admin), { host, origin });
    expect(callerIn(answer).role).toBe('admin');
  });

  test.each([
    'attacker.example',
    'localhost.attacker.example',
    'attacker.example:8420',
    'localhost@attacker.example',
    'attacker.example#localhost',
    '127.0.0.1.attacker.example',
    `${publicHost}:8443`,
    `x.${publicHost}`,
    '192.168.1.5:8420',
    '0.0.0.0:8420',
    '',
  ])('at Host "%s" is PERMISSION_DENIED, and keeps the code', async (host) => {
    const code = await codeOf(admin);
    for (const origin of [`http://${host}`, `https://${host}`, `https://${publicHost}`]) {
      const { message } = expectError(
        await giveBack(server.url, code, { host, origin }),
        'PERMISSION_DENIED',
      );
      expect(message).toMatch(/Host.*MUSTER_PUBLIC_URL/);
    }
    expectOk(await giveBack(server.url, code));
  });

  test.each<[host: string, origin: string]>([
    ['localhost:8420', 'http://attacker.example'],
    ['localhost:8420', 'http://localhost:8421'],
    ['localhost:8420', 'http://127.0.0.1:8420'],
    ['localhost:8420', 'https://localhost:8420'],
    ['localhost:8420', 'http://localhost:8420.attacker.example'],
    ['localhost:8420', 'http://localhost:8420/'],
    ['localhost:8420', 'null'],
    ['localhost:8420', ''],
    [publicHost, `http://${publicHost}`],
    [publicHost, 'http://localhost'],
    [publicHost, 'https://attacker.example'],
  ])('at Host %s from %s is PERMISSION_DENIED, and keeps the code', async (host, origin) => {
    const code = await codeOf(admin);
    const { message } = expectError(await giveBack(server.url, code, { host, origin }), 'PERMISSION_DENIED');
    expect(message).toMatch(/Origin.*MUSTER_PUBLIC_URL/);
    expectOk(await giveBack(server.url, code));
  });

  test('without an Origin is PERMISSION_DENIED, whatever else is wrong with it', async () => {
    const headers = { 'content-type': 'application/json' };
    for (const body of [JSON.stringify({ code: await codeOf(admin) }), '{', '[]']) {
      const answer = await sendRaw(server.url, { path: '/v1/sign-in', headers, body });
      expect(expectError(answer, 'PERMISSION_DENIED').message).toContain('Origin is missing');
    }
  });
});
