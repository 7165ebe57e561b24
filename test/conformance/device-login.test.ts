import type { PendingLogin, PolledLogin } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import { type Api, apiOf } from '../support/api.ts';
import { until } from '../support/async.ts';
import { deleteResource } from '../support/catalog.ts';
import { useDatabase } from '../support/database.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { sendRaw } from '../support/raw-requests.ts';
import { useTwoNodes } from '../support/shared-server.ts';
import { browserOf, type SignedInBrowser } from '../support/sign-in.ts';

import { loginRequests } from './login-requests.ts';

const { secondUrl, ...server } = await useTwoNodes();
const admin = server.api;
const database = await useDatabase(server.databaseUrl);

const { send, start, poll, newPerson, approve, loggedIn, whoami, keysOf, auditOf } = loginRequests(
  admin,
  secondUrl,
  database,
);

const untilRefused = (api: Api) =>
  until(
    'the end of the key',
    () => api.get('/v1/whoami'),
    ({ status }) => status === 401,
  );

describe('the sign-in of a command line', () => {
  test('is approved on one node, and gives a key on the other, once', async () => {
    const { account, key, api } = await newPerson();
    const browser = await browserOf(secondUrl, key);
    const login = await start('muster 1.0 on mia-laptop\u001b[2J');
    expect(login).toMatchObject({ verificationUrl: expect.stringMatching(/\/device$/), intervalSeconds: 2 });
    expect(login.userCode).toMatch(/^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$/);
    expect(await poll(login)).toEqual({ state: 'PENDING', intervalSeconds: 2, apiKey: '' });

    const typed = login.userCode.toLowerCase().replace('-', ' ');
    const shown = expectOk(await browser.send('/v1/device/show', { userCode: typed })) as PendingLogin;
    expect(shown).toMatchObject({
      userCode: login.userCode,
      client: 'muster 1.0 on mia-laptop?[2J',
      address: '127.0.0.1',
    });
    expect(Date.now() - Date.parse(shown.createdAt)).toBeLessThan(60_000);
    expectOk(await browser.send('/v1/device/answer', { userCode: typed, approve: true }));

    const { state, apiKey } = await poll(login, server.url);
    expect(state).toBe('GRANTED');
    const commandLine = admin.as(apiKey);
    const caller = await whoami(commandLine);
    expect(caller).toMatchObject({ account, role: 'member', tenant: server.tenant });
    const days = (Date.parse(caller.expiresAt ?? '') - Date.now()) / 86_400_000;
    expect(days).toBeCloseTo(90, 1);

    expect(await poll(login)).toMatchObject({ state: 'EXPIRED', apiKey: '' });
    expect(await poll(login, server.url)).toMatchObject({ state: 'EXPIRED', apiKey: '' });
    expectError(await approve(api, login), 'NOT_FOUND');

    const listed = (await keysOf(commandLine)).find(({ kind }) => kind === 'login');
    expect(listed).toMatchObject({
      ...{ keyId: caller.keyId, name: '', account, client: 'muster 1.0 on mia-laptop?[2J', isCurrent: true },
    });
    expect(await auditOf({ actor: `codehost_oauth/${account}`, kind: 'key' })).toMatchObject([
      { action: 'GRANT', name: caller.keyId, details: { address: '127.0.0.1' } },
    ]);
    const { rows } = await database.query('SELECT row_to_json(k)::text AS text FROM keys k');
    expect(JSON.stringify(rows)).not.toContain(apiKey.split('.')[1]);
  });

  test('can be denied, and then stays denied', async () => {
    const { account, api } = await newPerson();
    const login = await start();
    expectOk(await api.post('/v1/device/answer', { userCode: login.userCode, approve: false }));
    expect(await poll(login)).toMatchObject({ state: 'DENIED', apiKey: '' });
    expectError(await approve(api, login), 'NOT_FOUND');
    expect(await poll(login)).toMatchObject({ state: 'DENIED' });
    expect(await auditOf({ actor: `codehost_oauth/${account}`, kind: 'key' })).toMatchObject([
      { action: 'DENY' },
    ]);
  });

  test('ends after ten minutes, also one that was approved', async () => {
    const { api } = await newPerson();
    const [pending, approved] = [await start(), await start()];
    expect(Date.parse(pending.expiresAt) - Date.now()).toBeLessThan(10 * 60_000 + 5_000);
    expectOk(await approve(api, approved));
    await database.query('UPDATE device_logins SET expires_at = now() WHERE user_code = ANY ($1)', [
      [pending, approved].map(({ userCode }) => userCode.replace('-', '')),
    ]);
    expectError(await approve(api, pending), 'NOT_FOUND');
    for (const login of [pending, approved]) expect(await poll(login)).toMatchObject({ state: 'EXPIRED' });
  });

  test('that polls too often has to slow down', async () => {
    const { deviceCode } = await start();
    const soon = expectOk(await send('/v1/device/poll', { deviceCode })) as PolledLogin;
    expect(soon).toEqual({ state: 'SLOW_DOWN', intervalSeconds: 7, apiKey: '' });
    const again = expectOk(await send('/v1/device/poll', { deviceCode }, { url: secondUrl })) as PolledLogin;
    expect(again).toEqual({ state: 'SLOW_DOWN', intervalSeconds: 12, apiKey: '' });
  });

  test('gets one key, also when two programs poll with its code at the same time', async () => {
    const { api } = await newPerson();
    const login = await start();
    expectOk(await approve(api, login));
    await database.query("UPDATE device_logins SET polled_at = now() - interval '1 minute'");
    const polls = await Promise.all(
      [server.url, secondUrl, server.url, secondUrl].map((url) =>
        send('/v1/device/poll', { deviceCode: login.deviceCode }, { url }),
      ),
    );
    expect(polls.filter(({ body }) => (body as PolledLogin).apiKey !== '')).toHaveLength(1);
    expect((await keysOf(api)).filter(({ kind }) => kind === 'login')).toHaveLength(1);
  });

  test('is answered once, also when two answer at the same time', async () => {
    const people = await Promise.all([newPerson(), newPerson()]);
    const login = await start();
    const answers = await Promise.all(people.map(({ api }) => approve(api, login)));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 404]);
  });

  test('gets nothing if the key that approved it is gone, and the role that its person has by then', async () => {
    const [gone, lowered] = await Promise.all([newPerson(), newPerson({ role: 'admin' })]);
    const [first, second] = [await start(), await start()];
    expectOk(await approve(gone.api, first));
    expectOk(await deleteResource(admin, 'token', gone.name));
    expect(await poll(first)).toMatchObject({ state: 'EXPIRED', apiKey: '' });
    expectOk(await approve(lowered.api, second));
    await database.query("UPDATE keys SET role = 'viewer' WHERE name = $1", [lowered.name]);
    expect(await whoami(admin.as((await poll(second)).apiKey))).toMatchObject({ role: 'viewer' });
  });
});

