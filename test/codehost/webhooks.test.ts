import { createHmac, randomUUID } from 'node:crypto';
import { request as requestHttp } from 'node:http';
import { type Delivery, limits } from '@muster/sdk/contract';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { writeResource } from '../support/catalog.ts';
import { FakeGithub } from './github.ts';
import { longTestMs, until } from './patience.ts';
import { Scenario } from './scenario.ts';

let scenario: Scenario;
let webhookUrl = '';
let signingKey = '';

beforeAll(async () => {
  scenario = await Scenario.startWithoutRunner(await FakeGithub.start());
  const rotated = await writeResource(
    scenario.api,
    'integration',
    'host',
    { rotate: true },
    { updateMask: 'rotate' },
  );
  webhookUrl = String(rotated.webhookUrl);
  signingKey = String(rotated.signingKey);
  await scenario.host.deliverTo(webhookUrl, signingKey);
}, longTestMs);
afterAll(() => scenario.close());

interface Sending {
  readonly url?: string;
  readonly body?: Buffer | string;
  readonly headers?: Record<string, string | undefined>;
}

const sign = (body: Buffer | string, key = signingKey): string =>
  `sha256=${createHmac('sha256', key).update(body).digest('hex')}`;

/** Sends a delivery like GitHub; headers that are undefined are left out. */
function send({
  url = webhookUrl,
  body = '{"zen":"Speak like a human."}',
  headers = {},
}: Sending): Promise<number> {
  const all: Record<string, string | undefined> = {
    'content-type': 'application/json',
    'x-github-event': 'ping',
    'x-github-delivery': randomUUID(),
    'x-hub-signature-256': sign(body),
    ...headers,
  };
  const given = Object.fromEntries(Object.entries(all).filter((entry) => entry[1] !== undefined));
  return new Promise((resolve, reject) => {
    const sending = requestHttp(
      url,
      { method: 'POST', headers: given as Record<string, string> },
      (response) => {
        response.resume();
        response.on('end', () => resolve(response.statusCode ?? 0));
      },
    );
    sending.on('error', reject);
    sending.end(body);
  });
}

const deliveryOf = (id: string): Promise<Delivery> =>
  until(
    'a settled delivery',
    async () => (await scenario.deliveries()).find(({ deliveryId }) => deliveryId === id),
    (found) => found !== undefined && found.state !== 'RECEIVED',
  ) as Promise<Delivery>;

