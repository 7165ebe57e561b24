import { isRehearsalModel } from '@muster/sdk/contract';
import type pg from 'pg';
import type { Agent, FollowUp } from '../../packages/service/src/domain/agent.ts';
import { type ReportRun, reportRun } from '../../packages/service/src/domain/commands/report-run.ts';
import { LoadedAgents } from '../../packages/service/src/domain/loaded-agents.ts';
import { isRefusal } from '../../packages/service/src/domain/refusal.ts';
import { canRun } from '../../packages/service/src/domain/scheduling.ts';
import type { Statement } from '../../packages/service/src/store/connection.ts';
import { changedStateFields } from '../../packages/service/src/store/rows.ts';
import type { appendOutput, OutputRow } from '../../packages/service/src/store/statements/append-output.ts';
import type {
  addLedgers,
  countLedgers,
  findFunded,
  readBudgetsOver,
} from '../../packages/service/src/store/statements/budgets.ts';
import type { findCandidates } from '../../packages/service/src/store/statements/claims.ts';
import type { peekAgents } from '../../packages/service/src/store/statements/find-agents.ts';
import type { loadBatches } from '../../packages/service/src/store/statements/follow-ups.ts';
import type { loadAgents, readBriefs } from '../../packages/service/src/store/statements/load-agents.ts';
import type {
  endLease,
  findHeld,
  findUnstored,
  Held,
  loadSteers,
  RunnerRow,
  readBinding,
  readRegistration,
  registerRunner,
  renewLease,
  replaceRunners,
  takeSlots,
} from '../../packages/service/src/store/statements/runners.ts';
import type { TickRow, tick } from '../../packages/service/src/store/statements/tick.ts';
import type { ConnectionFaults } from './memory-store.ts';
import type { AgentRows, MemoryTables, RegisteredRunner } from './memory-tables.ts';
import { tenants } from './samples.ts';
import type { VirtualClock } from './virtual-clock.ts';

interface Context {
  readonly tables: MemoryTables;
  readonly clock: VirtualClock;
  /** The agents that open transactions have locked. */
  readonly locks: ReadonlyMap<string, object>;
}

/** Answers a statement of the store with the same parameters and rows, so that a changed statement fails to compile. */
type Answer<S> =
  S extends Statement<infer Parameters, infer Row>
    ? (context: Context, ...parameters: Parameters) => [Row] extends [never] ? [] : Row[]
    : never;

interface Answers {
  readonly 'replace-runners': Answer<typeof replaceRunners>;
  readonly 'renew-lease': Answer<typeof renewLease>;
  readonly 'read-registration': Answer<typeof readRegistration>;
  readonly 'read-binding': Answer<typeof readBinding>;
  readonly 'register-runner': Answer<typeof registerRunner>;
  readonly 'end-lease': Answer<typeof endLease>;
  readonly 'take-slots': Answer<typeof takeSlots>;
  readonly 'find-unstored': Answer<typeof findUnstored>;
  readonly 'find-held': Answer<typeof findHeld>;
  readonly 'load-steers': Answer<typeof loadSteers>;
  readonly 'find-candidates': Answer<typeof findCandidates>;
  readonly 'load-agents': Answer<typeof loadAgents>;
  readonly 'read-briefs': Answer<typeof readBriefs>;
  readonly 'load-batches': Answer<typeof loadBatches>;
  readonly 'append-output': Answer<typeof appendOutput>;
  readonly 'peek-agents': Answer<typeof peekAgents>;
  readonly 'read-budgets-over': Answer<typeof readBudgetsOver>;
  readonly 'add-ledgers': Answer<typeof addLedgers>;
  readonly 'count-ledgers': Answer<typeof countLedgers>;
  readonly 'find-funded': Answer<typeof findFunded>;
  readonly tick: Answer<typeof tick>;
}

interface Query {
  readonly name: string;
  readonly values: readonly unknown[];
}

