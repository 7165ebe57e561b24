import type { PushSubscription, ReplyOf } from '@muster/sdk/contract';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Api, apiOf } from '../support/api.ts';
import { until } from '../support/async.ts';
import { createKey, createShareLink, uniqueName, writeResource } from '../support/catalog.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { type PushedBrowser, startPushService } from '../support/push-service.ts';
import { type Server, startServer } from '../support/server.ts';
import { browserOf, type SignedInBrowser } from '../support/sign-in.ts';

let pushes: Awaited<ReturnType<typeof startPushService>>;
let server: Server;
let admin: Api;
let database: pg.Client;

beforeAll(async () => {
  pushes = await startPushService();
  server = await startServer({
    env: {
      MUSTER_ALLOW_INNER_HOSTS: pushes.host,
      MUSTER_NOTIFICATION_SETTLE_SECONDS: '1',
      MUSTER_SANDBOX: 'off',
    },
  });
  admin = apiOf(server);
  database = new pg.Client({ connectionString: server.databaseUrl });
  await database.connect();
});
afterAll(async () => {
  await database?.end();
  await server?.close();
  await pushes?.close();
});

/** A person with a browser that shows notifications. */
interface Person {
  readonly api: Api;
  readonly account: string;
  readonly session: SignedInBrowser;
  readonly browser: PushedBrowser;
}

async function person(fields: object = {}, role = 'member'): Promise<Person> {
  const account = uniqueName('person');
  const { key, api } = await createKey(admin, { role, account });
  const session = await browserOf(server.url, key);
  const browser = pushes.browser();
  expectOk(await session.send('/v1/push/subscribe', { ...browser.subscription, ...fields }));
  return { api, account, session, browser };
}

async function spawn(api: Api, description: string) {
  const agentId = { agent: [uniqueName('agent')] };
  expectOk(await api.post('/v1/agent/spawn', { agentId, description, model: 'rehearsal-a' }));
  return agentId;
}

const listed = async (session: SignedInBrowser) =>
  expectOk(await session.send('/v1/push/subscriptions', {})) as ReplyOf<'pushSubscriptions'>;

/** What was sent to the browser of a session, once the newest is settled. */
const settled = (session: SignedInBrowser, count = 1): Promise<PushSubscription['recent']> =>
  until(
    `${count} settled deliveries`,
    async () => (await listed(session)).subscriptions.find(({ isCurrent }) => isCurrent)?.recent ?? [],
    (recent) => recent.length >= count && recent.every(({ settledAt }) => settledAt !== null),
  );

