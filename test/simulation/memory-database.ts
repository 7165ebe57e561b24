import type pg from 'pg';
import { agentRow, runRow } from '../../packages/service/src/store/rows.ts';
import type { TickRow } from '../../packages/service/src/store/statements/tick.ts';
import type { Weather } from './memory-store.ts';
import type { AgentRows, MemoryTables } from './memory-tables.ts';
import type { VirtualClock } from './virtual-clock.ts';

interface Query {
  readonly name: string;
  readonly values: readonly unknown[];
}

type Answer = (tables: MemoryTables, values: readonly unknown[], clock: VirtualClock) => unknown[];

/**
 * The named statements that runners and timers send, answered from memory. It stands where a `pg.Pool` stands, so
 * that the real `Runners` and `Timers` run in the simulation.
 */
export function memoryDatabase(tables: MemoryTables, clock: VirtualClock, weather: Weather): pg.Pool {
  const query = async ({ name, values }: Query): Promise<{ rows: unknown[] }> => {
    const fate = weather.fate();
    await clock.delay(weather.latencyMs());
    if (!weather.isAlive()) await new Promise(() => {});
    if (fate !== 'fine' && fate !== 'unknown, committed') throw new Error('the store refuses connections');
    const answer = answers[name];
    if (!answer) throw new Error(`the simulated store has no statement "${name}"`);
    const rows = answer(tables, values, clock);
    if (fate === 'unknown, committed') throw new Error('the connection broke before the reply');
    return { rows };
  };
  return { query } as unknown as pg.Pool;
}

const mayLive = (tables: MemoryTables, runnerId: string): AgentRows[] =>
  [...tables.agents.values()].filter(({ run }) => run?.runnerId === runnerId && run.goneAt === null);

const answers: Record<string, Answer> = {
  'replace-runners': (tables, [, , name, id], clock) => {
    for (const runner of tables.runners.values()) {
      if (runner.name !== name || runner.id === id || runner.leaseUntilMs <= clock.nowMs) continue;
      runner.leaseUntilMs = clock.nowMs;
      runner.leaving = true;
    }
    return [];
  },

  'renew-lease': (tables, [json, leaseMs], clock) => {
    const { id, polls, leaving } = JSON.parse(String(json));
    const known = tables.runners.get(id);
    if (!known || known.polls >= polls) return [];
    Object.assign(known, { polls, leaving, leaseUntilMs: clock.nowMs + Number(leaseMs) });
    return [{ id }];
  },

  // Every runner here is the service's own: no name is ever taken, and there is no limit.
  'read-registration': (tables, [id]) => [
    { registered: tables.runners.get(String(id)) ?? null, is_name_taken: false, of_token: 0, of_tenant: 0 },
  ],

  'register-runner': (tables, [json, leaseMs], clock) => {
    const { tenant, id, name, pool, polls, leaving, token } = JSON.parse(String(json));
    if (tables.runners.has(id)) return [];
    const leaseUntilMs = clock.nowMs + Number(leaseMs);
    tables.runners.set(id, { tenant, id, name, pool, polls, leaving, token, leaseUntilMs });
    return [{ id }];
  },

  'end-lease': (tables, [id], clock) => {
    const runner = tables.runners.get(String(id));
    if (runner) Object.assign(runner, { leaseUntilMs: clock.nowMs, leaving: true });
    return [];
  },

  'newest-poll': (tables, [id]) => [{ polls: tables.runners.get(String(id))?.polls }],

  'take-slots': () => [],

  // Whatever was claimed is stored here.
  'find-unstored': () => [],

  'find-held': (tables, [runnerId]) =>
    mayLive(tables, String(runnerId)).map(({ agent, run }) => ({
      tenant: agent.tenant,
      agent: agent.id,
      number: run?.number,
      state: run?.state,
    })),

  'find-candidates': (tables, values, clock) => {
    const [name, limit] = [values[3], Number(values[7])];
    const isHome = (home: string): boolean =>
      [...tables.runners.values()].some((r) => r.name === home && r.leaseUntilMs > clock.nowMs && !r.leaving);
    return [...tables.agents.values()]
      .map(({ agent }) => agent)
      .filter(({ claimableAt }) => claimableAt !== null && claimableAt <= clock.now)
      .filter(({ home }) => home === null || home === name || !isHome(home))
      .sort((a, b) => ((a.claimableAt ?? '') < (b.claimableAt ?? '') ? -1 : 1))
      .slice(0, limit)
      .map(({ tenant, id }) => ({ tenant, id, rehearsal: true, max_runs: null, held: 0 }));
  },

  'load-agents': (tables, [, ids]) =>
    (ids as string[]).flatMap((id) => {
      const rows = tables.agents.get(id);
      if (!rows) return [];
      return [{ ...agentRow(rows.agent), run: rows.run && runRow(rows.agent, rows.run) }];
    }),

  'load-batch': (tables, [, id, batch]) =>
    [...(tables.agents.get(String(id))?.followUps.values() ?? [])]
      .filter((f) => f.batch === batch)
      .sort((a, b) => a.position - b.position)
      .map((f) => ({ id: f.id, description: f.id })),

  'load-checklists': (tables, [, ids]) =>
    (ids as string[]).map((id) => ({ agent: id, tasks: tables.agents.get(id)?.checklist ?? [] })),

  'peek-agents': (tables, [, ids]) =>
    (ids as string[]).flatMap((id) => {
      const agent = tables.agents.get(id)?.agent;
      if (!agent) return [];
      const { tenant, phase, sequence, since, runCount } = agent;
      return [{ tenant, id, phase, sequence, since, run_count: runCount }];
    }),

  tick: (tables, [, watched, pools, , runners], clock) => tick(tables, watched, pools, runners, clock),
};

const row = (what: TickRow['what'], fields: Partial<TickRow> = {}): TickRow => ({
  what,
  tenant: null,
  id: null,
  number: null,
  text: null,
  ...fields,
});

function tick(
  tables: MemoryTables,
  watched: unknown,
  pools: unknown,
  runners: unknown,
  clock: VirtualClock,
): TickRow[] {
  const all = [...tables.agents.values()];
  const rows: TickRow[] = [];
  let nextMs = Number.POSITIVE_INFINITY;
  for (const { agent, run } of all) {
    const { tenant, id } = agent;
    const dueMs = agent.nextDeliverAt === null ? Number.POSITIVE_INFINITY : Date.parse(agent.nextDeliverAt);
    if (dueMs <= clock.nowMs) rows.push(row('due', { tenant, id }));
    else nextMs = Math.min(nextMs, dueMs - clock.nowMs);
    const lease = run && run.goneAt === null ? tables.runners.get(run.runnerId) : undefined;
    if (run && lease && lease.leaseUntilMs < clock.nowMs)
      rows.push(row('lost', { tenant, id, number: run.number }));
  }
  if (nextMs < 1_000) rows.push(row('next', { number: nextMs }));
  for (const id of watched as string[]) {
    const agent = tables.agents.get(id)?.agent;
    if (agent) {
      const { tenant, sequence, phase } = agent;
      rows.push(row('watched', { tenant, id, number: sequence, text: phase }));
    }
  }
  const isWork = all.some(({ agent }) => agent.claimableAt !== null && agent.claimableAt <= clock.now);
  if (isWork) for (const pool of pools as string[]) rows.push(row('work', { tenant: 0, text: pool }));
  for (const id of runners as string[]) {
    const toStop = mayLive(tables, id).some(({ run }) => run?.state === 'STOPPING' || run?.state === 'ENDED');
    if (toStop) rows.push(row('stop', { id }));
  }
  return rows;
}
