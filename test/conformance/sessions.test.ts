import type { BrowserSession, Caller, SignedIn } from '@muster/sdk/contract';
import { beforeAll, describe, expect, test } from 'vitest';
import { type Api, agent } from '../support/api.ts';
import { until } from '../support/async.ts';
import { createKey, createShareLink, postResource, uniqueName } from '../support/catalog.ts';
import { useDatabase } from '../support/database.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import type { RawAnswer } from '../support/raw-requests.ts';
import { useTwoNodes } from '../support/shared-server.ts';
import { browserOf, cookieIn, type SignedInBrowser, signedIn, signInWithKey } from '../support/sign-in.ts';
import { openRequest } from '../support/streams.ts';

const { secondUrl, ...server } = await useTwoNodes();
const admin = server.api;
const database = await useDatabase(server.databaseUrl);

beforeAll(async () => {
  expectOk(await admin.post('/v1/agent/spawn', { agentId: agent('shown'), description: 'x' }));
});

const port = () => new URL(server.url).port;
const setCookie = (answer: RawAnswer): string => answer.headers.get('set-cookie') ?? '';
const whoami = (browser: SignedInBrowser) => browser.send('/v1/whoami');

const sessionsOf = async (caller: Api, body = {}): Promise<BrowserSession[]> =>
  expectOk(await caller.post<{ entries: BrowserSession[] }>('/v1/sessions', body)).entries;

/** Another node notices within 5 s. */
const untilEnded = (browser: SignedInBrowser) =>
  until(
    'the end of the session',
    () => whoami(browser),
    ({ status }) => status === 401,
  );

describe('a session', () => {
  test("acts as its key, with the key's current role", async () => {
    const { name, key } = await createKey(admin, { role: 'member', account: 'mia' });
    const browser = await browserOf(server.url, key);
    expectOk(await browser.send('/v1/agent/spawn', { agentId: agent(uniqueName('mine')), description: 'x' }));
    expectError(
      await browser.send(`/v1/catalog/workspace/${uniqueName('w')}`, { payload: '' }),
      'PERMISSION_DENIED',
    );
    expectOk(await postResource(admin, 'token', name, { role: 'viewer' }, { updateMask: 'role' }));
    await until(
      'the lower role',
      () => whoami(browser),
      ({ body }) => (body as Caller).role === 'viewer',
    );
    expectError(
      await browser.send('/v1/agent/spawn', { agentId: agent('no'), description: 'x' }),
      'PERMISSION_DENIED',
    );
  });

  test('that a page names in Muster-Session is the only one used', async () => {
    const first = await browserOf(server.url, server.key);
    const { key } = await createKey(admin, { role: 'member', account: 'mia' });
    const second = await browserOf(server.url, key);
    const pinned = { 'muster-session': first.session.id };
    expectOk(await first.send('/v1/whoami', undefined, pinned));
    expectError(await second.send('/v1/whoami', undefined, pinned), 'UNAUTHENTICATED');
    expectError(await second.send('/v1/agents', {}, pinned), 'UNAUTHENTICATED');
    expectError(await first.send('/v1/whoami', undefined, { 'muster-session': 'none' }), 'UNAUTHENTICATED');
  });

  test('is described to its cookie, and absent for a key', async () => {
    const browser = await browserOf(server.url, server.key);
    const { session, caller } = expectOk(await browser.send('/v1/session')) as SignedIn;
    expect({ session, caller }).toEqual({ session: browser.session, caller: browser.caller });
    expectError(await admin.get('/v1/session'), 'NOT_FOUND');
    expectError(await admin.post('/v1/sign-out'), 'NOT_FOUND');
  });

  test('ends at sign-out, with its open streams and waits, and clears the cookie', async () => {
    const browser = await browserOf(server.url, server.key);
    const byCookie = { url: server.url, key: 'none' };
    const headers = { cookie: browser.cookie, origin: server.url };
    const held = [
      openRequest(byCookie, '/v1/agent/wait', { agentId: agent('shown') }, headers),
      openRequest(byCookie, '/v1/agent/timeline/stream', { agentId: agent('shown') }, headers),
      openRequest(byCookie, '/v1/agents/stream', {}, headers),
    ];
    expect(await Promise.all(held.slice(1).map(({ opened }) => opened))).toEqual([200, 200]);
    const out = await browser.send('/v1/sign-out', {});
    expectOk(out);
    expect(setCookie(out)).toMatch(new RegExp(`^muster-session-${port()}=; Path=/; Max-Age=0; HttpOnly`));
    const [wait] = await Promise.all(held.map(({ ended }) => ended));
    expect(wait?.status).toBe(401);
    expectError(await whoami(browser), 'UNAUTHENTICATED');
  });

  test.concurrent.each<[what: string, end: (name: string) => Promise<unknown>]>([
    ['deleted', async (name) => expectOk(await admin.del(`/v1/catalog/token/${name}`))],
    [
      'rotated',
      async (name) =>
        expectOk(await postResource(admin, 'token', name, { rotate: true }, { updateMask: 'rotate' })),
    ],
    [
      'given an end in the past',
      async (name) => {
        const expiry = { expiresAt: '2001-01-01T00:00:00Z' };
        expectOk(await postResource(admin, 'token', name, expiry, { updateMask: 'expiresAt' }));
      },
    ],
  ])('ends with its key, and so do its streams, on every node: %s', async (_, end) => {
    const { name, key } = await createKey(admin, { role: 'member', account: 'mia' });
    const browser = await browserOf(server.url, key);
    const host = new URL(server.url).host;
    const there = signedIn(secondUrl, browser.cookie, browser);
    const place = { host, origin: server.url };
    expectOk(await there.send('/v1/whoami', undefined, place));
    const stream = openRequest(
      { url: secondUrl, key: '' },
      '/v1/agents/stream',
      {},
      {
        cookie: browser.cookie.replace(`-${port()}=`, `-${new URL(secondUrl).port}=`),
        origin: secondUrl,
      },
    );
    expect(await stream.opened).toBe(200);
    await end(name);
    await stream.ended;
    await until(
      'the end of the session',
      () => there.send('/v1/whoami', undefined, place),
      ({ status }) => status === 401,
    );
    await untilEnded(browser);
  });

  test('ends 12 hours after its last use, and 7 days after it started', async () => {
    const change = (id: string, set: string) =>
      database.query(`UPDATE browser_sessions SET ${set} WHERE id = $1`, [id]);
    const idle = await browserOf(server.url, server.key);
    await change(idle.session.id, "seen_at = now() - interval '12 hours 1 second'");
    await untilEnded(idle);
    const old = await browserOf(server.url, server.key);
    await change(old.session.id, "expires_at = now() - interval '1 second'");
    await untilEnded(old);
    const ids = (await sessionsOf(admin)).map(({ id }) => id);
    expect(ids).not.toContain(idle.session.id);
    expect(ids).not.toContain(old.session.id);
    // Using the session extends it, which is stored.
    const used = await browserOf(server.url, server.key);
    await change(used.session.id, "seen_at = now() - interval '11 hours'");
    await until(
      'the use',
      async () => {
        expectOk(await whoami(used));
        return (expectOk(await used.send('/v1/session')) as SignedIn).session.lastSeenAt;
      },
      (seenAt) => Date.parse(seenAt) > Date.now() - 3_600_000,
    );
  });
});