/** Answers the statements of runners and timers from memory, in place of a `pg.Pool`. */
export function memoryDatabase(context: Context, faults: ConnectionFaults): pg.Pool {
  const query = async ({ name, values }: Query): Promise<{ rows: unknown[] }> => {
    const fault = faults.fault();
    await context.clock.delay(faults.latencyMs());
    if (!faults.isAlive()) await new Promise(() => {});
    if (fault !== 'none' && fault !== 'unknown, committed') throw new Error('the store refuses connections');
    if (!Object.hasOwn(answers, name)) throw new Error(`the simulated store has no statement "${name}"`);
    const answer = answers[name as keyof Answers] as (context: Context, ...all: unknown[]) => unknown[];
    const rows = answer(context, ...values);
    if (fault === 'unknown, committed') throw new Error('the connection broke before the reply');
    return { rows };
  };
  return { query } as unknown as pg.Pool;
}

const mayStillRun = (tables: MemoryTables, runnerId: string): AgentRows[] =>
  [...tables.agents.values()].filter(({ run }) => run?.runnerId === runnerId && run.goneAt === null);

/** The messages that are to be added to the turn of its run. */
const steersOf = ({ run, followUps }: AgentRows): FollowUp[] =>
  run?.state === 'RUNNING'
    ? [...followUps.values()]
        .filter((f) => f.state === 'QUEUED' && f.steerBatch === run.batch)
        .sort((a, b) => a.position - b.position)
    : [];

function heldBy(tables: MemoryTables, runnerId: string): Held[] {
  const leaving = tables.runners.get(runnerId)?.leaving ?? false;
  const held = mayStillRun(tables, runnerId).flatMap((rows) =>
    rows.run
      ? [
          {
            tenant: rows.agent.tenant,
            agent: rows.agent.id,
            number: rows.run.number,
            state: rows.run.state,
            has_steers: steersOf(rows).length > 0,
            watched_since: null,
            leaving,
            undrained: false,
          },
        ]
      : [],
  );
  return held.length > 0 ? held : [{ agent: null, leaving, undrained: false }];
}

