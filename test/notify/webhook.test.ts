import pg from 'pg';
import { Webhook } from 'standardwebhooks';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { until } from '../support/async.ts';
import {
  apiWithNewKey,
  newMember,
  postResource,
  readDocument,
  uniqueName,
  writeResource,
} from '../support/catalog.ts';
import { expectError } from '../support/expect-reply.ts';
import {
  deliveriesOf,
  spawn,
  startNotifying,
  untilDeliveries,
  writeNotification,
} from './notify-scenario.ts';

let started: Awaited<ReturnType<typeof startNotifying>>;
beforeAll(async () => {
  started = await startNotifying();
});
afterAll(() => started.close());

/** A notification with its own path at the receiver, for agents of its own workspace. */
async function notifying(fields: Record<string, unknown> = {}) {
  const { api, receiver } = started;
  const name = uniqueName('hook');
  const events = ['agent.needs_input'];
  const written = await writeNotification(api, name, {
    ...{ url: `${receiver.url}/${name}`, workspace: name, events },
    ...fields,
  });
  return {
    name,
    secret: String(written.signingSecret),
    spawn: (text: string) => spawn(api, text, name),
    posts: (count: number) =>
      until(
        `posts to ${name}`,
        async () => receiver.to(`/${name}`),
        (posts) => posts.length >= count,
      ),
  };
}

describe('a message', () => {
  test('is signed as the library of Standard Webhooks verifies it, and says what the agent asks', async () => {
    const { api } = started;
    const { name, secret, posts, ...hook } = await notifying();
    await hook.spawn('!ask Which database?');
    const [post] = await posts(1);
    const headers = post?.headers as Record<string, string>;
    expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
    expect(new Webhook(secret).verify(post?.body ?? '', headers)).toMatchObject({
      type: 'agent.needs_input',
      data: {
        agentId: { workspace: name },
        phase: 'PHASE_WAITING_FOR_INPUT',
        phaseReason: 'QUESTION',
        needsInput: 'Which database?',
        notification: name,
        dashboardUrl: expect.stringContaining(`/${name}/`),
      },
    });
    expect(() => new Webhook(secret).verify(`${post?.body} `, headers)).toThrow();
    const [delivery] = await untilDeliveries(api, name, (all) => all[0]?.state === 'SENT');
    expect(delivery).toMatchObject({ deliveryId: headers['webhook-id'], attempts: 1, error: '' });
  });

  test('is signed with the new secret after a rotation', async () => {
    const { api } = started;
    const { name, secret, posts, ...hook } = await notifying();
    const { document } = await readDocument(api, 'notification', name);
    expect(document).not.toHaveProperty('signingSecret');
    const rotated = await writeResource(api, 'notification', name, { ...document, rotate: true });
    await hook.spawn('!ask Which one?');
    const [post] = await posts(1);
    const verify = (key: string) =>
      new Webhook(key).verify(post?.body ?? '', post?.headers as Record<string, string>);
    expect(verify(String(rotated.signingSecret))).toMatchObject({ type: 'agent.needs_input' });
    expect(() => verify(secret)).toThrow();
  });

  test('has less than 20,000 bytes, whatever the agent asks', async () => {
    const { posts, ...hook } = await notifying();
    await hook.spawn(`!ask ${'\u0001"\u{1f600}'.repeat(20_000)}`);
    const [post] = await posts(1);
    expect(Buffer.byteLength(post?.body ?? '')).toBeLessThan(20_000);
    expect(JSON.parse(post?.body ?? '').data.needsInput).toContain('\u{1f600}');
  });

  test('has no value of a secret', async () => {
    const { api } = started;
    const canary = 'canary-value-of-a-secret';
    await writeResource(api, 'secret', uniqueName('canary'), { value: canary });
    const { posts, ...hook } = await notifying();
    await hook.spawn(`!ask Is ${canary} right?`);
    const [post] = await posts(1);
    expect(post?.body).toContain('***');
    expect(JSON.stringify(post)).not.toContain(canary);
  });
});

