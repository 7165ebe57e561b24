import fc from 'fast-check';
import type pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { OutputReports } from '../../packages/service/src/control/batches/output-reports.ts';
import { transact } from '../../packages/service/src/control/batches/transact.ts';
import { Wakes } from '../../packages/service/src/control/watching/wakes.ts';
import { isOutput, type ReportRun } from '../../packages/service/src/domain/commands/report-run.ts';
import type { AgentCommand } from '../../packages/service/src/domain/decide.ts';
import { isRefusal } from '../../packages/service/src/domain/refusal.ts';
import { openDatabase } from '../../packages/service/src/store/connection.ts';
import { postgresAgentStore } from '../../packages/service/src/store/postgres-agent-store.ts';
import { claimingRunner, ended, followUp, identity, report, spawn, task } from '../simulation/samples.ts';
import { freshDatabase } from '../support/database.ts';

/**
 * Reports of output are stored by a statement (`append-output`), all others are decided (`reportRun`) and asserted. Both
 * have to do the same: two agents get the same commands, and then the same report, one by each way.
 */
const runnerId = '00000000-0000-7000-8000-00000000000a';
const otherRunnerId = '00000000-0000-7000-8000-00000000000b';

let database: Awaited<ReturnType<typeof freshDatabase>>;
let pool: pg.Pool;

beforeAll(async () => {
  database = await freshDatabase();
  pool = openDatabase({ connectionString: database.url }, () => {});
  await pool.query("INSERT INTO tenants (id, provider, org) VALUES (1, 'PROVIDER_CODEHOST_APP', 'one')");
});
afterAll(async () => {
  await pool.end();
  await database.drop();
});

const text = fc.string({ unit: 'grapheme', maxLength: 40 }).map((value) => value.replaceAll('\0', '-'));

const item = fc.record(
  {
    type: fc.constantFrom('MESSAGE', 'THINKING', 'TOOL_CALL', 'TOOL_RESULT', 'WARNING'),
    text,
    data: fc.dictionary(
      fc.constantFrom('id', 'name', 'nested'),
      fc.oneof(
        text,
        fc.integer(),
        fc.constant(null),
        fc.array(text, { maxLength: 3 }),
        fc.record({ a: text }),
      ),
    ),
  },
  { requiredKeys: ['type'] },
);

const output = fc.record(
  {
    currentAction: fc.oneof(fc.constant(''), text),
    items: fc.array(item, { maxLength: 5 }),
  },
  { requiredKeys: [] },
);

/** The report, as a difference to one that the run's runner would send next. */
const lastReport = fc.record({
  output,
  run: fc.constantFrom(0, 0, 0, 0, -1, 1),
  number: fc.constantFrom(1, 1, 1, 2, 7, 0, -1),
  runner: fc.constantFrom(runnerId, runnerId, runnerId, otherRunnerId),
});

const step = fc.oneof(
  { arbitrary: fc.constant({ type: 'claim' } as const), weight: 3 },
  { arbitrary: fc.constant({ type: 'started' } as const), weight: 3 },
  { arbitrary: fc.record({ type: fc.constant('say' as const), output }), weight: 3 },
  ...(['queue', 'queueTask', 'ask', 'stop', 'kill', 'end', 'lose'] as const).map((type) =>
    fc.constant({ type }),
  ),
);
/** Most agents begin with a run: only these take a report. */
const history = fc
  .tuple(
    fc.constantFrom([], [{ type: 'claim' } as const], [{ type: 'claim' } as const]),
    fc.array(step, { maxLength: 6 }),
  )
  .map(([first, rest]) => [...first, ...rest]);
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

interface Numbers {
  readonly run: number;
  readonly reports: number;
}

function commandOf(made: Step, { run, reports }: Numbers, name: string): AgentCommand {
  const next = (fields: Partial<ReportRun>) => report(runnerId, run, reports + 1, fields);
  switch (made.type) {
    case 'claim':
      return claimingRunner(runnerId, 'runner');
    case 'started':
      return next({ started: true });
    case 'say':
      // A session makes it a report that is decided.
      return next({ ...(made.output as Partial<ReportRun>), session: 'session' });
    case 'queue':
      return followUp(name);
    case 'queueTask':
      return followUp(name, { tasks: [task(name)] });
    case 'ask':
      return { type: 'ask', runId: run, question: 'Which one?' };
    case 'stop':
      return { type: 'stop', runId: run, kind: 'INTERRUPT' };
    case 'kill':
      return { type: 'kill' };
    case 'end':
      return next({ end: ended('COMPLETED') });
    case 'lose':
      return { type: 'lose', runId: run };
  }
}

