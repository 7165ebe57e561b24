import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Agents } from '../support/agents.ts';
import { apiOf } from '../support/api.ts';
import { until } from '../support/async.ts';
import { writeResource } from '../support/catalog.ts';
import { expectErrorEnvelope } from '../support/expect-reply.ts';
import { type Server, startServer } from '../support/server.ts';

/**
 * States that the service never stores, written directly into the database. With each of them the runner continues, the
 * slot becomes free, a kill works and the service stops on SIGTERM.
 */
let server: Server;
let database: pg.Client;
let agents: Agents;
let n = 0;

async function start(): Promise<void> {
  server = await startServer();
  database = new pg.Client({ connectionString: server.databaseUrl });
  await database.connect();
  const api = apiOf(server);
  // One run at a time: an agent that keeps its slot prevents all others from running.
  await writeResource(api, 'pool', 'default', { maxRuns: 1 });
  agents = new Agents(api, 'default');
}
async function stop(): Promise<void> {
  await database?.end();
  await server?.close();
}
const newName = (): string => {
  n += 1;
  return `agent-${n}`;
};

const cyclic = [
  { id: 'x', subject: 'x', blockedBy: ['y'], blocks: ['y'] },
  { id: 'y', subject: 'y', blockedBy: ['x'], blocks: ['x'] },
].map((task) => ({
  ...task,
  description: '',
  status: 'TASK_STATUS_PENDING',
  activation: null,
  persona: '',
  dedupKey: '',
  ephemeral: false,
}));

const storeChecklist = (path: string, tasks: unknown) =>
  database.query(
    `INSERT INTO checklists SELECT tenant, id, $2::json FROM agents WHERE path = $1
     ON CONFLICT (tenant, agent) DO UPDATE SET tasks = excluded.tasks`,
    [path, JSON.stringify(tasks)],
  );

const deleteRun = (path: string) =>
  database.query('DELETE FROM runs WHERE agent = (SELECT id FROM agents WHERE path = $1)', [path]);

/** Makes every write of such a row fail, as when the stored state breaks an invariant. */
async function failWrites(name: string, table: string, operation: string, condition: string): Promise<void> {
  await database.query(
    `CREATE OR REPLACE FUNCTION refuse_write() RETURNS trigger LANGUAGE plpgsql AS
     $$ BEGIN RAISE EXCEPTION 'refused by a test'; END $$`,
  );
  await database.query(
    `CREATE TRIGGER ${name} BEFORE ${operation} ON ${table} FOR EACH ROW WHEN (${condition})
     EXECUTE FUNCTION refuse_write()`,
  );
}

const expectPhase = (path: string, phase: string) =>
  expect.poll(() => agents.phase(path), { timeout: 30_000 }).toBe(phase);