describe('a page', () => {
  const answerFrom = (
    browser: SignedInBrowser,
    userCode: string,
    headers: Record<string, string | undefined>,
  ) => browser.send('/v1/device/answer', { userCode, approve: true }, headers);

  test('of another origin can approve nothing, and opening a link approves nothing', async () => {
    const { key } = await newPerson();
    const browser = await browserOf(server.url, key);
    const login = await start();
    for (const origin of ['https://evil.example', 'null', undefined])
      expectError(await answerFrom(browser, login.userCode, { origin }), 'PERMISSION_DENIED');
    for (const path of [`/device?code=${login.userCode}`, `/device#${login.userCode}`])
      expect(
        (
          await sendRaw(server.url, {
            method: 'GET',
            path: path.split('#')[0] ?? '',
            headers: { cookie: browser.cookie },
          })
        ).status,
      ).toBe(200);
    expectError(
      await browser.send(`/v1/device/answer?userCode=${login.userCode}&approve=true`),
      'UNIMPLEMENTED',
    );
    expect(await poll(login)).toMatchObject({ state: 'PENDING' });
  });

  test('of another origin can begin nothing from the address of its reader', async () => {
    const headers = { origin: 'https://evil.example' };
    expectError(await send('/v1/device/start', { client: 'x' }, { headers }), 'PERMISSION_DENIED');
    expectError(await send('/v1/device/poll', { deviceCode: 'x' }, { headers }), 'PERMISSION_DENIED');
  });
});