describe('a webhook', () => {
  it(
    'is at a path that nobody can guess, outside of /v1',
    () => {
      expect(webhookUrl).toMatch(/^http:\/\/[^/]+\/hooks\/[A-Za-z0-9_-]{32}$/);
    },
    longTestMs,
  );

  it(
    'takes a signed delivery, and records why it has no effect',
    async () => {
      const id = randomUUID();
      expect(await send({ headers: { 'x-github-delivery': id } })).toBe(202);
      const { state, reason, event } = await deliveryOf(id);
      expect({ state, event }).toEqual({ state: 'IGNORED', event: 'ping' });
      expect(reason).not.toBe('');
    },
    longTestMs,
  );

  it.each([
    ['an unknown address', { url: 'unknown' }, 404],
    ['no signature', { headers: { 'x-hub-signature-256': undefined } }, 401],
    ['an empty signature', { headers: { 'x-hub-signature-256': '' } }, 401],
    ['a signature of another body', { headers: { 'x-hub-signature-256': `sha256=${'0'.repeat(64)}` } }, 401],
    [
      'only the old kind of signature',
      { headers: { 'x-hub-signature-256': undefined, 'x-hub-signature': 'sha1=00' } },
      401,
    ],
  ])(
    'refuses a delivery with %s',
    async (_what, sending: Sending, status) => {
      const url = sending.url ? webhookUrl.replace(/[^/]+$/, 'A'.repeat(32)) : webhookUrl;
      const id = randomUUID();
      expect(await send({ ...sending, url, headers: { 'x-github-delivery': id, ...sending.headers } })).toBe(
        status,
      );
      expect((await scenario.deliveries()).map(({ deliveryId }) => deliveryId)).not.toContain(id);
    },
    longTestMs,
  );

  it(
    'refuses a key of another integration, and an earlier key',
    async () => {
      const other = await writeResource(scenario.api, 'integration', 'other', {
        type: 'github',
        url: scenario.host.url,
        token: { fromSecret: 'host-token' },
      });
      const body = '{"zen":"x"}';
      const headers = { 'x-hub-signature-256': sign(body, String(other.signingKey)) };
      expect(await send({ body, headers })).toBe(401);
      expect(await send({ body, headers, url: String(other.webhookUrl) })).toBe(202);
    },
    longTestMs,
  );

  it(
    'takes a delivery again that was refused before: refused ones do not count',
    async () => {
      const id = randomUUID();
      const forged = { 'x-github-delivery': id, 'x-hub-signature-256': sign('x', 'wrong') };
      expect(await send({ headers: forged })).toBe(401);
      expect(await send({ headers: { 'x-github-delivery': id } })).toBe(202);
      expect((await deliveryOf(id)).attempts).toBe(1);
    },
    longTestMs,
  );

  it(
    'takes a delivery twice and stores it once',
    async () => {
      const id = randomUUID();
      expect(await send({ headers: { 'x-github-delivery': id } })).toBe(202);
      expect(await send({ headers: { 'x-github-delivery': id } })).toBe(202);
      await deliveryOf(id);
      expect((await scenario.deliveries()).filter(({ deliveryId }) => deliveryId === id)).toHaveLength(1);
    },
    longTestMs,
  );

  it(
    'takes 25 MiB, and refuses more',
    async () => {
      const id = randomUUID();
      const most = 25 * 1024 * 1024;
      const padding = Buffer.alloc(most - 12, 'x');
      const body = Buffer.concat([Buffer.from('{"zen":"'), padding, Buffer.from('"}  ')]);
      expect(body.length).toBe(most);
      expect(await send({ body, headers: { 'x-github-delivery': id } })).toBe(202);
      expect((await deliveryOf(id)).bytes).toBe(most);
      const more = Buffer.concat([body, Buffer.from(' ')]);
      expect(await send({ body: more, headers: { connection: 'close' } }).catch(() => 400)).toBe(400);
    },
    longTestMs,
  );

  it(
    'answers 503 when too much arrives at once',
    async () => {
      // Declared, and never sent: what is declared is reserved.
      const sendings = Array.from({ length: 4 }, () => {
        const sending = requestHttp(webhookUrl, {
          method: 'POST',
          headers: {
            'x-github-event': 'ping',
            'x-github-delivery': randomUUID(),
            'x-hub-signature-256': sign(''),
            'content-length': String(20 * 1024 * 1024),
          },
        });
        sending.on('error', () => {});
        sending.write('{');
        return sending;
      });
      try {
        await until(
          'a refusal',
          () => send({ body: Buffer.alloc(15 * 1024 * 1024, ' ') }),
          (status) => status === 503,
        );
      } finally {
        for (const sending of sendings) sending.destroy();
      }
      await until(
        'room again',
        () => send({}),
        (status) => status === 202,
      );
    },
    longTestMs,
  );

  it.each([
    ['not JSON', 'not json'],
    ['a list', '[]'],
    ['deeply nested JSON', '['.repeat(100_000)],
    ['an event without what it should have', '{"action":"opened"}'],
  ])(
    'records a body that is %s without a retry',
    async (_what, body) => {
      const id = randomUUID();
      const headers = { 'x-github-delivery': id, 'x-github-event': 'pull_request' };
      expect(await send({ body, headers })).toBe(202);
      const { state, reason } = await deliveryOf(id);
      expect(state).toMatch(/FAILED|IGNORED/);
      expect(reason).not.toBe('');
    },
    longTestMs,
  );

  it(
    'reads a form with JSON in it, as a host may be set to send',
    async () => {
      const id = randomUUID();
      const body = `payload=${encodeURIComponent('{"zen":"x"}')}`;
      const headers = { 'x-github-delivery': id, 'content-type': 'application/x-www-form-urlencoded' };
      expect(await send({ body, headers })).toBe(202);
      expect((await deliveryOf(id)).state).toBe('IGNORED');
    },
    longTestMs,
  );

  it(
    'shows no secret and no body in the list of deliveries, and only to admins',
    async () => {
      const { api } = scenario;
      const { key } = await writeResource(api, 'token', 'a-member', { role: 'member', account: 'member' });
      const refused = await api.as(String(key)).post('/v1/integration/deliveries', { name: 'host' });
      expect(refused.status).toBe(403);
      expect(JSON.stringify(await scenario.deliveries())).not.toContain(signingKey);
    },
    longTestMs,
  );

  it(
    'is processed again on demand',
    async () => {
      const id = randomUUID();
      await send({ headers: { 'x-github-delivery': id } });
      await deliveryOf(id);
      const again = await scenario.api.post<Delivery>('/v1/integration/redeliver', {
        name: 'host',
        deliveryId: id,
      });
      expect(again.body.state).toBe('RECEIVED');
      expect((await deliveryOf(id)).state).toBe('IGNORED');
      const unknown = await scenario.api.post('/v1/integration/redeliver', {
        name: 'host',
        deliveryId: 'none',
      });
      expect(unknown.status).toBe(404);
    },
    longTestMs,
  );

  it(
    'takes no more while 50,000 deliveries of the tenant wait, and again after that',
    async () => {
      const client = new pg.Client(scenario.server.databaseUrl);
      await client.connect();
      const waiting = `FROM deliveries WHERE event = 'waits'`;
      try {
        await client.query(
          `INSERT INTO deliveries (tenant, integration, id, event, state, reason, bytes, attempts, received_at, next_at)
           SELECT tenant, 'host', n::text, 'waits', 'RECEIVED', '', 0, 1, now(), now() + interval '1 hour'
           FROM (SELECT DISTINCT tenant FROM deliveries) t, generate_series(1, $1) n`,
          [limits.deliveriesWaitingPerTenant],
        );
        const busy = (status: number) => status === 503;
        await until('a refusal', () => send({}), busy);
        const { rows } = await client.query(`SELECT count(*)::int ${waiting}`);
        expect(rows).toEqual([{ count: limits.deliveriesWaitingPerTenant }]);
        await client.query(`DELETE ${waiting}`);
        await until(
          'a free place',
          () => send({}),
          (status) => status === 202,
        );
      } finally {
        await client.query(`DELETE ${waiting}`);
        await client.end();
      }
    },
    longTestMs,
  );

  it(
    'is gone with its integration',
    async () => {
      const made = await writeResource(scenario.api, 'integration', 'short-lived', { type: 'github' });
      expect((await scenario.api.del('/v1/catalog/integration/short-lived')).status).toBe(200);
      await until(
        '404',
        () => send({ url: String(made.webhookUrl) }),
        (status) => status === 404,
      );
    },
    longTestMs,
  );
});

