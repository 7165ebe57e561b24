import { randomUUID } from 'node:crypto';
import { request as requestHttp } from 'node:http';
import { type Delivery, limits } from '@muster/sdk/contract';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { writeResource } from '../support/catalog.ts';
import { FakeGithub } from './github.ts';
import { longTestMs, until } from './patience.ts';
import { Scenario } from './scenario.ts';
import { answerToDelivery, connectWebhook, signatureOf } from './sent-delivery.ts';

let scenario: Scenario;
let webhookUrl = '';
let signingKey = '';

beforeAll(async () => {
  scenario = await Scenario.startWithoutRunner(await FakeGithub.start());
  ({ webhookUrl, signingKey } = await connectWebhook(scenario));
}, longTestMs);
afterAll(() => scenario.close());

interface Sending {
  readonly url?: string;
  readonly body?: Buffer | string;
  readonly headers?: Record<string, string | undefined>;
}

const sign = (body: Buffer | string, key = signingKey): string => signatureOf(body, key);

const send = async (sending: Sending): Promise<number> => (await answerTo(sending)).statusCode ?? 0;

const answerTo = ({ url = webhookUrl, body = '{"zen":"Speak like a human."}', headers = {} }: Sending) =>
  answerToDelivery(url, body, { 'x-hub-signature-256': sign(body), ...headers });

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
    'answers 503 when more than 64 MiB arrive at once, and says when to send again',
    async () => {
      // Declared, and never sent: what is declared is reserved.
      const sendings = Array.from({ length: 3 }, () => {
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
        const refused = await until(
          'a refusal',
          () => answerTo({ body: Buffer.alloc(15 * 1024 * 1024, ' ') }),
          ({ statusCode }) => statusCode === 503,
        );
        expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);
        expect(await send({ body: Buffer.alloc(3 * 1024 * 1024, ' ') })).toBe(202);
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
      const url = String(made.webhookUrl);
      expect(await send({ url })).toBe(401);
      expect((await scenario.api.del('/v1/catalog/integration/short-lived')).status).toBe(200);
      expect(await send({ url })).toBe(404);
    },
    longTestMs,
  );

  it(
    'takes no earlier key once the new one was told',
    async () => {
      const { api } = scenario;
      const write = (document: Record<string, unknown>) =>
        writeResource(api, 'integration', 'rotated', { type: 'github', ...document });
      const body = '{"zen":"x"}';
      const made = await write({});
      const url = String(made.webhookUrl);
      const statusWith = (key: unknown) =>
        send({ url, body, headers: { 'x-hub-signature-256': sign(body, String(key)) } });
      expect(await statusWith(made.signingKey)).toBe(202);
      const { signingKey: second } = await write({ rotate: true });
      expect([await statusWith(made.signingKey), await statusWith(second)]).toEqual([401, 202]);
      await writeResource(api, 'secret', 'hook', { value: 'the first key' });
      await write({ webhookSecret: { fromSecret: 'hook' } });
      expect([await statusWith(second), await statusWith('the first key')]).toEqual([401, 202]);
      await writeResource(api, 'secret', 'hook', { value: 'the second key' });
      expect([await statusWith('the first key'), await statusWith('the second key')]).toEqual([401, 202]);
    },
    longTestMs,
  );

  it(
    'ignores what is unwanted, and everything while it is paused, also without a credential',
    async () => {
      const { api } = scenario;
      const document = { type: 'github', repos: ['team/*'] };
      const { webhookUrl: url, signingKey: key } = await writeResource(api, 'integration', 'bare', document);
      const outcomeOf = async (event: string, body: string) => {
        const id = randomUUID();
        const headers = {
          'x-github-delivery': id,
          'x-github-event': event,
          'x-hub-signature-256': sign(body, String(key)),
        };
        expect(await send({ url: String(url), body, headers })).toBe(202);
        const found = await until(
          'an attempt',
          async () => {
            const listed = await api.post<{ entries: Delivery[] }>('/v1/integration/deliveries', {
              name: 'bare',
            });
            return listed.body.entries.find(({ deliveryId }) => deliveryId === id);
          },
          (delivery) => delivery !== undefined && (delivery.state !== 'RECEIVED' || delivery.reason !== ''),
        );
        return [found?.state, found?.reason];
      };
      const opened = JSON.stringify({
        action: 'resolved',
        number: 7,
        pull_request: { number: 7 },
        repository: { full_name: 'team/project' },
        sender: { id: 1, login: 'someone' },
      });
      expect((await outcomeOf('ping', '{"zen":"x"}'))[0]).toBe('IGNORED');
      expect(await outcomeOf('pull_request_review_thread', opened.replace('team/', 'other/'))).toEqual([
        'IGNORED',
        'the integration does not cover other/project',
      ]);
      // What is wanted waits for the credential.
      expect((await outcomeOf('pull_request_review_thread', opened))[0]).toBe('RECEIVED');
      await writeResource(api, 'integration', 'bare', { ...document, paused: true });
      expect(await outcomeOf('pull_request_review_thread', opened)).toEqual([
        'IGNORED',
        'the integration is paused',
      ]);
    },
    longTestMs,
  );
});

