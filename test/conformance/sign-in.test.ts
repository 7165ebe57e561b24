import { type Caller, limits, type SignedIn, type SignInCode } from '@muster/sdk/contract';
import { beforeAll, describe, expect, test } from 'vitest';
import { hashSecret } from '../../packages/service/src/lib/token.ts';
import { agent, apiOf } from '../support/api.ts';
import { createKey, createShareLink, uniqueName } from '../support/catalog.ts';
import { routeEntries } from '../support/contract-schemas.ts';
import { useDatabase } from '../support/database.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { type RawAnswer, sendRaw } from '../support/raw-requests.ts';
import { publicHost, useTwoNodes } from '../support/shared-server.ts';
import {
  browserOf,
  codeOf,
  cookieIn,
  type SignedInBrowser,
  signedIn,
  signInWithCode,
  signInWithKey,
} from '../support/sign-in.ts';
import { newTenant } from '../support/tenants.ts';
import { newTestTenant } from '../support/test-tenant.ts';

const { secondUrl, ...first } = await useTwoNodes();
const server = { ...first, url: secondUrl };
const admin = apiOf(server);
const database = await useDatabase(server.databaseUrl);

beforeAll(async () => {
  expectOk(await admin.post('/v1/agent/spawn', { agentId: agent('shown'), description: 'x' }));
});

const callerIn = (answer: RawAnswer): Caller => (expectOk(answer) as SignedIn).caller;
const port = () => new URL(server.url).port;
const setCookie = (answer: RawAnswer): string => answer.headers.get('set-cookie') ?? '';
const whoami = (browser: SignedInBrowser) => browser.send('/v1/whoami');

