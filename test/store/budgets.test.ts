import type pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { transact } from '../../packages/service/src/control/batches/transact.ts';
import { budgetAt } from '../../packages/service/src/domain/budget.ts';
import type { AgentChange } from '../../packages/service/src/domain/loaded-agents.ts';
import type { AgentStore } from '../../packages/service/src/store/agent-store.ts';
import { openDatabase } from '../../packages/service/src/store/connection.ts';
import { postgresAgentStore } from '../../packages/service/src/store/postgres-agent-store.ts';
import { saveCredit } from '../../packages/service/src/store/save-credit.ts';
import {
  addLedgers,
  budgetOf,
  countLedgers,
  findFunded,
  readBudgetsOver,
  type Uncounted,
} from '../../packages/service/src/store/statements/budgets.ts';
import { claimingRunner, ended, identity, report, spawn } from '../simulation/samples.ts';
import { until } from '../support/async.ts';
import { agentRowId, freshDatabase } from '../support/database.ts';

const runnerId = '00000000-0000-7000-8000-00000000000a';
const today = '2026-03-01T00:00:00.000Z';

let database: Awaited<ReturnType<typeof freshDatabase>>;
let pool: pg.Pool;
beforeAll(async () => {
  database = await freshDatabase();
  pool = openDatabase({ connectionString: database.url }, () => {});
  await pool.query("INSERT INTO tenants (id, provider, org) VALUES (1, 'PROVIDER_CODEHOST_APP', 'one')");
});
beforeEach(() => pool.query('DELETE FROM resources; TRUNCATE budget_ledgers, budget_waits'));
afterAll(async () => {
  await pool.end();
  await database.drop();
});

const insertLedger = (key: string, takenUsd: number, startsAt = today) =>
  pool.query('INSERT INTO budget_ledgers (tenant, key, starts_at, taken) VALUES (1, $1, $2, $3)', [
    ...[key, startsAt, takenUsd],
  ]);
const takenOf = async (key: string): Promise<number | undefined> =>
  (await pool.query('SELECT taken FROM budget_ledgers WHERE key = $1', [key])).rows[0]?.taken;

interface Taken {
  readonly key: string;
  readonly usd: number;
  /** Null: it is returned. */
  readonly mostUsd: number | null;
}
/** What commands have taken, as one batch would store it. */
const save = (connection: pg.Pool | pg.PoolClient, ...all: readonly Taken[]): Promise<unknown> => {
  const events = all.map(({ key, usd, mostUsd }) => ({
    ...{ type: 'taken', key, usd },
    within: mostUsd === null ? null : { mostUsd, startsAt: today },
  }));
  return Promise.all(
    saveCredit(connection as pg.PoolClient, [
      { events, after: { agent: { tenant: 1 } } } as unknown as AgentChange,
    ]),
  );
};
const overdrawn = { constraint: 'budget_kept' };

describe('change-ledgers', () => {
  test('takes what fits, and refuses the whole batch if one ledger would be overdrawn', async () => {
    await insertLedger('a', 0);
    await insertLedger('b', 0.5);
    await save(pool, { key: 'a', usd: 0.5, mostUsd: 1 }, { key: 'a', usd: 0.5, mostUsd: 1 });
    expect(await takenOf('a')).toBe(1);
    const both = [
      { key: 'b', usd: 0.5, mostUsd: 1 },
      { key: 'a', usd: 0.1, mostUsd: 1 },
    ];
    await expect(save(pool, ...both)).rejects.toMatchObject(overdrawn);
    expect([await takenOf('a'), await takenOf('b')]).toEqual([1, 0.5]);
  });

  test('refuses to take of a ledger of another window, or that is gone', async () => {
    await insertLedger('a', 0, '2026-03-02T00:00:00.000Z');
    for (const key of ['a', 'gone'])
      await expect(save(pool, { key, usd: 0.1, mostUsd: 1 })).rejects.toMatchObject(overdrawn);
    expect([await takenOf('a'), await takenOf('gone')]).toEqual([0, undefined]);
  });

  test('returns to a ledger that is there, which never is negative', async () => {
    await insertLedger('a', 1);
    await save(pool, { key: 'a', usd: -0.25, mostUsd: null }, { key: 'gone', usd: -1, mostUsd: null });
    expect([await takenOf('a'), await takenOf('gone')]).toEqual([0.75, undefined]);
    await save(pool, { key: 'a', usd: -2, mostUsd: null });
    expect(await takenOf('a')).toBe(0);
  });

  test('what another transaction takes meanwhile counts', async () => {
    await insertLedger('a', 0);
    const other = await pool.connect();
    await other.query('BEGIN');
    await save(other, { key: 'a', usd: 0.7, mostUsd: 1 });
    const refused = expect(save(pool, { key: 'a', usd: 0.7, mostUsd: 1 })).rejects.toMatchObject(overdrawn);
    await whenBlocked();
    await other.query('COMMIT');
    other.release();
    await refused;
    expect(await takenOf('a')).toBe(0.7);
  });

  test('transactions that change the same ledgers in opposite order do not deadlock', async () => {
    const keys = Array.from({ length: 60 }, (_, i) => `k${i}`);
    for (const key of keys) await insertLedger(key, 0);
    const rows = keys.map((key) => ({ key, usd: 0.01, mostUsd: 100 }));
    const orders = [rows, rows.toReversed(), rows.toSorted(() => 0.5 - Math.random())];
    for (let round = 0; round < 20; round += 1)
      await Promise.all(orders.flatMap((some) => [save(pool, ...some), save(pool, ...some)]));
    for (const key of keys) expect(await takenOf(key)).toBeCloseTo(1.2);
  });
});

