import { limits, type PollReply, type PollRequest, type Steer } from '@muster/sdk/contract';
import type pg from 'pg';
import { tasksOf } from '../store/rows.ts';
import { loadSteers } from '../store/statements/runners.ts';

/** Of the steering messages in one reply; a runner that has got some asks for more immediately. */
const maxSteerBytes = 1024 * 1024;

export const nothingNew = (leaseMs: number, { watched = [] }: PollRequest): PollReply => ({
  leaseMs,
  claims: [],
  stops: [],
  steers: [],
  watched: [...watched],
});

/** Whether the runner is to know it before its poll has waited. */
export const isNews = ({ claims, stops, steers, watched }: PollReply, request: PollRequest): boolean =>
  claims.length > 0 || stops.length > 0 || steers.length > 0 || !isKnown(watched, request.watched);

type Watched = PollReply['watched'];

/** A runner of an earlier version does not say what it knows, and is not told more often. */
function isKnown(watched: Watched, known: PollRequest['watched']): boolean {
  const texts = (list: Watched) => list.map(({ agentKey, since }) => `${agentKey} ${since}`).sort();
  return known === undefined || texts(watched).join() === texts(known).join();
}

/** The messages for running turns that the runner does not have yet. */
export async function steersFor(
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
    maxSteerBytes,
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