describe('a target', () => {
  test('that answers 500 gets the same message again', async () => {
    const { api, receiver } = started;
    const { name, posts, ...hook } = await notifying();
    receiver.answers.set(`/${name}`, [{ status: 500, body: 'the disk is full' }]);
    await hook.spawn('!ask Again?');
    await untilDeliveries(
      api,
      name,
      ([one]) => one?.error === `127.0.0.1:${new URL(receiver.url).port} answered 500: the disk is full`,
    );
    const [first, second] = await posts(2);
    expect(second?.headers['webhook-id']).toBe(first?.headers['webhook-id']);
    expect(JSON.parse(second?.body ?? '')).toEqual(JSON.parse(first?.body ?? ''));
    await untilDeliveries(api, name, ([one]) => one?.state === 'SENT' && one.attempts === 2);
  });

  test('that answers 410 pauses the notification, which says why', async () => {
    const { api, receiver } = started;
    const { name, ...hook } = await notifying();
    receiver.answers.set(`/${name}`, [{ status: 410 }]);
    await hook.spawn('!ask Gone?');
    const isPaused = async () => (await readDocument(api, 'notification', name)).document;
    const document = await until('the pause', isPaused, ({ paused }) => paused === true);
    expect(document.pausedReason).toMatch(/answered 410$/);
    expect(document.updatedBy).toBe('service_profile/muster');
    await untilDeliveries(api, name, ([one]) => one?.state === 'FAILED');
    expectError(
      await api.post('/v1/notification/redeliver', {
        name,
        deliveryId: (await deliveriesOf(api, name))[0]?.deliveryId,
      }),
      'FAILED_PRECONDITION',
    );
    const resumed = await writeResource(
      api,
      'notification',
      name,
      { paused: false },
      { updateMask: 'paused' },
    );
    expect(resumed).not.toHaveProperty('pausedReason');
  });

  test('that redirects gets nothing at the other address', async () => {
    const { api, receiver } = started;
    const { name, ...hook } = await notifying();
    receiver.answers.set(`/${name}`, [
      { status: 307, headers: { location: `${receiver.url}/elsewhere-${name}` } },
    ]);
    await hook.spawn('!ask Where?');
    await untilDeliveries(
      api,
      name,
      ([one]) => one?.state === 'FAILED' && one.error.includes('redirects are not followed'),
    );
    expect(receiver.to(`/elsewhere-${name}`)).toEqual([]);
  });

  test.each([
    'http://127.0.0.1:9/',
    'http://localhost:9/hook',
    'http://[::1]:9/',
    'http://169.254.169.254/latest/meta-data',
  ])('with the inner address %s is not called', async (url) => {
    const { api } = started;
    const { name, ...hook } = await notifying({ url });
    await hook.spawn('!ask Inside?');
    const [delivery] = await untilDeliveries(api, name, ([one]) => one?.state === 'FAILED');
    expect(delivery?.error).toContain('an address of an internal network');
  });

  test('is read from a secret, and no error shows it', async () => {
    const { api, receiver } = started;
    const secret = uniqueName('url');
    await writeResource(api, 'secret', secret, {
      value: `${receiver.url}/of-${secret}?token=canary-in-a-url`,
    });
    const { name, ...hook } = await notifying({ url: { fromSecret: secret } });
    receiver.answers.set(`/of-${secret}?token=canary-in-a-url`, [
      { status: 500, body: 'canary-in-a-url is wrong' },
    ]);
    await hook.spawn('!ask From a secret?');
    const all = await untilDeliveries(api, name, ([one]) => one?.state === 'SENT');
    expect(receiver.to(`/of-${secret}?token=canary-in-a-url`)).toHaveLength(2);
    expect(JSON.stringify(all)).not.toContain('canary-in-a-url');
  });
});

test('a redelivery sends the same message again, and a test says whether it arrives', async () => {
  const { api, receiver } = started;
  const { name, posts, ...hook } = await notifying();
  const { agent } = await hook.spawn('!ask Once more?');
  const [first] = await posts(1);
  const [sent] = await untilDeliveries(api, name, (all) => all[0]?.state === 'SENT');
  await api.post('/v1/agent/kill', { agentId: { agent, workspace: name } });
  expect((await api.post('/v1/notification/redeliver', { name, deliveryId: sent?.deliveryId })).status).toBe(
    200,
  );
  const [, again] = await posts(2);
  expect(again?.headers['webhook-id']).toBe(first?.headers['webhook-id']);
  expectError(await api.post('/v1/notification/redeliver', { name, deliveryId: 'none' }), 'NOT_FOUND');

  const test = () => api.post('/v1/notification/test', { name });
  expect((await test()).body).toMatchObject({ type: 'test', state: 'SENT', agentId: null });
  receiver.answers.set(`/${name}`, [{ status: 403, body: 'no' }]);
  expect((await test()).body).toMatchObject({
    state: 'FAILED',
    error: expect.stringContaining('answered 403: no'),
  });
  for (let i = 2; i < 10; i += 1) await test();
  expectError(await test(), 'RESOURCE_EXHAUSTED');
});