describe('sign-in code', () => {
  test('signs in as the key that requested it, and does not reveal the key', async () => {
    const keys = await Promise.all(['viewer', 'member', 'admin'].map((role) => createKey(admin, { role })));
    for (const api of [
      ...keys.map((made) => made.api),
      apiOf({ url: server.url, key: server.operator.key }),
    ]) {
      const answer = await signInWithCode(server.url, await codeOf(api));
      expect(callerIn(answer)).toEqual((await api.get('/v1/whoami')).body);
      expect(answer.text + JSON.stringify([...answer.headers])).not.toContain(api.key.split('.')[1]);
    }
  });

  test('works once, and then says what to do', async () => {
    const code = await codeOf(admin);
    expectOk(await signInWithCode(server.url, code));
    const { message } = expectError(await signInWithCode(server.url, code), 'UNAUTHENTICATED');
    expect(message).toMatch(/used or has expired.*muster\.js open/);
    expect(message).not.toContain(code);
  });

  test('works once among many concurrent uses, on two nodes', async () => {
    const code = await codeOf(admin);
    const answers = await Promise.all(
      Array.from({ length: 12 }, (_, i) => signInWithCode(i % 2 ? first.url : server.url, code)),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(11).fill(401)]);
  });

  test('is valid for five minutes, once, on every node', async () => {
    const askedMs = Date.now();
    const { code, expiresAt } = expectOk(await admin.post<SignInCode>('/v1/sign-in/code'));
    const livesMs = Date.parse(expiresAt) - askedMs;
    expect(livesMs).toBeGreaterThan(limits.signInCodeMinutes * 60_000 - 5_000);
    expect(livesMs).toBeLessThan(limits.signInCodeMinutes * 60_000 + 30_000);
    expectOk(await signInWithCode(first.url, code));
    for (const url of [first.url, server.url])
      expectError(await signInWithCode(url, code), 'UNAUTHENTICATED');
  });

  test('of a key that was revoked meanwhile does not work', async () => {
    const { api, name } = await createKey(admin, { role: 'member' });
    const code = await codeOf(api);
    expectOk(await admin.del(`/v1/catalog/token/${name}`));
    expectError(await signInWithCode(server.url, code), 'UNAUTHENTICATED');
  });

  test('is dropped when its key has requested twenty more', async () => {
    const { api } = await createKey(admin, { role: 'member' });
    const codes: string[] = [];
    for (let i = 0; i < limits.signInCodesPerKey + 1; i++) codes.push(await codeOf(api));
    const [oldest, second] = codes;
    expectError(await signInWithCode(server.url, oldest), 'UNAUTHENTICATED');
    expect(callerIn(await signInWithCode(server.url, second))).toEqual((await api.get('/v1/whoami')).body);
  });

  test('is dropped when its tenant has too many, and one that has expired makes room', async () => {
    const { admin: other } = await newTenant(server.operator, 'admin');
    const { name } = await createKey(other, { role: 'member' });
    /** Codes that another key of the tenant has requested. */
    const insert = (count: number, hours: number) =>
      database.query(
        `INSERT INTO sign_in_codes (tenant, hash, key_id, created_at, expires_at)
         SELECT tenant, uuid_send(gen_random_uuid()), key_id, now(), now() + $3 * interval '1 hour'
         FROM keys, generate_series(1, $2::int) WHERE name = $1`,
        [name, count, hours],
      );
    const [oldest, second] = [await codeOf(other), await codeOf(other)];
    await insert(limits.signInCodesPerTenant, -1);
    await insert(limits.signInCodesPerTenant - 2, 1);
    await codeOf(other);
    expectError(await signInWithCode(server.url, oldest), 'UNAUTHENTICATED');
    expectOk(await signInWithCode(server.url, second));
  });

  test('does not work after its time, nor does a part of it', async () => {
    const code = await codeOf(admin);
    for (const guess of [code.slice(1), code.slice(0, -1), `${code}x`, code.toUpperCase()])
      expectError(await signInWithCode(server.url, guess), 'UNAUTHENTICATED');
    const expire = 'UPDATE sign_in_codes SET expires_at = now() WHERE hash = $1';
    expect((await database.query(expire, [hashSecret(code)])).rowCount).toBe(1);
    expectError(await signInWithCode(server.url, code), 'UNAUTHENTICATED');
  });

  test('has at least 160 random bits, and only its hash is stored', async () => {
    const code = await codeOf(admin);
    expect(Buffer.from(code, 'base64url').length * 8).toBeGreaterThanOrEqual(160);
    const { rows } = await database.query('SELECT * FROM sign_in_codes');
    const stored = JSON.stringify(rows);
    for (const written of [code, Buffer.from(code).toString('hex'), Buffer.from(code).toString('base64')])
      expect(stored).not.toContain(written);
    expect(rows.map(({ hash }) => hash.toString('hex'))).toContain(hashSecret(code).toString('hex'));
  });

  test('and its reply may not be cached', async () => {
    const made = await admin.post<SignInCode>('/v1/sign-in/code');
    expect(made.headers.get('cache-control')).toBe('no-store');
    const answer = await signInWithCode(server.url, made.body.code);
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
      expectOk(await signInWithCode(server.url, await codeOf(admin), { authorization }));
  });

  test.each<[what: string, code: unknown]>([
    ['none', undefined],
    ['null', null],
    ['empty', ''],
    ['a number', 7],
    ['a list', ['x']],
    ['too long', 'x'.repeat(129)],
  ])('with a code that is %s is INVALID_ARGUMENT', async (_, code) => {
    expectError(await signInWithCode(server.url, code), 'INVALID_ARGUMENT', 'code');
  });

  test('of more than 4 KiB is refused', async () => {
    const { message } = expectError(await signInWithCode(server.url, 'x'.repeat(5_000)), 'INVALID_ARGUMENT');
    expect(message).toContain('4 KiB');
  });

  test('with an unknown code is UNAUTHENTICATED', async () => {
    expectError(await signInWithCode(server.url, unknown), 'UNAUTHENTICATED');
  });

  test.each<[host: string, origin: string]>([
    ['localhost', 'http://localhost'],
    ['localhost:8420', 'http://localhost:8420'],
    ['127.0.0.1:9000', 'http://127.0.0.1:9000'],
    ['[::1]:8420', 'http://[::1]:8420'],
    [publicHost, `https://${publicHost}`],
    [`${publicHost}:443`, `https://${publicHost}`],
  ])('at Host %s from %s works', async (host, origin) => {
    const answer = await signInWithCode(server.url, await codeOf(admin), { host, origin });
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
        await signInWithCode(server.url, code, { host, origin }),
        'PERMISSION_DENIED',
      );
      expect(message).toMatch(/Host.*MUSTER_PUBLIC_URL/);
    }
    expectOk(await signInWithCode(server.url, code));
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
    const { message } = expectError(
      await signInWithCode(server.url, code, { host, origin }),
      'PERMISSION_DENIED',
    );
    expect(message).toMatch(/Origin.*MUSTER_PUBLIC_URL/);
    expectOk(await signInWithCode(server.url, code));
  });

  test('without an Origin is PERMISSION_DENIED, whatever else is wrong with it', async () => {
    const headers = { 'content-type': 'application/json' };
    for (const body of [JSON.stringify({ code: await codeOf(admin) }), '{', '[]']) {
      const answer = await sendRaw(server.url, { path: '/v1/sign-in', headers, body });
      expect(expectError(answer, 'PERMISSION_DENIED').message).toContain('Origin is missing');
    }
  });
});