const answers: Answers = {
  'read-budgets-over': ({ tables, clock }, tenants, ids) =>
    ids.flatMap((id, i) => {
      const agent = tables.agents.get(id)?.agent;
      const rows = agent ? tables.budgets.rowsOver(agent) : [];
      return rows.map((budget) => ({ ...budget, tenant: tenants[i] ?? 0, agent: id, now: clock.now }));
    }),

  'add-ledgers': () => [],

  'count-ledgers': ({ tables }, rows) => {
    tables.budgets.count(JSON.parse(rows));
    return [];
  },

  'find-funded': ({ tables }) => tables.budgets.funded(),

  'replace-runners': ({ tables, clock }, _tenant, _token, name, id) => {
    for (const runner of tables.runners.values()) {
      if (runner.name !== name || runner.id === id || runner.leaseUntilMs <= clock.nowMs) continue;
      runner.leaseUntilMs = clock.nowMs;
    }
    return [];
  },

  'read-binding': ({ tables }, id) => {
    const runner = tables.runners.get(id);
    return runner ? [runner] : [];
  },

  'renew-lease': ({ tables, clock }, json, leaseMs) => {
    const [row] = JSON.parse(json) as [RunnerRow];
    const known = tables.runners.get(row.id);
    if (!known || known.polls >= row.polls) return [];
    const leaving = known.leaving || row.leaving;
    Object.assign(known, row, { leaving, leaseUntilMs: clock.nowMs + leaseMs });
    return heldBy(tables, row.id);
  },

  // Every runner here is the service's own: no name is ever taken, and there is no limit.
  'read-registration': ({ tables }, id) => [
    { registered: tables.runners.get(id) ?? null, is_name_taken: false, of_token: 0, of_tenant: 0 },
  ],

  'register-runner': ({ tables, clock }, json, leaseMs) => {
    const [row] = JSON.parse(json) as [RunnerRow];
    if (tables.runners.has(row.id)) return [];
    tables.runners.set(row.id, { ...row, leaseUntilMs: clock.nowMs + leaseMs });
    return [{ id: row.id }];
  },

  'end-lease': ({ tables, clock }, id) => {
    const runner = tables.runners.get(id);
    if (runner) Object.assign(runner, { leaseUntilMs: clock.nowMs, leaving: true });
    return [];
  },

  'take-slots': ({ tables }, id, real, rehearsed) => {
    const runner = tables.runners.get(id);
    if (!runner) return [];
    runner.free_real = Math.max(0, runner.free_real - real);
    runner.free_rehearsed = Math.max(0, runner.free_rehearsed - rehearsed);
    return [];
  },

  // Every claim is stored here.
  'find-unstored': () => [],

  'find-held': ({ tables }, runnerId, poll) => {
    return tables.runners.get(runnerId)?.polls === poll ? heldBy(tables, runnerId) : [];
  },

  'load-steers': ({ tables }, runnerId, agents, positions, mostPerRun) =>
    mayStillRun(tables, runnerId).flatMap((rows) =>
      steersOf(rows)
        .slice(0, mostPerRun)
        .filter(({ position }) => !agents.some((id, i) => id === rows.agent.id && positions[i] === position))
        .map(({ id, position, tasks }) => ({
          agent: rows.agent.id,
          run: rows.run?.number ?? 0,
          id,
          position,
          description: id,
          tasks: [...tasks],
          attachment_ids: null,
        })),
    ),

  'find-candidates': ({ tables, clock }, tenant, pool, backends, name, id, lastTenant, limit) => {
    tables.onPoll(id, backends);
    const runners = [...tables.runners.values()];
    const byTenant = new Map<number, Agent[]>();
    for (const { agent } of tables.agents.values()) {
      const isWaiting = agent.claimableAt !== null && agent.claimableAt <= clock.now;
      const isOf = agent.pool === pool && (tenant === 0 || agent.tenant === tenant);
      if (!isWaiting || !isOf || !backends.includes(neededBackend(agent))) continue;
      if (agent.home !== name && isHomeLive(runners, agent, clock)) continue;
      byTenant.set(agent.tenant, [...(byTenant.get(agent.tenant) ?? []), agent]);
    }
    const start = lastTenant % (tenants.length + 1);
    return [...tenants.filter((one) => one > start), ...tenants.filter((one) => one <= start)]
      .map((one) => ({ tenant: one, agents: byTenant.get(one) ?? [], room: tables.roomFor(one, id) }))
      .filter(({ agents, room }) => agents.length > 0 && room > 0)
      .slice(0, 2 * limit)
      .flatMap(({ agents, room }) =>
        agents
          .sort(byWaiting)
          .slice(0, limit)
          .map((agent) => ({ agent, room })),
      )
      .map(({ agent, room }) => ({
        tenant: agent.tenant,
        id: agent.id,
        claimable_at: agent.claimableAt ?? '',
        room,
      }));
  },

  'load-agents': ({ tables }, _tenants, _providers, _accounts, _paths, _workspaces, ids) =>
    (JSON.parse(`[${ids.slice(1, -1)}]`) as string[]).flatMap((id) => {
      const rows = tables.agents.get(id);
      if (!rows) return [];
      const { agent, run } = rows;
      const { memory, result } = changedStateFields(undefined, agent);
      const loaded = {
        agent: { ...agent, memory, result },
        response: agent.result.response,
        home_deferral: null,
        run: run && { ...run },
        queue: null,
        checklist: [...rows.checklist],
        children: null,
      };
      return [{ loaded }];
    }) as ReturnType<Answers['load-agents']>,

  'read-briefs': ({ tables }, _tenants, ids) =>
    ids.flatMap((agent) => {
      const brief = tables.agents.get(agent)?.brief;
      const { description = '', expectedOutput = '' } = brief ?? {};
      return brief ? [{ agent, description, expected_output: expectedOutput, traceparent: null }] : [];
    }),

  'load-batches': ({ tables }, _tenants, ids, batches) =>
    ids.flatMap((agent, i) =>
      [...(tables.agents.get(agent)?.followUps.values() ?? [])]
        .filter((f) => f.batch === batches[i])
        .sort((a, b) => a.position - b.position)
        .map((f) => ({ agent, id: f.id, description: f.id, attachment_ids: null, traceparent: null })),
    ),

  // Stores what the decision on the same report would, or nothing.
  'append-output': ({ tables, clock, locks }, json) =>
    (JSON.parse(json) as OutputRow[]).flatMap(
      ({ tenant, agent: id, run, runner, report, items, current_action: currentAction }) => {
        const rows = tables.agents.get(id);
        if (rows?.agent.tenant !== tenant || locks.has(id)) return [];
        const state = { agent: rows.agent, run: rows.run, followUps: new Map(), checklist: rows.checklist };
        const command: ReportRun = {
          type: 'report',
          runId: run,
          runnerId: runner,
          report,
          items: [...items],
          ...(currentAction !== null && { currentAction }),
        };
        const decision = reportRun(new LoadedAgents(clock.now), command, state);
        if (isRefusal(decision) || decision.changes.length === 0) return [];
        tables.commit(decision.changes, [], clock.now);
        const { phase, sequence, memory } = rows.agent;
        const stop = rows.run?.stop ?? '';
        return [
          {
            agent: id,
            phase,
            sequence,
            stop,
            tasks: [...rows.checklist],
            activated: [...memory.activated],
            question: memory.question,
          },
        ];
      },
    ),

  'peek-agents': ({ tables }, _tenants, ids) =>
    ids.flatMap((id) => {
      const agent = tables.agents.get(id)?.agent;
      if (!agent) return [];
      const { tenant, phase, sequence, since, runCount } = agent;
      return [{ tenant, id, phase, sequence, since, run_count: runCount }];
    }),

  tick: ({ tables, clock }, _tenants, agents, pools, poolTenants, runners) => [
    ...timeRows(tables, clock),
    ...agents.flatMap((id) => watchedRow(tables, id)),
    ...pools.flatMap((pool, i) => workRow(tables, clock, poolTenants[i] ?? 0, pool)),
    ...runners.flatMap((id) => runnerRow(tables, id)),
    ...(tables.budgets.areAwaited ? [row('budget')] : []),
  ],
};