const expectSlotFree = async () => {
  const other = newName();
  await agents.spawn(other, { description: '!say done' });
  await expectPhase(other, 'WAITING_FOR_INPUT/RESTING');
};
const incident = /incident [0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/;

describe('while the service runs', () => {
  beforeAll(start);
  afterAll(stop);

  describe('a cycle of tasks in the database', () => {
    test('under a live run: the agent is killed, its process is confirmed gone, and its slot is free', async () => {
      const a = newName();
      await agents.spawn(a, { description: '!sleep 3600' });
      await expectPhase(a, 'RUNNING/WORKING');
      await storeChecklist(a, cyclic);
      await agents.kill(a);
      expect(await agents.phase(a)).toBe('CANCELED/KILLED');
      await expect.poll(() => agents.timeline(a, 'PROCESS_GONE'), { timeout: 30_000 }).toHaveLength(1);
      await expectSlotFree();
    });

    test('under a live run: the run ends as usual, and the agent has unfinished tasks', async () => {
      const a = newName();
      await agents.spawn(a, { description: '!sleep 3600' });
      await expectPhase(a, 'RUNNING/WORKING');
      await storeChecklist(a, cyclic);
      await agents.stop(a, '1');
      await expectPhase(a, 'WAITING_FOR_INPUT/INTERRUPTED');
      await expectSlotFree();
    });

    test('of an idle agent: status shows it, an update can remove it, and the next run removes it with a WARNING', async () => {
      const a = newName();
      await agents.spawn(a, { description: '!say done' });
      await expectPhase(a, 'WAITING_FOR_INPUT/RESTING');
      await storeChecklist(a, cyclic);
      expect(await agents.tasks(a)).toMatchObject([{ blockedBy: ['y'] }, { blockedBy: ['x'] }]);
      await agents.queue(a, '!say again');
      await expectPhase(a, 'WAITING_FOR_INPUT/TASKS_UNFINISHED');
      expect(await agents.tasks(a)).toMatchObject([
        { id: 'x', blockedBy: ['y'] },
        { id: 'y', blockedBy: [] },
      ]);
      const warnings = await agents.timeline(a, 'WARNING');
      expect(warnings.map(({ data }) => data.dropped)).toContainEqual([{ id: 'y', blockedBy: 'x' }]);

      await storeChecklist(a, cyclic);
      const deleted = await agents.send('agent/tasks/update', a, { id: 'x', status: 'TASK_STATUS_DELETED' });
      expect(deleted.status).toBe(200);
      expect(await agents.tasks(a)).toMatchObject([{ blocks: [] }, { blockedBy: [] }]);
    });

    test('in an undelivered message: it is delivered without the closing edge, with a WARNING', async () => {
      const a = newName();
      await agents.spawn(a, { description: '!sleep 3600' });
      await expectPhase(a, 'RUNNING/WORKING');
      await agents.queue(a, { description: '!say next', tasks: [{ id: 'x' }, { id: 'y' }] });
      await database.query(`UPDATE follow_ups SET tasks = $1 WHERE description = '!say next'`, [
        JSON.stringify(cyclic),
      ]);
      await agents.stop(a, '1');
      await expectPhase(a, 'WAITING_FOR_INPUT/TASKS_UNFINISHED');
      expect((await agents.tasks(a)).map((task) => task.blockedBy)).toEqual([['y'], []]);
      expect((await agents.timeline(a, 'WARNING')).some(({ data }) => data.dropped)).toBe(true);
    });
  });

  describe('other invalid states', () => {
    test.each<[what: string, write: (path: string) => Promise<unknown>]>([
      ['a checklist that is not a list', (path) => storeChecklist(path, { not: 'a list' })],
      ['tasks without fields', (path) => storeChecklist(path, [{ id: 'x' }, null, {}])],
      [
        'a memory without fields',
        (path) =>
          database.query(
            `UPDATE agent_states SET memory = '{}' WHERE agent = (SELECT id FROM agents WHERE path = $1)`,
            [path],
          ),
      ],
      [
        'a batch without fields',
        (path) =>
          database.query(
            `UPDATE agent_states SET memory = '{"batch": {"id": 1}}' WHERE agent = (SELECT id FROM agents WHERE path = $1)`,
            [path],
          ),
      ],
      [
        'counts that are too high',
        (path) => database.query('UPDATE agents SET queued = 7, deferred = 9 WHERE path = $1', [path]),
      ],
      [
        'counts that are too low',
        async (path) => {
          await agents.queue(path, { description: 'x', followUpId: 'one' });
          await agents.queue(path, { description: 'x', followUpId: 'two' });
          await database.query('UPDATE agents SET queued = 0 WHERE path = $1', [path]);
        },
      ],
      [
        'a run count that is higher than every run',
        (path) => database.query('UPDATE agents SET run_count = 7 WHERE path = $1', [path]),
      ],
      [
        'a run count of an agent that never ran',
        (path) => database.query('UPDATE agents SET run_count = 0 WHERE path = $1', [path]),
      ],
      ['a run that is not stored', deleteRun],
      [
        'a run that has ended under a running agent',
        (path) =>
          database.query(
            `UPDATE runs SET state = 'ENDED', outcome = 'COMPLETED', ended_at = now(), gone_at = now()
           WHERE agent = (SELECT id FROM agents WHERE path = $1)`,
            [path],
          ),
      ],
    ])('%s: status works and a kill works', async (_what, write) => {
      const a = newName();
      await agents.spawn(a, { description: '!sleep 3600' });
      await expectPhase(a, 'RUNNING/WORKING');
      await write(a);
      expect((await agents.status(a)).agentId.agent).toEqual([a]);
      await agents.kill(a);
      expect(await agents.phase(a)).toBe('CANCELED/KILLED');
      await expectSlotFree();
    });

    test('a run without a row: its agent is blocked with an incident number, and the runner ends the run', async () => {
      const a = newName();
      await agents.spawn(a, { description: '!sleep 3600' });
      await expectPhase(a, 'RUNNING/WORKING');
      await deleteRun(a);
      await expectSlotFree();
      await expectPhase(a, 'WAITING_FOR_INPUT/BLOCKED');
      expect((await agents.status(a)).error?.message).toMatch(incident);
    });
  });

  describe('reports that fail in the service', () => {
    test('block the agent with the incident number after three failures, and free its slot', async () => {
      const a = newName();
      const outputBefore = server.output.length;
      await failWrites('poisoned', 'timeline', 'INSERT', "NEW.text = 'poison'");
      await agents.spawn(a, { description: '!say before\n!say poison\n!sleep 3600' });
      await expectPhase(a, 'WAITING_FOR_INPUT/BLOCKED');
      const { error, run } = await agents.status(a);
      expect(run).toMatchObject({ state: 'ENDED', outcome: 'FAILED' });
      expect(error?.code).toBe('REPORT_FAILED');
      expect(error?.message).toMatch(incident);
      expect((await agents.timeline(a, 'ERROR'))[0]?.text).toMatch(incident);
      const [logged] = incident.exec(error?.message ?? '') ?? [];
      const output = server.output.slice(outputBefore).join('');
      const failures = output.split('refused by a test').length - 1;
      expect(output).toContain(logged?.slice('incident '.length));
      expect(failures).toBeLessThan(12);
      await expectSlotFree();
    });

    test('from a read-only database during a failover fail no run, and the service recovers', async () => {
      const a = newName();
      const name = database.escapeIdentifier(new URL(server.databaseUrl).pathname.slice(1));
      await agents.spawn(a, { description: '!say more\n!sleep 0.1\n'.repeat(400) });
      await expectPhase(a, 'RUNNING/WORKING');
      await database.query(`ALTER DATABASE ${name} SET default_transaction_read_only = on`);
      await database.query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
       WHERE datname = current_database() AND pid <> pg_backend_pid()`,
      );
      const refusedReports = async () => {
        const metrics = await (await fetch(`${server.url}/metrics`)).text();
        return Number(/_count\{.*report",status="503"\} (\d+)/.exec(metrics)?.[1] ?? 0);
      };
      // Three reports that fail INTERNAL would end the run.
      await expect.poll(refusedReports, { timeout: 30_000 }).toBeGreaterThan(3);
      await database.query(`ALTER DATABASE ${name} RESET default_transaction_read_only`);
      await expect
        .poll(() => agents.send('agent/stop-turn', a, { runId: '1' }), { timeout: 30_000 })
        .toMatchObject({ status: 200 });
      await expectPhase(a, 'WAITING_FOR_INPUT/INTERRUPTED');
      expect((await agents.status(a)).runCount).toBe('1');
    });

    test('an agent that cannot be claimed is blocked with an incident number, and the others are claimed', async () => {
      const a = newName();
      await failWrites('unclaimable', 'runs', 'INSERT', 'cardinality(NEW.follow_up_ids) = 1');
      await agents.spawn(a, { description: '!say a' });
      await expectPhase(a, 'WAITING_FOR_INPUT/RESTING');
      await agents.queue(a, '!say more');
      await expectPhase(a, 'WAITING_FOR_INPUT/BLOCKED');
      expect(await agents.status(a)).toMatchObject({
        error: { code: 'INTERNAL', message: expect.stringMatching(incident) },
        followUps: [{ description: '!say more', state: 'QUEUED' }],
      });
      await expectSlotFree();
      await database.query('DROP TRIGGER unclaimable ON runs');
      expect((await agents.send('agent/retry', a)).status).toBe(200);
      await expectPhase(a, 'WAITING_FOR_INPUT/RESTING');
      expect(await agents.status(a)).toMatchObject({ response: 'more', error: null, followUps: [] });
    });
  });

  test('an internal error has an incident id; the cause is in the log and never in the reply', async () => {
    const a = newName();
    await agents.spawn(a, { description: '!say done' });
    await expectPhase(a, 'WAITING_FOR_INPUT/RESTING');
    await database.query('ALTER SCHEMA public RENAME TO broken_by_test');
    try {
      const answer = await until(
        'a 5xx',
        () => agents.send('agent/queue', a, { description: `x ${newName()}` }),
        ({ status }) => status >= 500,
      );
      const { message, code } = expectErrorEnvelope(answer);
      expect([2, 13, 14]).toContain(code);
      expect(JSON.stringify(answer.body)).not.toMatch(
        /relation|does not exist|SELECT|INSERT|UPDATE|\bat .+:\d+:\d+|\.[jt]s\b|postgres/i,
      );
      const logged = message.match(/[A-Za-z0-9_-]*\d[A-Za-z0-9_-]*/g)?.find((word) => word.length >= 6);
      expect(logged, message).toBeDefined();
      await until(
        'the incident in the log',
        async () => server.output.join(''),
        (log) => log.includes(logged ?? ' ') && /does not exist/.test(log),
      );
    } finally {
      await database.query('ALTER SCHEMA broken_by_test RENAME TO public');
    }
    await until(
      'the service working again',
      () => agents.send('agent/queue', a, { description: '!say again' }),
      ({ status }) => status === 200,
    );
    await expectPhase(a, 'WAITING_FOR_INPUT/RESTING');
  });
});

describe('a service that is told to stop', () => {
  beforeAll(start);
  afterAll(stop);

  test('stops when a run cannot end, whose slot on the runner is free, and while another has a cycle of tasks', async () => {
    await failWrites('stuck', 'runs', 'UPDATE', "'stuck' = ANY (NEW.follow_up_ids)");
    await writeResource(apiOf(server), 'pool', 'default', { maxRuns: 2 });
    await agents.spawn('a', { description: '!say done' });
    await expectPhase('a', 'WAITING_FOR_INPUT/RESTING');
    await agents.queue('a', { description: '!say more', followUpId: 'stuck' });
    await expect.poll(() => server.output.join(''), { timeout: 30_000 }).toContain('run abandoned');
    await expectSlotFree();
    await agents.spawn('b', { description: '!sleep 3600' });
    await expectPhase('b', 'RUNNING/WORKING');
    await storeChecklist('b', cyclic);
    await server.end('SIGTERM');
    expect(server.process.exitCode).toBe(0);
    const { rows } = await database.query(
      `SELECT outcome FROM runs WHERE agent = (SELECT id FROM agents WHERE path = 'b')`,
    );
    expect(rows).toEqual([{ outcome: 'HANDED_BACK' }]);
  });
});
