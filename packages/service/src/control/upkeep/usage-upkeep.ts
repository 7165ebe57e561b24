import type pg from 'pg';
import { type AgentKey, keyColumns } from '../../store/agent-store.ts';
import { begin, rollBack } from '../../store/connection.ts';
import {
  lockUnmetered,
  lockUnmeteredOf,
  meterRuns,
  type RunKey,
} from '../../store/statements/metered-runs.ts';

type InBatches = (batch: (most: number) => Promise<number>) => Promise<boolean>;

/**
 * Compares what ended runs used with the rows that count it, and adds what they lack: usage that was recorded before these
 * rows existed, or that a node of an earlier version took.
 */
export async function meterRest(database: pg.Pool, inBatches: InBatches): Promise<void> {
  let last: RunKey = { tenant: -1, id: '00000000-0000-0000-0000-000000000000', number: 0 };
  await inBatches(async (most) => {
    const { tenant, id, number } = last;
    const runs = await meter(database, (client) => lockUnmetered(client, tenant, id, number, most));
    last = runs.at(-1) ?? last;
    return runs.length;
  });
}

/** The same for agents whose runs are about to be deleted. */
export const meterRunsOf = async (
  database: pg.Pool,
  agents: readonly AgentKey[],
  most: number,
): Promise<number> =>
  (await meter(database, (client) => lockUnmeteredOf(client, ...keyColumns(agents), most))).length;

async function meter<R extends RunKey & { is_due?: boolean }>(
  database: pg.Pool,
  lock: (client: pg.PoolClient) => Promise<R[]>,
): Promise<R[]> {
  const client = await database.connect();
  try {
    await begin(client);
    const runs = await lock(client);
    const due = runs.filter(({ is_due: isDue = true }) => isDue);
    if (due.length > 0)
      await meterRuns(
        client,
        ...keyColumns(due),
        due.map(({ number }) => number),
      );
    await client.query('COMMIT');
    client.release();
    return runs;
  } catch (error) {
    await rollBack(client, error);
    throw error;
  }
}