describe('the cookie', () => {
  test('has an opaque secret that scripts cannot read, and the reply does not contain the key', async () => {
    const answer = await signInWithKey(server.url, server.key);
    const { session, caller } = expectOk(answer) as SignedIn;
    expect(setCookie(answer)).toMatch(
      new RegExp(`^muster-session-${port()}=[\\w-]{43}; Path=/; Max-Age=604800; HttpOnly; SameSite=Lax$`),
    );
    expect(caller).toEqual((await admin.get('/v1/whoami')).body);
    expect(session).toMatchObject({ account: 'admin', role: 'admin', keyId: caller.keyId });
    expect(answer.text).not.toContain(server.key.split('.')[1]);
    const secret = cookieIn(answer).split('=')[1] ?? '';
    expect(answer.text).not.toContain(secret);
    expect(answer.headers.get('cache-control')).toBe('no-store');
    const { rows } = await database.query('SELECT * FROM browser_sessions WHERE id = $1', [session.id]);
    expect(JSON.stringify(rows)).toContain(session.id);
    expect(JSON.stringify(rows)).not.toContain(secret);
  });

  test('on HTTPS is for that host only, and Secure', async () => {
    const place = { host: publicHost, origin: `https://${publicHost}` };
    const answer = await signInWithKey(server.url, server.key, {}, place);
    expect(setCookie(answer)).toMatch(/^__Host-muster-session=[\w-]{43}; Path=\/; .*; Secure$/);
    const cookie = cookieIn(answer);
    const read = (headers: Record<string, string>) =>
      sendRaw(server.url, { method: 'GET', path: '/v1/whoami', headers });
    expectOk(await read({ cookie, host: publicHost }));
    // A page without TLS could have set the other name.
    const planted = cookie.replace('__Host-muster-session', 'muster-session-80');
    expectError(await read({ cookie: planted, host: publicHost }), 'UNAUTHENTICATED');
  });

  test('of another port of the host, or sent twice, is ignored', async () => {
    const browser = await browserOf(server.url, server.key);
    const other = browser.cookie.replace(`-${port()}=`, '-1=');
    for (const cookie of [other, `${browser.cookie}; ${browser.cookie}`, `muster-session-${port()}=x`, 'x'])
      expectError(await browser.send('/v1/whoami', undefined, { cookie }), 'UNAUTHENTICATED');
    expectOk(await browser.send('/v1/whoami', undefined, { cookie: `a=b; ${other}; ${browser.cookie}` }));
  });

  test('is read only without an Authorization header', async () => {
    const browser = await browserOf(server.url, server.key);
    for (const authorization of ['Bearer mst_none.none', 'Bearer', 'Basic abc', ''])
      expectError(await browser.send('/v1/whoami', undefined, { authorization }), 'UNAUTHENTICATED');
    const { key } = await createKey(admin, { role: 'viewer', account: 'vic' });
    const answer = await browser.send('/v1/whoami', undefined, { authorization: `Bearer ${key}` });
    expect((expectOk(answer) as Caller).account).toBe('vic');
  });

  test('does not reach the routes of runners or /mcp', async () => {
    const browser = await browserOf(server.url, server.key);
    const runnerRoutes = routeEntries.filter(([, route]) => route.access === 'runner');
    for (const [, route] of runnerRoutes) expectError(await browser.send(route.path, {}), 'UNAUTHENTICATED');
    expect(runnerRoutes.length).toBeGreaterThan(3);
    expectError(await browser.send('/mcp', {}), 'UNAUTHENTICATED');
  });
});

