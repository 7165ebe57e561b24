import type { Tenant } from '@muster/sdk/contract';
import type pg from 'pg';
import { type DatabaseConfig, openClient, statement } from '../connection.ts';

/**
 * An archive is lines of JSON:
 *
 *   {"format": "muster-archive", "version": 1, "migration": 2, "createdAt": "…"}
 *   {"table": "tenants", "columns": ["id", "provider", "org"]}
 *   ["1", "PROVIDER_CODEHOST_APP", "local"]
 *   …
 *   {"end": true, "rows": {"tenants": 1, …}}
 *
 * The archive of one tenant names it in its first line, as `"tenant": {"provider": "…", "org": "…"}`, and has only
 * rows that move with a tenant. Their column `tenant` is ignored when they are imported.
 *
 * Each value of a row is the text that PostgreSQL writes for it, or null, so that none changes on the way: no number
 * is rounded, no time truncated, no JSON rewritten. The last line tells a complete archive from a truncated one.
 */
export interface Header {
  readonly format: typeof archiveFormat;
  readonly version: typeof archiveVersion;
  /** The last migration of the store it was taken from. */
  readonly migration: number;
  readonly createdAt: string;
  /** Without one, the archive has the whole store. */
  readonly tenant?: Tenant;
}

export interface TableLine {
  readonly table: string;
  readonly columns: readonly string[];
}

/** How many rows each table has. */
export type RowCounts = Record<string, number>;

export interface Trailer {
  readonly end: true;
  readonly rows: Readonly<RowCounts>;
}

export const archiveFormat = 'muster-archive';
export const archiveVersion = 1;

/** More than the longest row. */
const maxLineBytes = 256 * 1024 * 1024;

/** The archive can't be exported or imported; the message says why. */
export class ArchiveError extends Error {
  override readonly name = 'ArchiveError';
}

export const cutOff = (): ArchiveError =>
  new ArchiveError('The archive is truncated: its last line is missing. Export it again, or copy it again.');

export function headerIn(line: string, newestMigration: number): Header {
  const header = parsed(line) as Partial<Header> | null;
  if (header?.format !== archiveFormat) throw new ArchiveError('This is not an archive of `muster export`.');
  if (header.version !== archiveVersion || typeof header.migration !== 'number') {
    throw new ArchiveError(`The archive has version ${header.version}; this Muster reads ${archiveVersion}.`);
  }
  if (header.migration > newestMigration) {
    throw new ArchiveError(
      `The archive is from a newer Muster (migration ${header.migration}; this one has ${newestMigration}). Upgrade Muster first.`,
    );
  }
  return header as Header;
}

/** A line between rows. */
export function markIn(line: string): TableLine | Trailer {
  const mark = parsed(line) as Partial<TableLine & Trailer> | null;
  if (mark?.end === true && typeof mark.rows === 'object') return mark as Trailer;
  if (typeof mark?.table === 'string' && Array.isArray(mark.columns)) return mark as TableLine;
  throw new ArchiveError(`The archive is damaged: ${line.slice(0, 80)}`);
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return null;
  }
}

/** Only a line feed ends a line; texts may contain other line separators. */
export async function* linesIn(bytes: AsyncIterable<Buffer>): AsyncGenerator<string> {
  let begun: Buffer[] = [];
  let begunBytes = 0;
  for await (const chunk of bytes) {
    let from = 0;
    for (let at = chunk.indexOf(10); at !== -1; at = chunk.indexOf(10, from)) {
      begun.push(chunk.subarray(from, at));
      yield Buffer.concat(begun).toString();
      begun = [];
      begunBytes = 0;
      from = at + 1;
    }
    if (from === chunk.length) continue;
    begun.push(chunk.subarray(from));
    begunBytes += chunk.length - from;
    if (begunBytes > maxLineBytes) throw new ArchiveError('The archive is damaged: a line does not end.');
  }
  if (begunBytes > 0) throw cutOff();
}

/** A table as an archive has it. */
export interface ArchivedTable {
  readonly name: string;
  /** What a row refers to comes before it. */
  readonly order: string;
  readonly rowsPerFetch: number;
  /** The rows to export; the others come with the schema. */
  readonly where?: string;
  /** The rows that move with their tenant to another installation; all by default. */
  readonly moves?: string;
  /** The column with generated numbers. */
  readonly identity?: string;
}

const rowsPerFetch = 100;