describe('list of sessions', () => {
  test("has an account's own, and all of the tenant for admins", async () => {
    const account = uniqueName('mia');
    const { key, api } = await createKey(admin, { role: 'member', account });
    const browsers = [await browserOf(server.url, key), await browserOf(server.url, key)];
    const ids = browsers.map(({ session }) => session.id).reverse();
    expect((await sessionsOf(api)).map(({ id }) => id)).toEqual(ids);
    expect((await sessionsOf(admin, { account })).map(({ id }) => id)).toEqual(ids);
    expect((await sessionsOf(admin, { account: '*' })).map(({ id }) => id)).toEqual(
      expect.arrayContaining(ids),
    );
    expectError(await api.post('/v1/sessions', { account: '*' }), 'PERMISSION_DENIED');
    expectError(await api.post('/v1/sessions', { account: 'admin' }), 'PERMISSION_DENIED');
    const page = expectOk(
      await api.post<{ entries: BrowserSession[]; nextPageToken: string }>('/v1/sessions', { pageSize: 1 }),
    );
    const { nextPageToken } = page;
    const rest = await sessionsOf(api, { pageToken: nextPageToken });
    expect([...page.entries, ...rest].map(({ id }) => id)).toEqual(ids);
    expectError(await api.post('/v1/sessions', { pageToken: 'x' }), 'INVALID_ARGUMENT', 'pageToken');
  });

  test('lets the owner and admins end a session, and nobody else', async () => {
    const { key, api } = await createKey(admin, { role: 'member', account: 'mia' });
    const { api: stranger } = await createKey(admin, { role: 'member', account: 'max' });
    for (const [by, isAllowed] of [
      [stranger, false],
      [api, true],
      [admin, true],
    ] as const) {
      const browser = await browserOf(server.url, key);
      const answer = await by.post('/v1/session/revoke', { id: browser.session.id });
      if (isAllowed) expectOk(answer);
      else expectError(answer, 'PERMISSION_DENIED');
      expect((await whoami(browser)).status).toBe(isAllowed ? 401 : 200);
    }
    const gone = await admin.post('/v1/session/revoke', { id: '01890000-0000-7000-8000-000000000000' });
    expectError(gone, 'NOT_FOUND');
    expectError(await admin.post('/v1/session/revoke', { id: 'x' }), 'INVALID_ARGUMENT', 'id');
  });

  test("an admin cannot end an operator's session, and no tenant sees another's", async () => {
    const { operator } = server;
    const local = { provider: 'PROVIDER_CODEHOST_APP', org: 'local' };
    const { api: localAdmin } = await createKey(
      operator,
      { role: 'admin', account: uniqueName('admin') },
      { ref: { tenant: local }, justification: 'a test' },
    );
    const browser = await browserOf(server.url, operator.key);
    const { id } = browser.session;
    expectError(await localAdmin.post('/v1/session/revoke', { id }), 'PERMISSION_DENIED');
    const tenant = { provider: 'PROVIDER_CODEHOST_APP', org: uniqueName('org') };
    const { api: chief } = await createKey(
      operator,
      { role: 'admin', account: 'chief' },
      { ref: { tenant }, justification: 'a test' },
    );
    expectError(await chief.post('/v1/session/revoke', { id }), 'NOT_FOUND');
    expect(await sessionsOf(chief, { account: '*' })).toEqual([]);
    for (const path of ['/v1/sessions', '/v1/session/revoke'])
      expectError(await chief.post(path, { id, tenant: local }), 'PERMISSION_DENIED');
    expectOk(await whoami(browser));
    expectOk(await operator.post('/v1/session/revoke', { id }));
  });

  test('a key has at most 1,000: the least recently used end', async () => {
    const { key, api } = await createKey(admin, { role: 'member', account: uniqueName('busy') });
    const first = await browserOf(server.url, key);
    await database.query(
      `INSERT INTO browser_sessions SELECT tenant, gen_random_uuid(), key_id, sha256(n::text::bytea || hash),
         '', created_at, seen_at - interval '1 hour', expires_at FROM browser_sessions, generate_series(1, 1000) n
       WHERE id = $1`,
      [first.session.id],
    );
    const last = await browserOf(server.url, key);
    const ids = (await sessionsOf(api)).map(({ id }) => id);
    expect(ids).toHaveLength(1000);
    expect(ids).toEqual(expect.arrayContaining([first.session.id, last.session.id]));
  });
});