describe('a request with a cookie that changes something', () => {
  const spawn = () => ({ agentId: agent(uniqueName('by-cookie')), description: 'x' });

  test('needs the Origin of the service, on POST and DELETE', async () => {
    const browser = await browserOf(server.url, server.key);
    expectOk(await browser.send('/v1/agent/spawn', spawn()));
    const { host } = new URL(server.url);
    for (const origin of [
      undefined,
      'null',
      '',
      'https://attacker.example',
      `https://${host}`,
      `http://${host}.attacker.example`,
      `http://localhost:${port()}`,
      'http://127.0.0.1:1',
      `${server.url}/`,
    ]) {
      const answer = await browser.send('/v1/agent/spawn', spawn(), { origin });
      expect(expectError(answer, 'PERMISSION_DENIED').message).toContain('Origin');
      const headers = { cookie: browser.cookie, ...(origin !== undefined && { origin }) };
      const gone = await sendRaw(server.url, {
        method: 'DELETE',
        path: '/v1/catalog/persona/nothing',
        headers,
      });
      expectError(gone, 'PERMISSION_DENIED');
    }
  });

  test.each(routeEntries.filter(([, { access }]) => !['runner', 'own-page', 'anyone'].includes(access)))(
    '%s',
    async (_, route) => {
      const browser = await browserOf(server.url, server.key);
      const path = route.path
        .replace('{pool}', 'default')
        .replace('{ref.kind}', 'persona')
        .replace('{ref.name}', 'none');
      const headers = { cookie: browser.cookie, 'content-type': 'application/json' };
      if (route.method === 'GET') {
        const answer = await sendRaw(server.url, {
          method: 'GET',
          path,
          headers: { ...headers, origin: 'https://attacker.example' },
        });
        return void expectError(answer, 'PERMISSION_DENIED');
      }
      const answer = await sendRaw(server.url, { method: route.method, path, headers, body: '{}' });
      expectError(answer, 'PERMISSION_DENIED');
    },
  );

  test('is accepted under every name the page was loaded from', async () => {
    for (const host of ['localhost:9', '192.168.1.5:8420', 'box.lan']) {
      const place = { host, origin: `http://${host}` };
      const answer = await signInWithKey(server.url, server.key, {}, place);
      const browser = signedIn(server.url, cookieIn(answer), expectOk(answer) as SignedIn);
      expectOk(await browser.send('/v1/agent/spawn', spawn(), place));
      const elsewhere = { ...place, origin: 'http://attacker.example' };
      expectError(await browser.send('/v1/agent/spawn', spawn(), elsewhere), 'PERMISSION_DENIED');
    }
  });

  test('a sign-in with a key needs the Origin too', async () => {
    for (const origin of ['https://attacker.example', 'null', `${server.url}/`])
      expectError(await signInWithKey(server.url, server.key, {}, { origin }), 'PERMISSION_DENIED');
  });
});

describe('signing in', () => {
  test("returns another secret each time, and ends the browser's previous session", async () => {
    const first = await browserOf(server.url, server.key);
    const answer = await signInWithKey(server.url, server.key, {}, { cookie: first.cookie });
    const second = signedIn(server.url, cookieIn(answer), expectOk(answer) as SignedIn);
    expect(second.cookie).not.toBe(first.cookie);
    expect(second.session.id).not.toBe(first.session.id);
    expectError(await whoami(first), 'UNAUTHENTICATED');
    expectOk(await whoami(second));
  });

  test('never uses a secret that the browser sent', async () => {
    const planted = `muster-session-${port()}=${'A'.repeat(43)}`;
    const answer = await signInWithKey(server.url, server.key, {}, { cookie: planted });
    expectOk(answer);
    expect(cookieIn(answer)).not.toBe(planted);
    const browser = signedIn(server.url, planted, expectOk(answer) as SignedIn);
    expectError(await whoami(browser), 'UNAUTHENTICATED');
  });

  test.each(['runner', 'share'])('is not for the key of a machine: %s', async (role) => {
    const key =
      role === 'share'
        ? (await createShareLink(admin, agent('shown'))).api.key
        : (await createKey(admin, { role: 'runner', pool: 'default' })).key;
    const answer = await signInWithKey(server.url, key);
    expect(expectError(answer, 'PERMISSION_DENIED').message).toContain(`the key of a machine (${role})`);
    expect(setCookie(answer)).toBe('');
  });

  test('with an invalid key is UNAUTHENTICATED and sets no cookie', async () => {
    for (const key of ['mst_none.none', 'x', `${server.key}x`]) {
      const answer = await signInWithKey(server.url, key);
      expectError(answer, 'UNAUTHENTICATED');
      expect(setCookie(answer)).toBe('');
    }
  });

  test('with a code of another account requires a confirmation, and keeps the session and the code', async () => {
    const { api } = await createKey(admin, { role: 'member', account: 'mia' });
    const browser = await browserOf(server.url, server.key);
    const code = await codeOf(api);
    const { cookie } = browser;
    const { details } = expectError(
      await signInWithCode(server.url, code, { cookie }),
      'FAILED_PRECONDITION',
    );
    expect(details).toContainEqual(
      expect.objectContaining({ reason: 'ACCOUNT_SWITCH', metadata: { account: 'codehost_oauth/mia' } }),
    );
    expectOk(await whoami(browser));
    const answer = await sendRaw(server.url, {
      path: '/v1/sign-in',
      headers: { cookie, origin: server.url, 'content-type': 'application/json' },
      body: JSON.stringify({ code, switchAccount: true }),
    });
    expect((expectOk(answer) as SignedIn).caller.account).toBe('mia');
    expectError(await whoami(browser), 'UNAUTHENTICATED');
  });

  test('with a code of the same account requires no confirmation', async () => {
    const browser = await browserOf(server.url, server.key);
    expectOk(await signInWithCode(server.url, await codeOf(admin), { cookie: browser.cookie }));
  });
});