describe('a member', () => {
  test('writes and uses notifications about its own account only', async () => {
    const { api, receiver } = started;
    const { api: member, account } = await newMember(api);
    const url = `${receiver.url}/member`;
    const own = uniqueName('own');
    const written = await writeNotification(member, own, { url });
    expect(written.account).toBe(`codehost_oauth/${account}`);
    expect((await postResource(member, 'notification', own, { url, account })).status).toBe(200);
    expectError(
      await postResource(member, 'notification', own, { url, account: 'admin' }),
      'PERMISSION_DENIED',
    );
    expectError(
      await postResource(member, 'notification', own, { url: { fromSecret: 'x' } }),
      'PERMISSION_DENIED',
    );
    expect((await member.post('/v1/notification/test', { name: own })).body).toMatchObject({ state: 'SENT' });
    const others = uniqueName('others');
    await writeNotification(api, others, { url });
    expectError(await member.post('/v1/notification/deliveries', { name: others }), 'PERMISSION_DENIED');
    expectError(await postResource(member, 'notification', others, { url }), 'PERMISSION_DENIED');
    const viewer = await apiWithNewKey(api, { role: 'viewer', account });
    expectError(await viewer.post('/v1/notification/deliveries', { name: own }), 'PERMISSION_DENIED');
  });

  test('may pause what an admin wrote for it with a secret', async () => {
    const { api } = started;
    const { api: member, account } = await newMember(api);
    const name = uniqueName('given');
    await writeResource(api, 'secret', `${name}-url`, { value: 'https://example.com' });
    await writeNotification(api, name, { account, url: { fromSecret: `${name}-url` } });
    const more = { updateMask: 'paused' };
    expect((await postResource(member, 'notification', name, { paused: true }, more)).status).toBe(200);
  });
});

test.each([
  ['url', { url: 'ftp://example.com' }, 'payload.url'],
  ['url of Slack', { type: 'slack', url: 'http://hooks.slack.com/x' }, 'payload.url'],
  ['url with a password', { url: 'https://a:secret-password@example.com' }, 'payload.url'],
  ['to', { to: ['ada@example.com\r\nBcc: eve@example.com'] }, 'payload.to[0]'],
  ['events', { events: ['agent.sleeps'] }, 'payload.events[0]'],
  ['zone', { quietHours: { from: '22:00', to: '07:00', zone: 'Mars' } }, 'payload.quietHours.zone'],
  ['to of quiet hours', { quietHours: { from: '22:00' } }, 'payload.quietHours.to'],
  ['equal times', { quietHours: { from: '22:00', to: '22:00' } }, 'payload.quietHours.to'],
])('a wrong %s is refused by its field', async (_, document, field) => {
  const { body } = await postResource(started.api, 'notification', uniqueName('wrong'), document);
  expect(JSON.stringify(body)).toContain(`"field":"${field}"`);
  expect(JSON.stringify(body)).not.toContain('secret-password');
});

test('without a notification, nothing is written', async () => {
  const { server, api } = started;
  const database = new pg.Client({ connectionString: server.databaseUrl });
  await database.connect();
  try {
    await database.query('DELETE FROM notification_targets');
    const { agent } = await spawn(api, '!ask Nobody?');
    const status = async () =>
      (await api.post<{ phaseReason: string }>('/v1/agent/status', { agentId: { agent } })).body;
    await until('the question', status, ({ phaseReason }) => phaseReason === 'QUESTION');
    const { rows } = await database.query(
      'SELECT id FROM events UNION ALL SELECT id FROM notification_deliveries',
    );
    expect(rows).toEqual([]);
  } finally {
    await database.end();
  }
});