describe('codes', () => {
  test('that are wrong are counted for an account on all nodes, and right ones are not', async () => {
    const { api } = await newPerson();
    const onOther = apiOf({ url: secondUrl, key: api.key });
    const login = await start();
    for (let i = 0; i < 12; i++) expectOk(await api.post('/v1/device/show', { userCode: login.userCode }));
    const tries = await Promise.all(
      Array.from({ length: 24 }, (_, i) =>
        (i % 2 ? api : onOther).post('/v1/device/show', { userCode: 'BCDFGHJK' }),
      ),
    );
    expect(tries.filter(({ status }) => status === 404)).toHaveLength(10);
    expect(tries.filter(({ status }) => status === 429)).toHaveLength(14);
    expectError(await onOther.post('/v1/device/show', { userCode: login.userCode }), 'RESOURCE_EXHAUSTED');
    expectError(await approve(api, login), 'RESOURCE_EXHAUSTED');
    // Another account is not affected, and after ten minutes neither is this one.
    const other = await newPerson();
    expectOk(await other.api.post('/v1/device/show', { userCode: login.userCode }));
    await database.query("UPDATE wrong_codes SET since = now() - interval '11 minutes'");
    expectOk(await onOther.post('/v1/device/show', { userCode: login.userCode }));
  });

  test('of one address that wait are limited, and so are all', async () => {
    const [first] = [await start()];
    await database.query(
      `INSERT INTO device_logins SELECT sha256(n::text::bytea), 'X' || n, address, client, created_at, expires_at, polled_at,
         pause, state FROM device_logins, generate_series(1, 50) n WHERE user_code = $1`,
      [first.userCode.replace('-', '')],
    );
    expectError(await send('/v1/device/start', { client: 'x' }), 'RESOURCE_EXHAUSTED');
    await database.query("DELETE FROM device_logins WHERE user_code LIKE 'X%'");
    await start();
  });
});

