import { readFileSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { createPartitions } from '../../packages/service/src/store/timeline-partitions.ts';
import { say } from './report.ts';
import { here, post, type Service } from './tools.ts';

export interface Fill {
  readonly agents: number;
  /** Entries of all timelines together. */
  readonly rows: number;
  /** How long ago the first agent was spawned. */
  readonly days: number;
  /** How many agents have a long timeline: they share a tenth of the entries. */
  readonly long: number;
}

/** The newest families of the caller's tenant; with 1,000 agents there are no others. */
const newFamilies = 250;
export const liveFamilies = 200;

/** How many families the caller's tenant has. They are named `agent-1` and so on; the last ones live. */
export const familiesOf = ({ agents }: Fill): number => {
  const older = agents / 4 - newFamilies;
  return older - Math.floor(older / 10) + newFamilies;
};

export const entriesOfLong = ({ rows, long }: Fill): number => Math.floor(rows / 10 / long);

const bytesPerRow = 700;
const bytesPerAgent = 4_000;

/** Throws if the disk has no room for this. */
export function checkDisk(...fills: readonly Fill[]): void {
  const { bavail, bsize } = statfsSync(tmpdir());
  const free = bavail * bsize;
  const needed = fills.reduce(
    (sum, { agents, rows }) => sum + rows * bytesPerRow + agents * bytesPerAgent,
    4e9,
  );
  const gigabytes = (bytes: number): string => `${(bytes / 1e9).toFixed(0)} GB`;
  if (free >= needed) return;
  throw new Error(
    `${tmpdir()} has ${gigabytes(free)} free, ${gigabytes(needed)} are needed: set TMPDIR to a folder on a larger disk, or ask for fewer --rows`,
  );
}

/**
 * Fills the database of a service, and leaves it as autovacuum would. The service does no maintenance from here on,
 * because the lease of it never ends.
 */
export async function fill({ database, ...service }: Service, filling: Fill): Promise<void> {
  const startMs = performance.now();
  const agentId = { agent: ['template'] };
  await post(service, '/v1/agent/spawn', { agentId, description: 'Fix the login flow.' });
  await post(service, '/v1/agent/kill', { agentId });
  await database.query("UPDATE maintenance SET holder = gen_random_uuid(), lease_until = 'infinity'");
  await createPartitions(database, new Date(Date.now() - filling.days * 24 * 3600 * 1000));
  for (const [name, value] of Object.entries(filling))
    await database.query('SELECT set_config($1, $2, false)', [`fill.${name}`, String(value)]);
  await database.query(readFileSync(here('fill.sql'), 'utf8'));
  await database.query('VACUUM (ANALYZE)');
  await database.query('CHECKPOINT');
  const { rows } = await database.query<{ agents: string; entries: string; size: string }>(
    `SELECT (SELECT count(*) FROM agents) AS agents, (SELECT count(*) FROM timeline) AS entries,
       pg_size_pretty(pg_database_size(current_database())) AS size`,
  );
  const [{ agents, entries, size } = { agents: '', entries: '', size: '' }] = rows;
  say(
    `      ${agents} agents and ${entries} entries, ${size}, filled in ${((performance.now() - startMs) / 1000).toFixed(0)} s`,
  );
}