/** A statement of another connection waits for a lock. */
const whenBlocked = () =>
  until(
    'a blocked statement',
    async () =>
      (
        await pool.query(
          "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
        )
      ).rowCount,
    (count) => count === 1,
  );

let agents = 0;

/** An agent with a live run, below the budget `all`. */
async function startedAgent(store: AgentStore) {
  agents += 1;
  const id = agentRowId(agents);
  const target = { key: { tenant: 1, id } };
  const { command } = transact({ store, perform: () => {} });
  await command({ identity: identity([`agent-${agents}`]) }, spawn(id, [`agent-${agents}`]));
  await command(target, claimingRunner(runnerId, 'runner'));
  await command(target, report(runnerId, 1, 1, { started: true }));
  return {
    credit: (upToUsd: number) => command<unknown>(target, { type: 'credit', runnerId, runId: 1, upToUsd }),
    end: () => command(target, report(runnerId, 1, 2, { end: ended('COMPLETED') })),
  };
}

const insertBudget = async (amountUsd: number): Promise<void> => {
  await pool.query(
    `INSERT INTO resources (tenant, kind, name, generation, document) VALUES (1, 'budget', 'all', 1, $1)`,
    [{ amountUsd, createdAt: today }],
  );
  await insertLedger('budget/all', 0);
};

test('a batch that another node has outrun is decided again, and then refused', async () => {
  const real = postgresAgentStore(pool);
  let transactions = 0;
  /** While the batch of its second transaction is decided, another one takes nearly all. */
  let outrun = async () => {};
  const store: AgentStore = {
    transaction: (work) => {
      transactions += 1;
      return real.transaction((transaction) =>
        work({
          ...transaction,
          agents: async (wanted) => {
            const rows = await transaction.agents(wanted);
            await outrun();
            return rows;
          },
        }),
      );
    },
  };
  const agent = await startedAgent(store);
  await insertBudget(1);
  outrun = async () => {
    outrun = async () => {};
    await pool.query('UPDATE budget_ledgers SET taken = 0.9');
  };
  transactions = 0;
  expect(await agent.credit(0.5)).toMatchObject({
    refusal: expect.stringContaining('has too little left'),
  });
  expect(transactions).toBe(2);
  expect(await takenOf('budget/all')).toBe(0.9);
});

test('of agents of two nodes that ask at the same time, as many are covered as there is money for', async () => {
  const agents = await Promise.all(Array.from({ length: 12 }, () => startedAgent(postgresAgentStore(pool))));
  await insertBudget(1);
  const replies = await Promise.all(agents.map((agent) => agent.credit(0.2)));
  const granted = replies.filter((reply) => (reply as { refusal: string }).refusal === '');
  expect(granted.length).toBeGreaterThanOrEqual(3);
  expect(granted.length).toBeLessThanOrEqual(5);
  expect(await takenOf('budget/all')).toBeLessThanOrEqual(1 + 1e-9);
  await Promise.all(agents.map((agent) => agent.end()));
  expect(await takenOf('budget/all')).toBeCloseTo(0);
});

const uncounted = (key: string, startsAt: string): Uncounted => ({
  ...{ tenant: 1, key, starts_at: startsAt, agent: null, workspace: '', account: '' },
});

