import { limits, type PollRequest, type Steer } from '@muster/sdk/contract';
import type pg from 'pg';
import { tasksOf } from '../../store/rows.ts';
import { loadSteers } from '../../store/statements/runners.ts';

/** Bytes of the messages in one reply. A runner that got some polls again immediately. */
const maxBytes = 1024 * 1024;

/** The messages for running turns that the runner does not have yet. */
export async function offeredSteers(
  database: pg.Pool,
  { runnerId, capabilities = [], runs }: PollRequest,
): Promise<Steer[]> {
  if (!capabilities.includes('steer')) return [];
  const known = runs.flatMap(({ agentKey, steers = [] }) =>
    steers.map((sequence) => ({ agentKey, sequence })),
  );
  const rows = await loadSteers(
    database,
    runnerId,
    known.map(({ agentKey }) => agentKey),
    known.map(({ sequence }) => sequence),
    limits.steersPerRun,
    maxBytes,
  );
  return rows.map((row) => ({
    agentKey: row.agent,
    runId: row.run,
    followUpId: row.id,
    sequence: row.position,
    text: row.description,
    attachmentIds: row.attachment_ids ?? [],
    tasks: tasksOf(row.tasks),
  }));
}
