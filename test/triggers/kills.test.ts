import type { TriggerDelivery } from '@muster/sdk/contract';
import pg from 'pg';
import { expect, it } from 'vitest';
import { type Api, apiOf } from '../support/api.ts';
import { until } from '../support/async.ts';
import { execute } from '../support/database.ts';
import { type Server, startServer } from '../support/server.ts';
import { TestTrigger } from './requests.ts';

const longTestMs = 300_000;

/** What happens at a step of processing, and of the deliveries of which trigger. */
interface Step {
  readonly trigger: string;
  readonly at: string;
  readonly when: string;
}

const settles = 'NEW.state <> OLD.state';

/** Each round holds as many deliveries as the service processes at the same time. */
const rounds: readonly (readonly Step[])[] = [
  [
    { trigger: 'admit', at: 'BEFORE UPDATE ON deliveries', when: 'NEW.is_admitted AND NOT OLD.is_admitted' },
    { trigger: 'record', at: 'BEFORE INSERT ON triggered_agents', when: 'true' },
    { trigger: 'settle', at: 'BEFORE UPDATE ON deliveries', when: settles },
    { trigger: 'settle-message', at: 'BEFORE UPDATE ON deliveries', when: settles },
  ],
  [{ trigger: 'spawn', at: 'BEFORE INSERT ON agents', when: "NEW.path = 'spawn'" }],
  [{ trigger: 'message', at: 'BEFORE INSERT ON follow_ups', when: "NEW.id LIKE 'trigger-%'" }],
];

const lock = 38_38;

/** Statements of these steps wait until the lock is free. */
async function hold(databaseUrl: string, steps: readonly Step[]): Promise<{ release(): Promise<void> }> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  await client.query(`SELECT pg_advisory_lock(${lock})`);
  await client.query(`CREATE OR REPLACE FUNCTION held() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN PERFORM pg_advisory_xact_lock(${lock}); RETURN NEW; END'`);
  const names = steps.map(({ trigger }) => `held_${trigger.replace('-', '_')}`);
  for (const [i, { trigger, at, when }] of steps.entries()) {
    const own =
      at.endsWith('agents') && !at.endsWith('triggered_agents')
        ? 'true'
        : `NEW.integration = 'trigger/${trigger}'`;
    const condition = at.endsWith('follow_ups') ? when : `${own} AND ${when}`;
    await client.query(
      `CREATE TRIGGER ${names[i]} ${at} FOR EACH ROW WHEN (${condition}) EXECUTE FUNCTION held()`,
    );
  }
  const waiting = async () => {
    const { rows } = await client.query<{ count: number }>(
      `SELECT count(*)::int AS count FROM pg_locks WHERE locktype = 'advisory' AND objid = ${lock} AND NOT granted`,
    );
    return rows[0]?.count ?? 0;
  };
  await until('room', waiting, (count) => count === 0);
  return {
    release: async () => {
      for (const [i, { at }] of steps.entries())
        await client.query(`DROP TRIGGER ${names[i]} ON ${at.split(' ').at(-1)}`);
      await client.end();
    },
  };
}

const countHeld = async (databaseUrl: string): Promise<number> => {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  const { rows } = await client.query<{ count: number }>(
    `SELECT count(*)::int AS count FROM pg_locks WHERE locktype = 'advisory' AND objid = ${lock} AND NOT granted`,
  );
  await client.end();
  return rows[0]?.count ?? 0;
};

/** What the killed service had begun is not to be committed: its connections end with it. */
const endConnections = (databaseUrl: string): Promise<unknown> =>
  execute(
    databaseUrl,
    `SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a JOIN pg_locks l ON l.pid = a.pid
     WHERE l.locktype = 'advisory' AND l.objid = ${lock} AND NOT l.granted`,
  );

/** Kills the service and starts it again with the same database and address. */
async function restart(server: Server): Promise<Server> {
  const { MUSTER_DATA, MUSTER_BOOTSTRAP_KEY, MUSTER_RUNNER } = server.env;
  await server.end('SIGKILL');
  await endConnections(server.databaseUrl);
  const env = { MUSTER_DATA, MUSTER_BOOTSTRAP_KEY, MUSTER_RUNNER, MUSTER_PORT: new URL(server.url).port };
  return startServer({ databaseUrl: server.databaseUrl, env });
}

const agentsOf = async (api: Api, text: string): Promise<number> => {
  const { body } = await api.post<{ entries: unknown[] }>('/v1/agents', { text, includeTerminal: true });
  return body.entries.length;
};

it(
  'a kill at any step of processing loses nothing and repeats nothing',
  async () => {
    const servers = [await startServer({ runner: false })];
    const first = servers[0] as Server;
    try {
      const api = apiOf(first);
      await api.post('/v1/agent/spawn', { agentId: { agent: ['listener'] }, description: 'work' });
      const about = { dedupe: 'body.id' };
      const spawning = (name: string) => ({ ...about, spawn: { name, description: `${name} {{body.n}}` } });
      const toAgent = { ...about, agentId: { agent: ['listener'] }, message: 'm {{body.n}}' };
      const triggers = new Map<string, TestTrigger>();
      for (const { trigger } of rounds.flat()) {
        const document = trigger.includes('message') ? toAgent : spawning(trigger);
        triggers.set(trigger, await TestTrigger.create(api, document, trigger));
      }
      for (const [at, steps] of rounds.entries()) {
        const held = await hold(first.databaseUrl, steps);
        const id = `msg_${at}`;
        for (const { trigger } of steps)
          expect(await triggers.get(trigger)?.post({ id: 1, n: at }, { id })).toBe(202);
        await until(
          'the steps',
          () => countHeld(first.databaseUrl),
          (count) => count === steps.length,
        );
        servers.push(await restart(servers.at(-1) as Server));
        await held.release();
        for (const { trigger } of steps) {
          const one = triggers.get(trigger) as TestTrigger;
          // Claimed by the killed service: it is due again after the lease.
          const delivery = await until<TriggerDelivery>(
            `the end of ${trigger}`,
            () => one.delivery(id),
            ({ state }) => state === 'DONE',
          );
          expect(delivery.subject).toBe(trigger.includes('message') ? 'listener' : trigger);
          // A second request is a message to the same agent, or a duplicate.
          const next = await one.take({ id: 1, n: 9 }, { id: `${id}_next` });
          expect(next.state).toBe(trigger.includes('message') ? 'IGNORED' : 'DONE');
          if (!trigger.includes('message')) {
            expect(next.agentId).toEqual(delivery.agentId);
            expect(await agentsOf(api, trigger)).toBe(1);
            const { followUps } = await one.status(next.agentId as never);
            expect(followUps).toHaveLength(1);
          }
        }
      }
      const agentId = { agent: ['listener'] };
      const { body } = await api.post<{ followUps: unknown[] }>('/v1/agent/queue/list', { agentId });
      expect(body.followUps).toHaveLength(2);
    } finally {
      for (const server of servers) await server.end('SIGKILL');
      for (const server of servers.reverse()) await server.close();
    }
  },
  longTestMs,
);
