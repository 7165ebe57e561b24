import { limits } from '@muster/sdk/contract';
import type pg from 'pg';
import type { PoolKey } from '../domain/loaded-agents.ts';
import {
  type AgentStore,
  type AgentTransaction,
  CommitUnknownError,
  IdentityTakenError,
  keyColumns,
  OverdrawnError,
} from './agent-store.ts';
import { begin, rollBack, statement } from './connection.ts';
import { followUpOf, readStateOf, runOf, threadOf } from './rows.ts';
import { insertReplies, saveChanges } from './save-changes.ts';
import { lockPools, readPoolLimits } from './statements/claims.ts';
import { loadFollowUps } from './statements/follow-ups.ts';
import {
  countLiveDescendants,
  loadAgents,
  lockAgents,
  lockTree,
  stateParameters,
  wantedParameters,
} from './statements/load-agents.ts';
import { loadReplies, lockReplies } from './statements/replies.ts';
import { loadRuns } from './statements/runs.ts';
import { loadThreads } from './statements/threads.ts';

const commit = statement<[], never>('commit', 'COMMIT');
const readMoment = statement<[], { now: string; closed: number[] }>(
  'moment',
  `SELECT date_trunc('milliseconds', clock_timestamp()) AS now,
     ARRAY(SELECT id FROM tenants WHERE closed_at IS NOT NULL) AS closed`,
);

export function postgresAgentStore(pool: pg.Pool): AgentStore {
  return {
    async transaction(work) {
      const client = await pool.connect();
      let isCommitting = false;
      try {
        const sent: Promise<unknown>[] = [];
        const send = (statement: Promise<unknown>): void => {
          // Awaited below; until then a rejection must not count as unhandled.
          statement.catch(() => {});
          sent.push(statement);
        };
        send(begin(client));
        const result = await work(transactionOn(client, send));
        isCommitting = true;
        // COMMIT is sent together with the writes. If one of them fails, PostgreSQL turns it into a ROLLBACK.
        await Promise.all([...sent, commit(client)]);
        client.release();
        return result;
      } catch (error) {
        const isUndone = await rollBack(client, error);
        if (isCommitting && !isUndone)
          throw new CommitUnknownError('the connection broke during COMMIT', { cause: error });
        const { constraint } = error as { constraint?: string };
        if (constraint === 'agents_holder')
          throw new IdentityTakenError('another agent took this identity', { cause: error });
        if (constraint === 'budget_kept')
          throw new OverdrawnError('another transaction took the rest of a budget', { cause: error });
        throw error;
      }
    },
  };
}

function groupBy<R, V>(
  rows: readonly R[],
  keyOf: (row: R) => string,
  toValue: (row: R) => V,
): Map<string, V[]> {
  const groups = new Map<string, V[]>();
  for (const row of rows) {
    const key = keyOf(row);
    const group = groups.get(key);
    if (group) group.push(toValue(row));
    else groups.set(key, [toValue(row)]);
  }
  return groups;
}

const poolColumns = (pools: readonly PoolKey[]): [tenants: number[], pools: string[]] => [
  pools.map(({ tenant }) => tenant),
  pools.map(({ pool }) => pool),
];

type Locks = 'moment' | 'lock' | 'lockTree' | 'lockPools' | 'freeRuns' | 'lockReplies';

const locksOn = (client: pg.PoolClient): Pick<AgentTransaction, Locks> => ({
  async moment() {
    const [row] = await readMoment(client);
    return { now: row?.now ?? '', closedTenants: row?.closed ?? [] };
  },

  lock: (wanted) => lockAgents(client, ...wantedParameters(wanted)),

  async lockTree(key, root) {
    const rows = await lockTree(client, key.tenant, root, key.id);
    return rows.map(({ tenant, id, locked }) => ({ key: { tenant, id }, locked }));
  },

  async lockPools(pools) {
    const rows = await lockPools(client, ...poolColumns(pools));
    return rows.map((row) => row.locked);
  },

  async freeRuns(pools) {
    const rows = await readPoolLimits(client, ...poolColumns(pools));
    return rows.flatMap(({ tenant, name, free_runs }) =>
      free_runs === null ? [] : [{ tenant, pool: name, freeRuns: free_runs }],
    );
  },

  async lockReplies(keys) {
    const rows = await lockReplies(
      client,
      keys.map((k) => `${k.tenant}/${k.keyId}/${k.key}`),
    );
    return rows.map((row) => row.locked);
  },
});

type Loads = 'agents' | 'followUps' | 'runs' | 'threads' | 'liveDescendants' | 'replies';

const loadsOn = (client: pg.PoolClient): Pick<AgentTransaction, Loads> => ({
  async agents(wanted) {
    return (await loadAgents(client, ...stateParameters(wanted))).map(readStateOf);
  },

  async followUps(keys) {
    const rows = await loadFollowUps(
      client,
      ...keyColumns(keys),
      keys.map((k) => k.followUpId),
    );
    return groupBy(
      rows,
      (r) => r.agent,
      (r) => followUpOf(r.loaded),
    );
  },

  async runs(keys) {
    const rows = await loadRuns(
      client,
      ...keyColumns(keys),
      keys.map((k) => k.number),
    );
    return groupBy(
      rows,
      (r) => r.agent,
      (r) => runOf(r.loaded),
    );
  },

  async threads(keys, wanted) {
    const rows = await loadThreads(client, ...keyColumns(keys), [...wanted]);
    const threads = groupBy(rows, (r) => r.agent, threadOf);
    return new Map([...threads].map(([agent, some]) => [agent, new Map(some.map((t) => [t.id, t]))]));
  },

  async liveDescendants(keys) {
    const rows = await countLiveDescendants(
      client,
      keys.map((k) => k.tenant),
      keys.map((k) => k.root),
      keys.map((k) => k.id),
    );
    return new Map(rows.map((row) => [row.id, row.live]));
  },

  async replies(keys) {
    const rows = await loadReplies(
      client,
      keys.map((k) => k.tenant),
      keys.map((k) => k.keyId),
      keys.map((k) => k.key),
      limits.idempotencyHours,
    );
    return rows.map(({ key_id, ...row }) => ({ ...row, keyId: key_id }));
  },
});

function transactionOn(client: pg.PoolClient, send: (write: Promise<unknown>) => void): AgentTransaction {
  return {
    ...locksOn(client),
    ...loadsOn(client),

    save(changes, replies, now) {
      send(saveChanges(client, changes));
      if (replies.length === 0) return;
      const rows = replies.map(({ keyId, ...reply }) => ({ ...reply, key_id: keyId, created_at: now }));
      send(insertReplies(client, rows));
    },
  };
}
