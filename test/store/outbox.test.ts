import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type pg from 'pg';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { hostRuleOf } from '../../packages/service/src/lib/host-rules.ts';
import type { Log } from '../../packages/service/src/lib/log.ts';
import { Metrics } from '../../packages/service/src/lib/metrics.ts';
import { openDatabase } from '../../packages/service/src/store/connection.ts';
import { dueItems, insertItems } from '../../packages/service/src/store/statements/outbox.ts';
import { HttpClient } from '../../packages/service/src/work/http-client.ts';
import { Outbox, type Topic } from '../../packages/service/src/work/outbox.ts';
import { TenantMasks } from '../../packages/service/src/work/tenant-masks.ts';
import { loopOf, WorkLoops } from '../../packages/service/src/work/work-loops.ts';
import { until } from '../support/async.ts';
import { freshDatabase } from '../support/database.ts';

/** A topic as a notification channel is one: what is sent is a POST. */
const secret = 'a-secret-of-the-tenant';
let database: Awaited<ReturnType<typeof freshDatabase>>;
let pool: pg.Pool;
let server: Server;
let received: string[] = [];
let status = 200;
let givenUp: string[] = [];

beforeAll(async () => {
  database = await freshDatabase();
  pool = openDatabase({ connectionString: database.url }, () => {});
  await pool.query("INSERT INTO tenants (id, provider, org) VALUES (1, 'PROVIDER_CODEHOST_APP', 'a')");
  server = createServer(async (request, response) => {
    const { text } = JSON.parse(Buffer.concat(await request.toArray()).toString());
    received.push(text);
    response.writeHead(status, status === 429 ? { 'retry-after': '3600' } : {}).end('ok');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});
afterEach(async () => {
  await pool.query('TRUNCATE outbox');
  [received, status, givenUp] = [[], 200, []];
});
afterAll(async () => {
  server.close();
  await pool.end();
  await database.drop();
});

const write = (topic: string, key: string, text = key) =>
  insertItems(
    pool,
    [{ tenant: 1, topic, target: 'ops', lane: 'one', kind: 'note', agent: null, data: { text }, key }],
    new Date().toISOString(),
  );

/** By their keys, such as `SENT` or `SENDING: 503`. */
async function states(): Promise<Record<string, string>> {
  const { rows } = await pool.query<{ key: string; state: string; error: string }>(
    'SELECT key, state, error FROM outbox',
  );
  return Object.fromEntries(rows.map(({ key, state, error }) => [key, error ? `${state}: ${error}` : state]));
}

/** Sends what is due until the items are as expected. */
async function untilStates(expected: Record<string, unknown>): Promise<void> {
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const client = new HttpClient({
    baseUrl: url,
    authorize: async () => ({}),
    innerHosts: [hostRuleOf(new URL(url).host) ?? expect.unreachable()],
    parse: () => ({ value: null, values: 0, characters: 0 }),
  });
  const channel: Topic = {
    send: ({ data }, masked) => {
      const body = { text: masked(String(data.text)) };
      return client.call({ method: 'POST', path: '/hook', body }, () => '');
    },
    givenUp: async ({ key }) => givenUp.push(key),
  };
  const outbox = new Outbox({
    ...{ database: pool, topics: { webhook: channel, pager: channel } },
    masks: new TenantMasks({ values: async () => [secret], earlierValues: async () => [] }),
    metrics: new Metrics(),
  });
  const log = { warn() {}, error() {} } as unknown as Log;
  const work = new WorkLoops({ database: pool, log }, [loopOf('outbox', dueItems, outbox)]);
  const matches = (found: Record<string, string>) => expect.objectContaining(expected).asymmetricMatch(found);
  const look = async () => {
    work.nudge();
    return states();
  };
  await until('the states of the items', look, matches);
  await work.close();
  client.close();
}

test('an item is posted once, without the values of secrets', async () => {
  await write('webhook', 'a', `The token is ${secret}.`);
  await untilStates({ a: 'SENT' });
  await untilStates({ a: 'SENT' });
  expect(received).toEqual([expect.stringMatching(/^The token is (?!a-secret).*\.$/)]);
});

test('an item waits while its host fails or asks to wait, and is given up when it is refused', async () => {
  status = 503;
  await write('webhook', 'a');
  await untilStates({ a: expect.stringMatching(/^SENDING: .*503/) });
  status = 429;
  await pool.query("UPDATE outbox SET next_at = now(), state = 'QUEUED'");
  await untilStates({ a: expect.stringMatching(/^QUEUED: .*429/) });
  expect(givenUp).toEqual([]);
  status = 400;
  await pool.query('UPDATE outbox SET next_at = now()');
  await untilStates({ a: expect.stringMatching(/^FAILED: .*400/) });
  expect(givenUp).toEqual(['a']);
});

test('an item waits for the one before it in its lane, and not for those of another topic', async () => {
  status = 503;
  await write('webhook', 'a');
  await untilStates({ a: expect.stringMatching(/^SENDING/) });
  status = 200;
  await write('webhook', 'b');
  await write('pager', 'c');
  await untilStates({ a: expect.stringMatching(/^SENDING/), b: 'QUEUED', c: 'SENT' });
});

test('an item of a topic that this build does not know waits for one that does', async () => {
  await write('carrier-pigeon', 'a');
  await untilStates({ a: expect.stringMatching(/^SENDING: .*topic carrier-pigeon/) });
  expect(givenUp).toEqual([]);
});