describe('a captured delivery', () => {
  it(
    'has no second effect under another id, also after its agent was killed; another label has one',
    async () => {
      const { host } = scenario;
      const number = await host.addIssue('maintainer', 'Captured', 'It says helo.');
      const subject = { type: 'issue', number } as const;
      await host.label(subject, 'muster', 'maintainer');
      const isAbout = ({ agentId }: { agentId: { agent: string[] } }) =>
        agentId.agent[0]?.includes(`-${number}-`) === true;
      const agents = async () => (await scenario.agents()).filter(isAbout);
      const [agent] = await until('an agent', agents, (found) => found.length === 1);
      const captured = host.deliveries.sent.findLast(({ headers }) => headers['x-github-event'] === 'issues');
      const body = captured?.body ?? '';
      const replay = async (text = body) => {
        const id = randomUUID();
        const headers = { 'x-github-event': 'issues', 'x-github-delivery': id };
        expect(await send({ body: text, headers })).toBe(202);
        await deliveryOf(id);
      };
      /** As when the label was removed, and added again later. */
      const labeledAt = (updated_at: string): string => {
        const labeled = JSON.parse(body) as { issue: object };
        return JSON.stringify({ ...labeled, issue: { ...labeled.issue, updated_at } });
      };
      const queued = async () => {
        const { body: timeline } = await scenario.api.post<{ entries: { text: string }[] }>(
          '/v1/agent/timeline',
          { agentId: agent?.agentId, types: ['FOLLOW_UP_QUEUED'] },
        );
        return timeline.entries.filter(({ text }) => text.includes('again'));
      };
      await replay();
      expect(await queued()).toEqual([]);
      const second = labeledAt('2100-01-01T00:00:00Z');
      await replay(second);
      expect(await queued()).toHaveLength(1);
      const phase = async () =>
        (await scenario.api.post<{ phase: string }>('/v1/agent/status', { agentId: agent?.agentId })).body
          .phase;
      expect((await scenario.api.post('/v1/agent/kill', { agentId: agent?.agentId })).status).toBe(200);
      await replay();
      await replay(second);
      expect(await phase()).toBe('PHASE_CANCELED');
      await replay(labeledAt('2100-01-02T00:00:00Z'));
      expect(await phase()).not.toBe('PHASE_CANCELED');
    },
    longTestMs,
  );
});

describe('a comparison with the host', () => {
  it(
    'of everything is for admins, and of one for the owner of its agent',
    async () => {
      const { api } = scenario;
      const { key } = await writeResource(api, 'token', 'another-member', {
        role: 'member',
        account: 'another',
      });
      const member = api.as(String(key));
      const sync = '/v1/change-requests/sync';
      expect((await member.post(sync, {})).status).toBe(403);
      expect((await member.post(sync, { name: 'nothing' })).status).toBe(404);
      expect((await api.post(sync, {})).status).toBe(200);
    },
    longTestMs,
  );
});