describe('a browser', () => {
  test('gets the question of its own agents, encrypted for it and signed by the service', async () => {
    const { api, session, browser } = await person();
    await spawn(admin, '!ask Not yours?');
    const { agent } = await spawn(api, '!ask Which **database**?');
    expect(await browser.titles(1)).toEqual([`${agent[0]} needs input`]);
    const [{ headers, push }] = browser.received as [PushedBrowser['received'][number]];
    const status = expectOk(
      await api.post<{ dashboardUrl: string }>('/v1/agent/status', { agentId: { agent } }),
    );
    expect(push).toMatchObject({ body: 'Which **database**?', withdrawn: false });
    expect(push.url).toBe(new URL(status.dashboardUrl).pathname);
    expect(headers).toMatchObject({
      ttl: '86400',
      urgency: 'high',
      'content-encoding': 'aes128gcm',
      topic: push.tag,
    });
    const { publicKey } = await listed(session);
    expect(headers.authorization).toMatch(/^vapid t=[\w-]+\.[\w-]+\.[\w-]+, k=/);
    expect(headers.authorization).toContain(`k=${publicKey}`);
    expect(await settled(session)).toMatchObject([{ type: 'agent.needs_input', state: 'SENT', error: '' }]);
  });

  test('gets those of all agents if its person wants them, in texts that are cut and masked', async () => {
    const { browser } = await person({ scope: 'ALL' }, 'viewer');
    const value = `canary-${uniqueName('secret')}`;
    await writeResource(admin, 'secret', uniqueName('s'), { value });
    await spawn(admin, `!ask ${value} ${'ä€😀'.repeat(3_000)}`);
    await browser.titles(1);
    expect(browser.received[0]?.push.body).toMatch(/^\*\*\*.*…$/);
  });

  test('gets nothing that its person has seen meanwhile, and a colleague who has not gets it', async () => {
    const ada = await person({ scope: 'ALL' });
    const bob = await person({ scope: 'ALL' });
    const { agent } = await spawn(ada.api, '!ask Me?');
    const agentId = { agent, account: ada.account };
    await until(
      'the question',
      () => ada.api.post<{ phaseReason: string }>('/v1/agent/status', { agentId }),
      ({ body }) => body.phaseReason === 'QUESTION',
    );
    expectOk(await ada.session.send('/v1/agents/marks', { marks: [{ agentId, seen: 1_000_000 }] }));
    await bob.browser.titles(1);
    const [delivery] = await settled(ada.session);
    expect(delivery).toMatchObject({ state: 'DROPPED', error: 'it was seen in the dashboard' });
    expect(ada.browser.received).toEqual([]);
  });

  test('gets what its person has seen only the beginning of', async () => {
    const { api, account, session, browser } = await person();
    const { agent } = await spawn(api, '!say One.');
    const agentId = { agent, account };
    await api.post('/v1/agent/wait', { agentId });
    expectOk(await session.send('/v1/agents/marks', { marks: [{ agentId, seen: 1_000_000 }] }));
    expectOk(await api.post('/v1/agent/queue', { agentId, description: '!ask Me?' }));
    expect(await browser.titles(1)).toEqual([`${agent[0]} needs input`]);
  });

  test('withdraws what somebody else has answered, and gets nothing that was answered first', async () => {
    const { api, account, browser, session } = await person();
    const { agent } = await spawn(api, '!ask Me?');
    await browser.titles(1);
    const agentId = { agent, account };
    expectOk(await admin.post('/v1/agent/queue', { agentId, description: '!say Thanks.' }));
    expect(await browser.titles(2)).toEqual([
      `${agent[0]} needs input`,
      `${agent[0]} no longer needs anybody`,
    ]);
    const [asked, withdrawn] = browser.received;
    expect(withdrawn?.push).toMatchObject({ withdrawn: true, tag: asked?.push.tag });
    expect(withdrawn?.headers.topic).toBe(asked?.headers.topic);

    const quick = await spawn(api, '!ask Again?');
    await api.post('/v1/agent/wait', { agentId: quick });
    expectOk(await api.post('/v1/agent/queue', { agentId: quick, description: '!finish Done.' }));
    expect((await browser.titles(3)).at(-1)).toBe(`${quick.agent[0]} has finished`);
    expect((await settled(session, 3)).map(({ state }) => state).sort()).toEqual(['DROPPED', 'SENT', 'SENT']);
  });

  test('gets one digest of many, which opens the list', async () => {
    const { api, browser } = await person();
    await Promise.all(Array.from({ length: 14 }, () => spawn(api, '!ask Me?')));
    const { push } = await until(
      'a digest',
      async () => browser.received.find(({ push: { title } }) => /^\d+ agents need input$/.test(title)),
      (found) => found !== undefined,
    ).then((found) => found as PushedBrowser['received'][number]);
    expect(push).toMatchObject({ url: '/', body: expect.stringMatching(/needs input\n/) });
  });

  test('is tested with one call, and another account knows nothing of it', async () => {
    const { session, browser } = await person();
    const id = session.session.id;
    expect(expectOk(await session.send('/v1/push/test', { id }))).toMatchObject({
      type: 'test',
      state: 'SENT',
    });
    expect(await browser.titles(1)).toEqual(['Test message']);
    const other = await person();
    for (const route of ['test', 'unsubscribe'])
      expectError(await other.session.send(`/v1/push/${route}`, { id }), 'NOT_FOUND');
    expect((await listed(other.session)).subscriptions.map((one) => one.id)).toEqual([
      other.session.session.id,
    ]);
    expectOk(await session.send('/v1/push/unsubscribe', { id }));
    expect((await listed(session)).subscriptions).toEqual([]);
  });
});

describe('a subscription ends', () => {
  const targets = async ({ session }: SignedInBrowser) =>
    (await database.query('SELECT FROM notification_targets WHERE session = $1', [session.id])).rowCount;

  test('with a sign-out, and when the session is revoked', async () => {
    for (const end of [
      ({ session }: Person) => session.send('/v1/sign-out', {}),
      ({ session, api }: Person) => api.post('/v1/session/revoke', { id: session.session.id }),
    ]) {
      const one = await person();
      const other = await person({ scope: 'ALL' });
      expect(await targets(one.session)).toBe(1);
      expectOk(await end(one));
      expect(await targets(one.session)).toBe(0);
      await spawn(one.api, '!ask Me?');
      await other.browser.titles(1);
      expect(one.browser.received).toEqual([]);
    }
  });

  test('when the session or its key has expired', async () => {
    const one = await person();
    const other = await person({ scope: 'ALL' });
    await database.query("UPDATE browser_sessions SET seen_at = now() - interval '13 hours' WHERE id = $1", [
      one.session.session.id,
    ]);
    await spawn(one.api, '!ask Me?');
    await other.browser.titles(1);
    await until(
      'the end of the subscription',
      () => targets(one.session),
      (count) => count === 0,
    );
    expect(one.browser.received).toEqual([]);
  });

  test('when the push service says that it is gone', async () => {
    for (const status of [404, 410]) {
      const { api, session, browser } = await person();
      browser.answer = (response) => response.writeHead(status).end();
      await spawn(api, '!ask Me?');
      await until(
        'the end of the subscription',
        () => targets(session),
        (count) => count === 0,
      );
    }
  });
});