describe('session of a share link', () => {
  const shared = async () => (await createShareLink(admin, agent('shown'))).api.key;

  test('reads that one agent, beside the session of a person', async () => {
    const person = await browserOf(server.url, server.key);
    const answer = await signInWithKey(
      server.url,
      await shared(),
      { share: true },
      { cookie: person.cookie },
    );
    const { session, caller } = expectOk(answer) as SignedIn;
    expect(caller.role).toBe('share');
    expect(setCookie(answer)).toMatch(new RegExp(`^muster-share-${port()}-${session.id}=[\\w-]{43}; `));
    const cookie = `${person.cookie}; ${cookieIn(answer)}`;
    const both = signedIn(server.url, cookie, { session, caller });
    expect((expectOk(await both.send('/v1/whoami')) as Caller).role).toBe('admin');
    const pinned = { 'muster-session': session.id };
    expectOk(await both.send('/v1/agent/status', {}, pinned));
    expectError(await both.send('/v1/agent/kill', { agentId: agent('shown') }, pinned), 'PERMISSION_DENIED');
    expectError(await both.send('/v1/agents', {}, pinned), 'PERMISSION_DENIED');
    expectError(await both.send('/v1/sessions', {}, pinned), 'PERMISSION_DENIED');
    // The cookie of a link is ignored without its name.
    const alone = signedIn(server.url, cookieIn(answer), { session, caller });
    expectError(await whoami(alone), 'UNAUTHENTICATED');
  });

  test('is only for the secret of a link: the key of a person is refused', async () => {
    const answer = await signInWithKey(server.url, server.key, { share: true });
    const { details } = expectError(answer, 'PERMISSION_DENIED');
    expect(details).toContainEqual(expect.objectContaining({ reason: 'NOT_A_SHARE_LINK' }));
    expect(setCookie(answer)).toBe('');
  });

  test('ends with the link', async () => {
    const link = await createShareLink(admin, agent('shown'));
    const answer = await signInWithKey(server.url, link.api.key, { share: true });
    const browser = signedIn(server.url, cookieIn(answer), expectOk(answer) as SignedIn);
    const pinned = { 'muster-session': browser.session.id };
    expectOk(await browser.send('/v1/whoami', undefined, pinned));
    expectOk(await admin.del(`/v1/catalog/share-link/${link.name}`));
    expectError(await browser.send('/v1/whoami', undefined, pinned), 'UNAUTHENTICATED');
  });

  test('a browser has at most twenty', async () => {
    const key = await shared();
    const ids = Array.from({ length: 22 }, (_, at) => `x${at}`);
    const cookie = ids.map((id) => `muster-share-${port()}-${id}=secret`).join('; ');
    const { headers } = await signInWithKey(server.url, key, { share: true }, { cookie });
    const cleared = [...(headers.get('set-cookie') ?? '').matchAll(/-(x\d+)=; Path=\/; Max-Age=0/g)];
    expect(cleared.map(([, id]) => id)).toEqual(['x0', 'x1', 'x2']);
  });
});