const byWaiting = (a: Agent, b: Agent): number => ((a.claimableAt ?? '') < (b.claimableAt ?? '') ? -1 : 1);

/** Empty: its model is a rehearsal model, which needs none. */
export const neededBackend = ({ settings, backend }: Agent): string =>
  isRehearsalModel(settings.model) ? '' : backend;

const waiting = (agent: Agent) => ({ ...agent, model: agent.settings.model });

/** An agent stays with the runner where its workspace is, as long as that one could run it. */
const isHomeLive = (runners: readonly RegisteredRunner[], agent: Agent, clock: VirtualClock): boolean =>
  runners.some(
    (runner) =>
      runner.name === agent.home &&
      runner.leaseUntilMs > clock.nowMs &&
      !runner.leaving &&
      canRun(runner, waiting(agent)),
  );

const row = (what: TickRow['what'], fields: Partial<TickRow> = {}): TickRow => ({
  what,
  tenant: null,
  id: null,
  number: null,
  text: null,
  ...fields,
});

function timeRows(tables: MemoryTables, clock: VirtualClock): TickRow[] {
  const rows: TickRow[] = [];
  let nextMs = Number.POSITIVE_INFINITY;
  for (const { agent, run } of tables.agents.values()) {
    const { tenant, id } = agent;
    const dueMs = agent.nextDeliverAt === null ? Number.POSITIVE_INFINITY : Date.parse(agent.nextDeliverAt);
    if (dueMs <= clock.nowMs) rows.push(row('due', { tenant, id }));
    else nextMs = Math.min(nextMs, dueMs - clock.nowMs);
    const runner = run && run.goneAt === null ? tables.runners.get(run.runnerId) : undefined;
    if (run && runner && runner.leaseUntilMs < clock.nowMs)
      rows.push(row('lost', { tenant, id, number: run.number }));
  }
  return nextMs < 1_000 ? [...rows, row('next', { number: nextMs })] : rows;
}

function watchedRow(tables: MemoryTables, id: string): TickRow[] {
  const agent = tables.agents.get(id)?.agent;
  if (!agent) return [];
  return [row('watched', { tenant: agent.tenant, id, number: agent.sequence, text: agent.phase })];
}

function workRow(tables: MemoryTables, clock: VirtualClock, tenant: number, pool: string): TickRow[] {
  const isWork = [...tables.agents.values()].some(
    ({ agent }) =>
      agent.pool === pool &&
      (tenant === 0 || agent.tenant === tenant) &&
      agent.claimableAt !== null &&
      agent.claimableAt <= clock.now,
  );
  return isWork ? [row('work', { tenant, text: pool })] : [];
}

function runnerRow(tables: MemoryTables, id: string): TickRow[] {
  const hasNews = mayStillRun(tables, id).some(
    (rows) => rows.run?.state === 'STOPPING' || rows.run?.state === 'ENDED' || steersOf(rows).length > 0,
  );
  return hasNews ? [row('runner', { id })] : [];
}