describe('the test of an integration', () => {
  it(
    'says what is there and what is missing',
    async () => {
      const { body } = await scenario.api.post<{ account: string; checks: { name: string; ok: boolean }[] }>(
        '/v1/integration/test',
        { name: 'host' },
      );
      expect(body.account).not.toBe('');
      expect(body.checks.map(({ name }) => name)).toEqual(expect.arrayContaining(['credential', 'webhook']));
      expect(body.checks.filter(({ ok }) => !ok)).toEqual([]);
    },
    longTestMs,
  );

  it(
    'names a missing secret, and says what to do about a token that the host does not accept',
    async () => {
      await writeResource(scenario.api, 'integration', 'broken', {
        type: 'github',
        url: scenario.host.url,
        token: { fromSecret: 'nowhere' },
      });
      const { body } = await scenario.api.post<{ checks: { name: string; ok: boolean; advice: string }[] }>(
        '/v1/integration/test',
        { name: 'broken' },
      );
      expect(body.checks[0]).toMatchObject({ name: 'credential', ok: false });
      expect(body.checks[0]?.advice).toContain('nowhere');
      await writeResource(scenario.api, 'secret', 'nowhere', { value: 'a-token-that-was-revoked' });
      const tested = await scenario.api.post<typeof body>('/v1/integration/test', { name: 'broken' });
      expect(tested.body.checks[0]).toMatchObject({ name: 'credential', ok: false });
      expect(tested.body.checks[0]?.advice).toMatch(/^GET \/\S+: 401 \b.* create a new one/);
    },
    longTestMs,
  );

  it(
    'calls no host in an internal network that the operator has not listed',
    async () => {
      await writeResource(scenario.api, 'integration', 'inner', {
        type: 'github',
        url: 'http://127.0.0.1:9',
        token: { fromSecret: 'host-token' },
      });
      const { body } = await scenario.api.post<{ checks: { ok: boolean; advice: string }[] }>(
        '/v1/integration/test',
        {
          name: 'inner',
        },
      );
      expect(body.checks[0]?.ok).toBe(false);
      expect(body.checks[0]?.advice).toMatch(/internal network/);
    },
    longTestMs,
  );
});