const uuid = (number: number): string => `00000000-0000-7000-8000-${String(number).padStart(12, '0')}`;
const time = /"\d{4}-\d\d-\d\dT[\d:.]+(?:\+00:00|Z)"/g;

/** All rows of an agent as JSON, without times and without what names the agent. */
async function rowsOf(id: string, path: string): Promise<Record<string, unknown>> {
  const tables = ['agent_states', 'runs', 'follow_ups', 'checklists', 'timeline'];
  const parts = tables.map(
    (table) =>
      `'${table}', (SELECT coalesce(json_agg(t ORDER BY to_jsonb(t)->'number', to_jsonb(t)->'sequence'), '[]')
       FROM ${table} t WHERE t.tenant = 1 AND t.agent = $1)`,
  );
  const { rows } = await pool.query<{ all: string }>(
    `SELECT json_build_object('agents', (SELECT json_agg(a) FROM agents a WHERE a.id = $1), ${parts.join(', ')})::text AS all`,
    [id],
  );
  const shown = (rows[0]?.all ?? '').replaceAll(id, 'agent').replaceAll(`"${path}"`, '"path"');
  return JSON.parse(shown.replace(time, '"a time"')) as Record<string, unknown>;
}

/** The entries with the newest time of the agent: those of the last report. */
async function newestEntries(id: string): Promise<string[]> {
  const { rows } = await pool.query<{ sequence: string }>(
    `SELECT t.sequence FROM timeline t JOIN agents a ON a.tenant = t.tenant AND a.id = t.agent
     WHERE a.id = $1 AND t.at = a.progress_at ORDER BY t.sequence`,
    [id],
  );
  return rows.map(({ sequence }) => sequence);
}

async function numbersOf(id: string): Promise<Numbers> {
  const { rows } = await pool.query<Numbers>(
    'SELECT number AS run, reports FROM runs WHERE agent = $1 ORDER BY number DESC LIMIT 1',
    [id],
  );
  return rows[0] ?? { run: 0, reports: 0 };
}

test('a report of output that is stored by its statement has the rows and the reply of one that is decided', {
  timeout: 240_000,
}, async () => {
  const decided = transact({ store: postgresAgentStore(pool), perform: () => {} });
  const stored = new OutputReports(pool, new Wakes(), () => {});
  const counts = { stored: 0, left: 0 };
  let made = 0;

  const spawned = async (steps: readonly Step[]) => {
    made += 1;
    const agent = { id: uuid(made), path: `agent-${made}` };
    const target = { key: { tenant: 1, id: agent.id } };
    await decided.command({ identity: identity([agent.path]) }, spawn(agent.id, [agent.path], [task('one')]));
    for (const [i, step] of steps.entries())
      await decided.command(target, commandOf(step, await numbersOf(agent.id), `message-${i}`));
    return { ...agent, target };
  };

  await fc.assert(
    fc.asyncProperty(history, lastReport, async (steps, last) => {
      const [one, other] = [await spawned(steps), await spawned(steps)];
      const before = await rowsOf(one.id, one.path);
      expect(await rowsOf(other.id, other.path)).toEqual(before);
      const { run, reports } = await numbersOf(one.id);
      const made = report(
        last.runner,
        run + last.run,
        reports + last.number,
        last.output as Partial<ReportRun>,
      );
      expect(isOutput(made)).toBe(true);

      const storedReply = await stored.append(one.target.key, made);
      const reply = await decided.command(other.target, made);

      const after = await rowsOf(one.id, one.path);
      expect(after).toEqual(await rowsOf(other.id, other.path));
      if (storedReply === null) {
        counts.left += 1;
        expect(after).toEqual(before);
        return;
      }
      counts.stored += 1;
      expect(isRefusal(reply)).toBe(false);
      expect(storedReply).toEqual(reply);
      expect(await newestEntries(one.id)).toEqual(await newestEntries(other.id));
    }),
    { numRuns: Number(process.env.MUSTER_REPORT_RUNS ?? 60) },
  );
  // Both ways were taken.
  expect(Math.min(counts.stored, counts.left)).toBeGreaterThan(0);
});