/** All tables with what lasts and can't be counted again, in an order in which they can be loaded. Parents of an agent come first: they have fewer ancestors. */
export const archivedTables: readonly ArchivedTable[] = [
  { name: 'tenants', order: 'id', rowsPerFetch, where: 'id <> 0', identity: 'id', moves: 'false' },
  { name: 'service_secret', order: 'only_row', rowsPerFetch, moves: 'false' },
  // These roles are for a whole installation.
  { name: 'keys', order: 'tenant, key_id', rowsPerFetch, moves: "role NOT IN ('operator', 'metrics')" },
  { name: 'members', order: 'tenant, owner_provider, account', rowsPerFetch },
  { name: 'browser_sessions', order: 'tenant, id', rowsPerFetch, moves: 'false' },
  { name: 'sign_in_codes', order: 'tenant, hash', rowsPerFetch, moves: 'false' },
  { name: 'device_logins', order: 'hash', rowsPerFetch, moves: 'false' },
  { name: 'wrong_codes', order: 'tenant, owner_provider, account', rowsPerFetch, moves: 'false' },
  { name: 'sign_ins', order: 'tenant, id', rowsPerFetch },
  { name: 'resources', order: 'tenant, kind, name', rowsPerFetch },
  { name: 'earlier_values', order: 'tenant, name, generation', rowsPerFetch, moves: 'false' },
  { name: 'resource_history', order: 'tenant, kind, name, generation', rowsPerFetch },
  { name: 'audit', order: 'tenant, at, id', rowsPerFetch },
  { name: 'workspace_repositories', order: 'tenant, repo, workspace', rowsPerFetch },
  { name: 'runners', order: 'tenant, id', rowsPerFetch, moves: 'false' },
  { name: 'agents', order: 'cardinality(ancestors), tenant, id', rowsPerFetch },
  { name: 'deleted_agents', order: 'tenant, agent', rowsPerFetch },
  { name: 'agent_states', order: 'tenant, agent', rowsPerFetch },
  { name: 'agent_briefs', order: 'tenant, agent', rowsPerFetch },
  { name: 'labels', order: 'tenant, agent, key', rowsPerFetch },
  { name: 'agent_marks', order: 'tenant, agent, owner_provider, account', rowsPerFetch },
  { name: 'runs', order: 'tenant, agent, number', rowsPerFetch },
  { name: 'usage_hours', order: 'tenant, hour, agent, run, model, provider_account', rowsPerFetch },
  { name: 'usage_days', order: 'tenant, day, agent, model, provider_account', rowsPerFetch },
  { name: 'budget_ledgers', order: 'tenant, key', rowsPerFetch },
  { name: 'budget_notices', order: 'tenant, key, type', rowsPerFetch },
  { name: 'budget_waits', order: 'tenant, key, agent', rowsPerFetch },
  { name: 'follow_ups', order: 'tenant, agent, id', rowsPerFetch },
  // A checklist of many long tasks is as large as a part of a checkpoint.
  { name: 'checklists', order: 'tenant, agent', rowsPerFetch: 10 },
  { name: 'timeline', order: 'tenant, agent, sequence, at', rowsPerFetch },
  { name: 'replies', order: 'tenant, key_id, key', rowsPerFetch },
  { name: 'checkpoints', order: 'tenant, agent, id', rowsPerFetch },
  { name: 'checkpoint_parts', order: 'tenant, agent, checkpoint, part', rowsPerFetch: 10 },
  // An image may have 5 MiB.
  { name: 'attachments', order: 'tenant, agent, id', rowsPerFetch: 4 },
  { name: 'threads', order: 'tenant, agent, id', rowsPerFetch },
  { name: 'thread_comments', order: 'tenant, agent, thread, number', rowsPerFetch },
  { name: 'diffs', order: 'tenant, agent, repo, working_tree', rowsPerFetch },
  { name: 'hooks', order: 'tenant, integration', rowsPerFetch },
  // The body of a delivery may have 25 MiB.
  { name: 'deliveries', order: 'tenant, integration, id', rowsPerFetch: 4 },
  { name: 'change_requests', order: 'tenant, name', rowsPerFetch },
  { name: 'schedules', order: 'tenant, name', rowsPerFetch },
  { name: 'schedule_fires', order: 'tenant, schedule, scheduled_at', rowsPerFetch },
  { name: 'pushed_branches', order: 'tenant, repo, branch', rowsPerFetch },
  { name: 'triggered_agents', order: 'tenant, integration, repo, subject, number', rowsPerFetch },
  { name: 'outbox', order: 'tenant, id', rowsPerFetch, identity: 'id' },
  // A session does not move, and a browser belongs to one.
  { name: 'notification_targets', order: 'tenant, name', rowsPerFetch, moves: 'session IS NULL' },
  { name: 'events', order: 'tenant, id', rowsPerFetch, identity: 'id' },
  {
    name: 'notification_deliveries',
    order: 'tenant, id',
    rowsPerFetch,
    identity: 'id',
    moves: "target NOT LIKE 'browser/%'",
  },
];

export const movingTables = archivedTables.filter(({ moves }) => moves !== 'false');

export const allTables = archivedTables.map(({ name }) => name).join(', ');

export interface ColumnRow {
  name: string;
  quoted: string;
  type: string;
}

export const readColumns = statement<[table: string], ColumnRow>(
  'archive-columns',
  `SELECT attname AS name, quote_ident(attname) AS quoted, format_type(atttypid, atttypmod) AS type
   FROM pg_attribute
   WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum`,
);

/**
 * Settings for one transaction: every value is written in a form that is read back the same on any server, and no timeout
 * ends the transaction because a reader is slow or a table is large.
 */
const setLocal = statement<[], never>(
  'archive-settings',
  `SELECT set_config(s.name, coalesce(w.value, '0'), true)
   FROM pg_settings s
   LEFT JOIN (VALUES ('TimeZone', 'UTC'), ('DateStyle', 'ISO, YMD'), ('bytea_output', 'hex'),
     ('extra_float_digits', '1')) AS w (name, value) ON w.name = s.name
   WHERE w.name IS NOT NULL OR s.name IN ('statement_timeout', 'lock_timeout', 'transaction_timeout',
     'idle_in_transaction_session_timeout')`,
);

/** A transaction in which all archived tables are locked before the first read, which takes the snapshot. */
export async function openTransaction(
  connection: DatabaseConfig,
  name: string,
  { isolation, lock }: { isolation: string; lock: string },
): Promise<pg.Client> {
  const client = await openClient(connection, name);
  try {
    await client.query(
      `BEGIN ISOLATION LEVEL ${isolation}; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0;
       SET LOCAL idle_in_transaction_session_timeout = 0`,
    );
    await client.query(`LOCK TABLE ${allTables} IN ${lock} MODE`);
    await setLocal(client);
  } catch (error) {
    await client.end();
    throw error;
  }
  return client;
}
