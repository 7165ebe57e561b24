import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Node } from '../crash/node.ts';
import type { Fields } from '../support/agents.ts';
import { runConcurrently, until } from '../support/async.ts';
import { TestSchedule } from '../support/schedules.ts';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';

/**
 * A node is killed in the middle of a fire, while a trigger of the database holds it in one of its steps, and started
 * again. Then two nodes fire the same schedules.
 */
let node: Node;
let database: pg.Client;
let databaseUrl: string;

beforeAll(async () => {
  node = await Node.start({ runner: false });
  databaseUrl = await node.databaseUrl();
  database = new pg.Client({ connectionString: databaseUrl });
  await database.connect();
  await database.query(`CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_advisory_xact_lock_shared(4711); RETURN coalesce(NEW, OLD); END $$`);
});
afterAll(async () => {
  await database?.end();
  await node?.close();
});

/** The statements of a fire, in their order: when the database holds the node. */
const steps: readonly (readonly [name: string, before: string])[] = [
  ['before it begins', 'UPDATE OF spawn_id ON schedules FOR EACH ROW WHEN (OLD.spawn_id IS NULL)'],
  ['while its message or its agent is stored', 'INSERT ON timeline FOR EACH ROW'],
  ['when that is stored, and nothing else', 'INSERT ON schedule_fires FOR EACH ROW'],
  [
    'before the next time is stored',
    'UPDATE OF spawn_id ON schedules FOR EACH ROW WHEN (NEW.spawn_id IS NULL)',
  ],
  ['when all is stored', 'UPDATE OF last_agent ON schedules FOR EACH ROW'],
];

async function writeTelling(t: TestTenant, more: Fields = {}): Promise<TestSchedule> {
  return TestSchedule.write(node.api, databaseUrl, { agentId: t.id('a'), message: 'wake up', ...more });
}

async function writeSpawning(t: TestTenant, more: Fields = {}): Promise<TestSchedule> {
  const agentId = { workspace: t.workspace, agent: ['spawned-{n}'] };
  const spawn = { agentId, description: 'work', model: 'rehearsal-a' };
  return TestSchedule.write(node.api, databaseUrl, { spawn, overlap: 'allow', ...more });
}

const held = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711 AND NOT granted";
const others = 'SELECT FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()';
const rowsOf = async (query: string): Promise<number> => (await database.query(query)).rowCount ?? 0;

/** Makes the schedules due, kills the node in this step, and starts it again. */
async function killBefore(event: string, schedules: readonly TestSchedule[]): Promise<void> {
  const table = /ON (\w+)/.exec(event)?.[1];
  await database.query(
    `CREATE TRIGGER hold BEFORE ${event.replace(/(WHEN .*)?$/, '$1 EXECUTE FUNCTION hold()')}`,
  );
  try {
    await database.query('SELECT pg_advisory_lock(4711)');
    for (const schedule of schedules) await schedule.due();
    await until(
      'a node that is held',
      () => rowsOf(held),
      (count) => count > 0,
    );
    await node.kill();
    await database.query('SELECT pg_advisory_unlock(4711)');
    await until(
      'the end of its connections',
      () => rowsOf(others),
      (count) => count === 0,
    );
  } finally {
    await database.query('SELECT pg_advisory_unlock_all()');
    await database.query(`DROP TRIGGER hold ON ${table}`);
  }
  await node.start();
  // The lease of the node is over.
  await database.query('UPDATE schedules SET next_at = now() WHERE scheduled_at < now()');
}

test.each(steps)('a node that is killed %s sends the message once and spawns one agent', async (_, event) => {
  const t = await newTestTenant(node.api);
  await t.rested('a');
  const schedules = [await writeTelling(t), await writeSpawning(t)] as const;
  const [telling, spawning] = schedules;
  await killBefore(event, schedules);
  for (const schedule of schedules) {
    expect(await schedule.outcomes(1)).toEqual([expect.stringMatching(/^FIRED/)]);
    await until(
      'the next time',
      () =>
        schedule.query<{ at: string }>('SELECT scheduled_at > now() AS at FROM schedules WHERE name = $1'),
      ([row]) => Boolean(row?.at),
    );
    expect(await schedule.history()).toHaveLength(1);
  }
  expect(await t.followUpIds('a')).toEqual([(await telling.history())[0]?.followUpId]);
  expect(await spawning.history()).toMatchObject([{ agentId: { agent: ['spawned-1'] } }]);
  const { body } = await node.api.post<{ entries: unknown[] }>('/v1/agents', { workspace: t.workspace });
  expect(body.entries).toHaveLength(2);
  expect((await spawning.run()).body).toMatchObject({ agentId: { agent: ['spawned-2'] } });
});

test('two nodes fire each of many schedules once, also those of times that were missed', async () => {
  const other = await Node.start({ runner: false, databaseUrl });
  try {
    const t = await newTestTenant(node.api);
    await t.rested('a');
    const first = await writeTelling(t, { overlap: 'allow', missed: 'all' });
    // The minute may have changed.
    const { cron } = first;
    const more = await runConcurrently(23, 6, (i) =>
      i % 2 === 1
        ? writeTelling(t, { cron, overlap: 'allow', missed: 'all' })
        : writeSpawning(t, {
            ...{ cron, missed: 'all' },
            spawn: {
              agentId: { workspace: t.workspace, agent: [`spawned-${i}-{n}`] },
              ...{ description: 'work', model: 'rehearsal-a' },
            },
          }),
    );
    const schedules = [first, ...more];
    const names = schedules.map(({ name }) => name);
    // All of them are due for the same three times.
    await database.query('UPDATE schedules SET scheduled_at = $1, next_at = now() WHERE name = ANY ($2)', [
      first.time(2),
      names,
    ]);
    await runConcurrently(schedules.length, 6, async (i) => {
      const schedule = schedules[i] as TestSchedule;
      const outcomes = await schedule.outcomes(3);
      expect(outcomes.map((outcome) => outcome.split(' ')[0])).toEqual(['FIRED', 'FIRED', 'FIRED']);
    });
    expect(await t.followUpIds('a')).toHaveLength(36);
    const { rows } = await database.query(
      'SELECT schedule, count(*)::int AS fires FROM schedule_fires WHERE schedule = ANY ($1) GROUP BY 1',
      [names],
    );
    expect(rows.map(({ fires }) => fires)).toEqual(names.map(() => 3));
    const { body } = await node.api.post<{ entries: unknown[] }>('/v1/agents', { workspace: t.workspace });
    expect(body.entries).toHaveLength(1 + 36);
  } finally {
    await other.close();
  }
});