describe('an endpoint', () => {
  test('is https, or a host that the operator allows, with keys of a browser', async () => {
    const { session, browser } = await person();
    const { subscription } = browser;
    for (const endpoint of [
      'http://push.example/x',
      'http://127.0.0.1:1/x',
      'https://user:password@push.example/x',
      'ftp://push.example/x',
      'data:text/plain,x',
      'not a url',
    ])
      expectError(
        await session.send('/v1/push/subscribe', { ...subscription, endpoint }),
        'INVALID_ARGUMENT',
        'endpoint',
      );
    for (const keys of [{ p256dh: 'AAAA' }, { auth: 'AAAA' }])
      expectError(
        await session.send('/v1/push/subscribe', { ...subscription, ...keys }),
        'INVALID_ARGUMENT',
        'p256dh',
      );
    const quietHours = { from: '22:00', to: '07:00', zone: 'Nowhere' };
    expectError(
      await session.send('/v1/push/subscribe', { ...subscription, quietHours }),
      'INVALID_ARGUMENT',
      'quietHours.zone',
    );
  });

  test('of an inner address is never called, and redirects are not followed', async () => {
    const { session, browser } = await person();
    const { id } = session.session;
    const inner = { ...browser.subscription, endpoint: 'https://127.0.0.1:9/x' };
    expectOk(await session.send('/v1/push/subscribe', inner));
    expect(expectOk(await session.send('/v1/push/test', { id }))).toMatchObject({
      state: 'FAILED',
      error: expect.stringContaining('an address of an internal network'),
    });
    const aim = pushes.browser();
    browser.answer = (response) => response.writeHead(307, { location: aim.subscription.endpoint }).end();
    expectOk(await session.send('/v1/push/subscribe', browser.subscription));
    expect(expectOk(await session.send('/v1/push/test', { id }))).toMatchObject({ state: 'FAILED' });
    expect(aim.received).toEqual([]);
  });

  test('that answers without end is cut off, and one that asks to wait is left alone', async () => {
    const { session, browser, api } = await person();
    const { id } = session.session;
    browser.answer = (response) => {
      response.writeHead(200);
      const write = () => {
        while (!response.destroyed && response.write(Buffer.alloc(64 * 1024)));
      };
      response.on('drain', write);
      write();
    };
    expect(expectOk(await session.send('/v1/push/test', { id }))).toMatchObject({ state: 'SENT' });
    browser.answer = (response) => response.writeHead(429, { 'retry-after': '3600' }).end();
    await spawn(api, '!ask Me?');
    await browser.titles(2);
    const { rows } = await until(
      'a later attempt',
      () =>
        database.query(
          "SELECT d.next_at > now() + interval '50 minutes' AS is_later FROM notification_deliveries d WHERE target = $1 AND next_at IS NOT NULL",
          [`browser/${id}`],
        ),
      (found) => found.rows[0]?.is_later === true,
    );
    expect(rows).toHaveLength(1);
  });
});

test('only the session of a person subscribes, and an account has a bounded number of browsers', async () => {
  const { api, session, browser } = await person();
  expectError(await api.post('/v1/push/subscribe', browser.subscription), 'FAILED_PRECONDITION');
  const { agent } = await spawn(api, '!say x');
  const status = expectOk(
    await api.post<{ agentId: Record<string, unknown> }>('/v1/agent/status', { agentId: { agent } }),
  );
  const share = (await createShareLink(api, status.agentId)).api;
  expectError(await share.post('/v1/push/subscriptions', {}), 'PERMISSION_DENIED');
  const others = await Promise.all(Array.from({ length: 20 }, () => browserOf(server.url, api.key)));
  for (const one of others.slice(1))
    expectOk(await one.send('/v1/push/subscribe', pushes.browser().subscription));
  expectOk(await session.send('/v1/push/subscribe', browser.subscription));
  expectError(
    await (others[0] as SignedInBrowser).send('/v1/push/subscribe', pushes.browser().subscription),
    'RESOURCE_EXHAUSTED',
  );
});