describe('count-ledgers', () => {
  const tomorrow = '2026-03-02T00:00:00.000Z';
  const startOf = async (key: string): Promise<string> =>
    (await pool.query('SELECT starts_at FROM budget_ledgers WHERE key = $1', [key])).rows[0]?.starts_at;

  test('counts each window once, however often it is asked', async () => {
    const rows = JSON.stringify([uncounted('budget/new', today)]);
    await Promise.all([addLedgers(pool, rows), addLedgers(pool, rows)]);
    await countLedgers(pool, rows);
    expect(await startOf('budget/new')).toBe(today);
    await save(pool, { key: 'budget/new', usd: 1, mostUsd: 2 });
    await countLedgers(pool, rows);
    expect(await takenOf('budget/new')).toBe(1);
  });

  test('leaves a ledger that another transaction changes', async () => {
    await insertLedger('budget/busy', 3);
    const other = await pool.connect();
    await other.query('BEGIN');
    await save(other, { key: 'budget/busy', usd: -1, mostUsd: null });
    const counting = countLedgers(pool, JSON.stringify([uncounted('budget/busy', tomorrow)]));
    await whenBlocked();
    await other.query('COMMIT');
    other.release();
    await counting;
    expect([await startOf('budget/busy'), await takenOf('budget/busy')]).toEqual([today, 2]);
    await countLedgers(pool, JSON.stringify([uncounted('budget/busy', tomorrow)]));
    expect(await startOf('budget/busy')).toBe(tomorrow);
  });

  test('counts what live runs have reserved', async () => {
    const agent = await startedAgent(postgresAgentStore(pool));
    await insertBudget(10);
    await agent.credit(2);
    const takenUsd = await takenOf('budget/all');
    expect(takenUsd).toBeGreaterThanOrEqual(2);
    await pool.query("UPDATE budget_ledgers SET starts_at = '-infinity', taken = 0");
    await countLedgers(pool, JSON.stringify([uncounted('budget/all', today)]));
    expect(await takenOf('budget/all')).toBeCloseTo(takenUsd ?? 0);
  });
});

describe('find-funded', () => {
  const wait = (agent: number, key: string, need: number, since = agent) =>
    pool.query('INSERT INTO budget_waits (tenant, agent, key, need, since) VALUES (1, $1, $2, $3, $4)', [
      ...[agentRowId(agent), key, need, new Date(since * 1_000).toISOString()],
    ]);
  const funded = async (limit = 500) =>
    (await findFunded(pool, limit)).map(({ id }) => Number(id.slice(-12))).sort((a, b) => a - b);

  test('wakes those that wait longest, as many as there is money for', async () => {
    await insertBudget(1);
    await pool.query('UPDATE budget_ledgers SET taken = 0.4');
    // All of them together need more; the one that needs most does not keep the others waiting.
    for (const [agent, need] of [5, 0.3, 0.2, 0.2].entries()) await wait(901 + agent, 'budget/all', need);
    expect(await funded()).toEqual([902, 903]);
    await pool.query('UPDATE budget_ledgers SET taken = 0');
    expect(await funded()).toEqual([902, 903, 904]);
    expect(await funded(2)).toHaveLength(2);
  });

  test('wakes nobody while the budget is spent, not even who needs nothing named', async () => {
    await insertBudget(1);
    await wait(901, 'budget/all', 0);
    await pool.query('UPDATE budget_ledgers SET taken = 1');
    expect(await funded()).toEqual([]);
    await pool.query('UPDATE budget_ledgers SET taken = 0.5');
    expect(await funded()).toEqual([901]);
  });

  test('wakes all who wait for a budget that is gone', async () => {
    await wait(901, 'budget/gone', 7);
    await wait(902, `agent/${agentRowId(999)}`, 7);
    expect(await funded()).toEqual([901, 902]);
  });
});

test('what is read of a budget is what was written', async () => {
  await startedAgent(postgresAgentStore(pool));
  await insertBudget(4);
  await save(pool, { key: 'budget/all', usd: 1, mostUsd: 4 });
  const [row] = await readBudgetsOver(pool, [1], [agentRowId(agents)], [true]);
  expect(row && budgetAt(budgetOf(row), row.now)).toMatchObject({
    ...{ key: 'budget/all', amountUsd: 4, takenUsd: 1, startsAt: today, isCounted: true },
  });
});