describe('the key of a command line', () => {
  test('ends within 5 s on every node when it is revoked, by its person or an admin', async () => {
    const { account, api } = await newPerson();
    for (const revoker of [api, admin]) {
      const commandLine = await loggedIn(api);
      const onOther = apiOf({ url: secondUrl, key: commandLine.key });
      const { keyId } = await whoami(onOther);
      expectOk(await revoker.post('/v1/keys/revoke', { keyId, justification: 'lost' }));
      expectError(await commandLine.get('/v1/whoami'), 'UNAUTHENTICATED');
      const startedMs = performance.now();
      await untilRefused(onOther);
      expect(performance.now() - startedMs).toBeLessThan(5_000);
      expect((await auditOf({ kind: 'key', name: keyId, action: 'REVOKE' }))[0]).toMatchObject({
        justification: 'lost',
        details: { account: `codehost_oauth/${account}`, kind: 'login' },
      });
    }
  });

  test('revokes itself, and ends the browser sessions that it opened', async () => {
    const { api } = await newPerson();
    const commandLine = await loggedIn(api);
    const browser = await browserOf(server.url, commandLine.key);
    const { keyId } = await whoami(commandLine);
    expectOk(await commandLine.post('/v1/keys/revoke', { keyId }));
    expectError(await commandLine.get('/v1/whoami'), 'UNAUTHENTICATED');
    expectError(await browser.send('/v1/whoami'), 'UNAUTHENTICATED');
  });

  test('is extended by its use, at most once a day, and never beyond the token that approved it', async () => {
    const { api } = await newPerson();
    const end = new Date(Date.now() + 20 * 86_400_000).toISOString();
    const bounded = await newPerson({ expiresAt: end });
    const [free, short] = [await loggedIn(api), await loggedIn(bounded.api)];
    expect((await whoami(short)).expiresAt).toBe(end);
    const keyIds = [(await whoami(free)).keyId, (await whoami(short)).keyId];
    const daysLeft = async () => {
      const { rows } = await database.query<{ days: number }>(
        `SELECT round(extract(epoch FROM expires_at - now()) / 86400)::int AS days FROM keys WHERE key_id = ANY ($1)
         ORDER BY array_position($1, key_id)`,
        [keyIds],
      );
      return rows.map(({ days }) => days);
    };
    const age = (hours: number) =>
      database.query(
        `UPDATE keys SET used_at = now() - make_interval(hours => $2), expires_at = now() + interval '9 days' WHERE key_id = ANY ($1)`,
        [keyIds, hours],
      );
    await age(20);
    // Another node has not cached them.
    for (const { key } of [free, short]) await whoami(apiOf({ url: secondUrl, key }));
    expect(await daysLeft()).toEqual([9, 9]);
    await age(25);
    await until(
      'both are extended',
      async () => {
        for (const { key } of [free, short]) await whoami(apiOf({ url: secondUrl, key }));
        return daysLeft();
      },
      ([first, second]) => first === 90 && second === 20,
    );
  });

  test('approves others, which end no later, and the oldest of too many is revoked', async () => {
    const { account, api } = await newPerson({
      expiresAt: new Date(Date.now() + 5 * 86_400_000).toISOString(),
    });
    const first = await loggedIn(api, 'first');
    const second = await loggedIn(first, 'second');
    expect((await whoami(second)).expiresAt).toBe((await whoami(api)).expiresAt);
    await database.query(
      `INSERT INTO keys (tenant, key_id, hash, role, owner_provider, account, pool, kind, name, created, used_at)
       SELECT tenant, 'old' || n || account, hash, role, owner_provider, account, '', 'login', '', 0, now() - n * interval '1 minute'
       FROM keys, generate_series(1, 98) n WHERE account = $1 AND kind = 'token'`,
      [account],
    );
    await loggedIn(api, 'third');
    const logins = (await keysOf(api)).filter(({ kind }) => kind === 'login');
    expect(logins).toHaveLength(100);
    expect(logins.map(({ keyId }) => keyId)).not.toContain(`old98${account}`);
  });

  test('never has more than the key that approved it, whatever role an admin sets', async () => {
    const { account, api } = await newPerson({ role: 'viewer' });
    const commandLine = await loggedIn(api);
    const update = (role: string) =>
      admin.post('/v1/members/update', { account, ownerProvider: 'PROVIDER_CODEHOST_OAUTH', role });
    expectOk(await update('admin'));
    await until(
      'the role of both',
      async () => [(await whoami(commandLine)).role, (await whoami(await loggedIn(api))).role],
      (found) => found.every((role) => role === 'viewer'),
    );
    expect((await keysOf(commandLine)).map(({ role }) => role)).toEqual(['viewer', 'viewer', 'viewer']);
  });

  test('that a sign-in at a provider approved has the role that an admin set, and ends with what the sign-in opened', async () => {
    const { account, api, name } = await newPerson();
    await database.query(
      "UPDATE keys SET kind = 'sign-in', expires_at = now() + interval '30 days' WHERE name = $1",
      [name],
    );
    const commandLine = await loggedIn(api);
    const { keyId, expiresAt } = await whoami(commandLine);
    expect((Date.parse(expiresAt ?? '') - Date.now()) / 86_400_000).toBeCloseTo(30, 1);
    expectOk(
      await admin.post('/v1/members/update', {
        account,
        ownerProvider: 'PROVIDER_CODEHOST_OAUTH',
        role: 'viewer',
      }),
    );
    await until(
      'the role that was set',
      () => whoami(commandLine),
      ({ role }) => role === 'viewer',
    );
    const use = async () => {
      await database.query("UPDATE keys SET used_at = now() - interval '2 days' WHERE key_id = $1", [keyId]);
      // Nodes trust a key for some seconds before they read it again.
      return until(
        'its use is written',
        async () => {
          await whoami(commandLine);
          const [key] = (await keysOf(commandLine)).filter((one) => one.keyId === keyId);
          return key;
        },
        (key) => Date.now() - Date.parse(key?.lastUsedAt ?? '') < 60_000,
      );
    };
    await database.query("UPDATE keys SET expires_at = now() + interval '60 days' WHERE name = $1", [name]);
    const days = async () => (Date.parse((await use())?.expiresAt ?? '') - Date.now()) / 86_400_000;
    expect(await days()).toBeCloseTo(60, 1);
    await database.query("DELETE FROM keys WHERE name = $1 AND kind = 'sign-in'", [name]);
    expect(await days()).toBeCloseTo(60, 1);
    expectOk(
      await admin.post('/v1/members/update', {
        account,
        ownerProvider: 'PROVIDER_CODEHOST_OAUTH',
        disabled: true,
      }),
    );
    await untilRefused(commandLine);
  });
});
