import type { Backend, PollRequest, Provider, ProviderAccount, RunState, Task } from '@muster/sdk/contract';
import { statement } from '../connection.ts';
import { namesOf, rowsOf } from '../tables.ts';
import { insertEventsOf } from './events.ts';
import { hasSteers, isSteerOf } from './shared-sql.ts';
import { watchedSince } from './watches.ts';

export type Machine = NonNullable<PollRequest['machine']>;

export interface RunnerRow {
  tenant: number;
  id: string;
  name: string;
  pool: string;
  build: string;
  capabilities: string[];
  backends: Backend[];
  rehearses: boolean;
  free_real: number;
  free_rehearsed: number;
  polls: number;
  leaving: boolean;
  accounts: readonly ProviderAccount[];
  machine: Machine;
  /** The token resource that registered it; empty for the service's own runner. */
  token: string;
}

const runnerColumns = {
  tenant: 'int',
  id: 'uuid',
  name: 'text',
  pool: 'text',
  build: 'text',
  capabilities: 'text[]',
  backends: 'text[]',
  rehearses: 'boolean',
  free_real: 'int',
  free_rehearsed: 'int',
  polls: 'bigint',
  leaving: 'boolean',
  accounts: 'json',
  machine: 'json',
  token: 'text',
} as const satisfies Record<keyof RunnerRow, string>;

/** The capability of a runner that has handed back none of its runs: it may take runs again. */
export const undrains = 'undrain';

const leaseEnd = 'now() + make_interval(secs => $2 / 1000.0)';

/** A live runner of another token that has this name. The service's own runner gives way to no one. */
const rival = (r: string): string =>
  `SELECT FROM runners o
   WHERE o.name = ${r}.name AND o.tenant IN (0, ${r}.tenant) AND o.lease_until > now() AND ${r}.tenant <> 0
     AND (o.tenant <> ${r}.tenant OR o.token <> ${r}.token)`;

export interface HeldRow {
  tenant: number;
  agent: string;
  number: number;
  state: RunState;
  /** Null if nobody watches the agent. */
  watched_since: number | null;
  has_steers: boolean;
}

/**
 * `leaving`: the runner drains, because it said so or because somebody asked for it. `undrained`: it still says so, and
 * somebody asked it to take runs again.
 */
export type Held = (HeldRow | { agent: null }) & { readonly leaving: boolean; readonly undrained: boolean };

/** The runs of the runner `p` whose processes may live, or one row without a run. */
const heldOf = (p: string): string =>
  `SELECT p.leaving, p.undrained, r.tenant, r.agent, r.number, r.state, ${hasSteers('r')} AS has_steers,
     ${watchedSince('r.tenant', 'r.agent')} AS watched_since
   FROM ${p} p LEFT JOIN runs r ON r.runner_id = p.id AND r.gone_at IS NULL`;

/** The row of the runner that a poll renews, if it may. */
const isRenewed = `r.id = n.id AND r.tenant = n.tenant AND r.token = n.token AND r.pool = n.pool
     AND r.name = n.name AND r.polls < n.polls
     AND (r.lease_until > now() OR NOT EXISTS (${rival('n')}))`;

/** It drains, was asked to take runs again, and can. */
const isResuming = `r.undrained AND '${undrains}' = ANY (n.capabilities)`;

const renewal = (before: string): string => `${before} renewed AS (UPDATE runners r
   SET free_real = n.free_real, free_rehearsed = n.free_rehearsed, polls = n.polls,
     leaving = r.leaving OR (n.leaving AND NOT ${isResuming}), undrained = n.leaving AND ${isResuming},
     lease_until = ${leaseEnd}, capabilities = n.capabilities,
     backends = n.backends, rehearses = n.rehearses, build = n.build, accounts = n.accounts,
     machine = n.machine, polled_at = now()
   FROM ${rowsOf(runnerColumns)}
   WHERE ${isRenewed}
   RETURNING r.id, r.leaving, r.undrained)
   ${heldOf('renewed')}`;

/**
 * Renews the lease of a runner that is registered, and finds its runs. No row: it is not registered, another token, pool or
 * name has this id, the poll is not newer than the last one, or its lease was over and another token's runner has taken its
 * name.
 */
export const renewLease = statement<[runner: string, leaseMs: number], Held>('renew-lease', renewal('WITH'));

/** The same of one that has paused accounts; of those that were not paused before, people may want to know it. */
export const renewPausedLease = statement<[runner: string, leaseMs: number], Held>(
  'renew-paused-lease',
  renewal(`WITH events AS (
     ${insertEventsOf(`(
       SELECT o.tenant, 'account.resting' AS type, NULL::uuid AS agent, NULL AS workspace, NULL AS account, NULL::timestamptz AS at,
         json_build_object('name', p.account, 'text', concat_ws(' ', 'Runner ' || n.name || ':', nullif(p.error, ''))) AS data
       FROM ${rowsOf(runnerColumns)} JOIN runners r ON ${isRenewed} CROSS JOIN LATERAL json_to_recordset(n.accounts) AS p (account text, state text, error text)
       CROSS JOIN LATERAL (SELECT CASE n.tenant WHEN 0 THEN (SELECT min(t.id) FROM tenants t WHERE t.id > 0) ELSE n.tenant END AS tenant) o
       WHERE p.state = 'PAUSED' AND NOT EXISTS (
         SELECT FROM json_to_recordset(r.accounts) AS b (account text, state text) WHERE b.account = p.account AND b.state = 'PAUSED'
       )
     ) n`)}
   ), `),
);

/** Extends a lease that has not ended, without a poll. No row: it has ended. */
export const extendLease = statement<[id: string, leaseMs: number], { id: string }>(
  'extend-lease',
  `UPDATE runners SET lease_until = ${leaseEnd} WHERE id = $1 AND lease_until > now() RETURNING id`,
);

/** Registers a runner. No row: the id is taken, or the name by a live runner of another token. */
export const registerRunner = statement<[runner: string, leaseMs: number], { id: string }>(
  'register-runner',
  `INSERT INTO runners (${namesOf(runnerColumns)}, lease_until)
   SELECT ${namesOf(runnerColumns, 'n')}, ${leaseEnd} FROM ${rowsOf(runnerColumns)}
   WHERE NOT EXISTS (${rival('n')})
   ON CONFLICT (id) DO NOTHING
   RETURNING id`,
);

/** What a registered runner is bound to. */
export type BindingRow = Pick<RunnerRow, 'tenant' | 'pool' | 'token' | 'name'>;

export interface RegistrationRow {
  /** Null while no runner has this id. */
  registered: (BindingRow & Pick<RunnerRow, 'polls'>) | null;
  /** A live runner of another token has the name. */
  is_name_taken: boolean;
  /** Live runners of the token and of the tenant. */
  of_token: number;
  of_tenant: number;
}

/** Why a runner may not be registered, or its lease not renewed. */
export const readRegistration = statement<
  [id: string, tenant: number, token: string, name: string],
  RegistrationRow
>(
  'read-registration',
  `SELECT (
       SELECT row_to_json(r) FROM (SELECT tenant, pool, token, name, polls FROM runners WHERE id = $1) r
     ) AS registered,
     EXISTS (${rival('n')}) AS is_name_taken,
     (SELECT count(*)::int FROM runners o
      WHERE o.lease_until > now() AND o.tenant = n.tenant AND o.token = n.token) AS of_token,
     (SELECT count(*)::int FROM runners o WHERE o.lease_until > now() AND o.tenant = n.tenant) AS of_tenant
   FROM (SELECT $2::int AS tenant, $3::text AS token, $4::text AS name) n`,
);

export const readBinding = statement<[id: string], BindingRow>(
  'read-binding',
  'SELECT tenant, token, pool, name FROM runners WHERE id = $1',
);

export const deleteRunner = statement<[id: string], never>(
  'delete-runner',
  'DELETE FROM runners WHERE id = $1',
);

export const endLease = statement<[id: string], never>(
  'end-lease',
  'UPDATE runners SET lease_until = now(), leaving = true WHERE id = $1',
);

/**
 * A process that holds a runner's folder alone declares its predecessors dead: those that the same token registered
 * under the same name.
 */
export const replaceRunners = statement<[tenant: number, token: string, name: string, id: string], never>(
  'replace-runners',
  `UPDATE runners SET lease_until = now()
   WHERE tenant = $1 AND token = $2 AND name = $3 AND id <> $4 AND lease_until > now()`,
);

/** Its lease ended, it did not leave, and that is not noted yet. The next poll replaces what it is capable of. */
export const hasVanished = (r: string): string =>
  `${r}.lease_until < now() AND NOT ${r}.leaving AND NOT 'lost' = ANY (${r}.capabilities)`;

export const noteLostRunners = statement<[], Pick<RunnerRow, 'name' | 'pool'>>(
  'note-lost-runners',
  `WITH lost AS (
     UPDATE runners r SET capabilities = r.capabilities || 'lost'::text WHERE ${hasVanished('r')} RETURNING r.tenant, r.name, r.pool
   ), events AS (
     ${insertEventsOf(`(
       SELECT o.id AS tenant, 'runner.lost' AS type, NULL::uuid AS agent, NULL AS workspace, NULL AS account, NULL::timestamptz AS at,
         json_build_object('name', l.name, 'text', 'Its lease has expired. Pool: ' || l.pool || '.') AS data
       FROM lost l JOIN tenants o ON o.id > 0 AND l.tenant IN (0, o.id)
     ) n`)}
   )
   SELECT name, pool FROM lost`,
);

export const takeSlots = statement<[id: string, real: number, rehearsed: number], never>(
  'take-slots',
  `UPDATE runners SET free_real = greatest(0, free_real - $2), free_rehearsed = greatest(0, free_rehearsed - $3)
   WHERE id = $1`,
);

/** The runs of a runner. No row: the poll is not its newest one. */
export const findHeld = statement<[runnerId: string, poll: number], Held>(
  'find-held',
  `${heldOf('runners')} WHERE p.id = $1 AND p.polls = $2`,
);

export interface SteerRow {
  agent: string;
  run: number;
  id: string;
  position: number;
  description: string;
  tasks: Task[];
  attachment_ids: string[] | null;
}

/**
 * Messages for the running turns of a runner, in the order of their admission: up to a number per run, those that the
 * runner has already included, and as many as fit into the given bytes, at least one.
 */
export const loadSteers = statement<
  [runnerId: string, agents: string[], positions: number[], mostPerRun: number, mostBytes: number],
  SteerRow
>(
  'load-steers',
  `WITH steers AS (
     SELECT f.agent, r.number AS run, f.id, f.position, f.description, f.tasks, f.attachment_ids,
       row_number() OVER (PARTITION BY f.tenant, f.agent ORDER BY f.position) AS place
     FROM runs r JOIN follow_ups f ON ${isSteerOf('f', 'r')}
     WHERE r.runner_id = $1 AND r.gone_at IS NULL
   ), unsent AS (
     SELECT s.agent, s.run, s.id, s.position, s.description, s.tasks, s.attachment_ids,
       sum(octet_length(s.description) + octet_length(s.tasks::text)) OVER (ORDER BY s.position, s.agent) AS bytes,
       row_number() OVER (ORDER BY s.position, s.agent) AS n
     FROM steers s
     WHERE s.place <= $4
       AND NOT EXISTS (SELECT FROM unnest($2::uuid[], $3::bigint[]) AS q (agent, position)
                       WHERE q.agent = s.agent AND q.position = s.position)
   )
   SELECT agent, run, id, position, description, tasks, attachment_ids FROM unsent WHERE n = 1 OR bytes <= $5 ORDER BY n`,
);

export interface UnstoredRow extends Omit<HeldRow, 'state' | 'has_steers' | 'watched_since'> {
  /** The agent takes it for its newest run. */
  is_newest: boolean;
}

/** Runs that a runner of this tenant lists and that are not stored, not even as ended. */
export const findUnstored = statement<[tenant: number, agents: string[], numbers: number[]], UnstoredRow>(
  'find-unstored',
  `SELECT a.tenant, a.id AS agent, q.number, a.run_count = q.number AS is_newest
   FROM unnest($2::uuid[], $3::int[]) AS q (agent, number)
   JOIN agents a ON a.id = q.agent AND ($1 = 0 OR a.tenant = $1)
   WHERE NOT EXISTS (SELECT FROM runs r WHERE r.tenant = a.tenant AND r.agent = a.id AND r.number = q.number)`,
);

export interface RunnerCapacityRow extends Omit<RunnerRow, 'build' | 'capabilities' | 'leaving' | 'token'> {
  /** Live runs by tenant. */
  held: Record<string, number> | null;
}

/** Every live runner, with its free slots and its runs. */
export const readRunnerCapacity = statement<[], RunnerCapacityRow>(
  'read-runner-capacity',
  `SELECT r.id, r.polls, r.tenant, r.name, r.pool, r.backends, r.rehearses, r.free_real, r.free_rehearsed,
     (SELECT json_object_agg(h.tenant, h.n) FROM (
       SELECT h.tenant, count(*)::int AS n FROM runs h
       WHERE h.runner_id = r.id AND h.gone_at IS NULL AND h.state <> 'ENDED' GROUP BY h.tenant
     ) h) AS held
   FROM runners r WHERE r.lease_until > now() AND NOT r.leaving`,
);

export interface DrainedRow {
  id: string;
  name: string;
  /** Runs whose processes may live. */
  runs: number;
}

/** Live runners of a pool take no more runs: these, or all of the tenant. Their next poll tells them. */
export const drainRunners = statement<[tenant: number, pool: string, names: string[] | null], DrainedRow>(
  'drain-runners',
  `UPDATE runners r SET leaving = true, undrained = false
   WHERE r.tenant = $1 AND r.pool = $2 AND ($3::text[] IS NULL OR r.name = ANY ($3)) AND r.lease_until > now()
   RETURNING r.id, r.name, (
     SELECT count(*)::int FROM runs h WHERE h.runner_id = r.id AND h.gone_at IS NULL
   ) AS runs`,
);

/** Live runners with these names take runs again. Those that can't any more stay as they are. */
export const undrainRunners = statement<
  [tenant: number, pool: string, names: string[]],
  { id: string; name: string; leaving: boolean }
>(
  'undrain-runners',
  `UPDATE runners r SET undrained = r.leaving AND '${undrains}' = ANY (r.capabilities),
     leaving = r.leaving AND '${undrains}' <> ALL (r.capabilities)
   WHERE r.tenant = $1 AND r.pool = $2 AND r.name = ANY ($3) AND r.lease_until > now()
   RETURNING r.id, r.name, r.leaving`,
);

/** Runners of a pool with these names, also the one of the service (tenant 0) and those that ended lately. */
export const findRunners = statement<
  [tenant: number, pool: string, names: string[]],
  Pick<RunnerRow, 'tenant' | 'name'>
>(
  'find-runners',
  'SELECT DISTINCT tenant, name FROM runners WHERE tenant IN (0, $1) AND pool = $2 AND name = ANY ($3)',
);

/** The pool of the runner that has this name, or had it last. */
export const poolOfRunner = statement<[tenant: number, name: string], { pool: string }>(
  'pool-of-runner',
  'SELECT pool FROM runners WHERE tenant IN (0, $1) AND name = $2 ORDER BY lease_until DESC LIMIT 1',
);

export type LiveRunnerRow = Pick<
  RunnerRow,
  'tenant' | 'name' | 'pool' | 'backends' | 'rehearses' | 'build' | 'leaving' | 'accounts'
> & {
  is_sandboxed: boolean;
  is_disk_full: boolean;
};

/** The live runners of a tenant: its own, and those of the service. */
export const readLiveRunners = statement<[tenant: number], LiveRunnerRow>(
  'read-live-runners',
  `SELECT tenant, name, pool, backends, rehearses, build, leaving, accounts, 'sandbox' = ANY (capabilities) AS is_sandboxed,
     'disk-full' = ANY (capabilities) AS is_disk_full
   FROM runners WHERE tenant IN (0, $1) AND lease_until > now() ORDER BY pool, name`,
);

export type ListedRunnerRow = Omit<LiveRunnerRow, 'is_sandboxed' | 'is_disk_full'> &
  Pick<RunnerRow, 'id' | 'capabilities' | 'free_real' | 'free_rehearsed' | 'machine'> & {
    joined_at: string;
    polled_at: string;
    run_count: number;
    runs: { number: number; state: RunState; started_at: string; agent: AgentNameRow }[];
  };

type AgentNameRow = { owner_provider: Provider; account: string; workspace: string; path: string };

/** A page, with the newest runs of the tenant on each. `text` is in lower case. */
export const listRunners = statement<
  [
    tenant: number,
    pool: string | null,
    mostRuns: number,
    text: string,
    ...after: [pool: string, name: string, id: string],
    limit: number,
  ],
  ListedRunnerRow
>(
  'list-runners',
  `SELECT r.tenant, r.id, r.name, r.pool, r.backends, r.rehearses, r.build, r.leaving, r.accounts, r.capabilities, r.free_real,
     r.free_rehearsed, r.machine, r.joined_at, r.polled_at, h.run_count, h.runs
   FROM (
     SELECT tenant, id, name, pool, backends, rehearses, build, leaving, accounts, capabilities, free_real, free_rehearsed, machine,
       joined_at, polled_at
     FROM runners r
     WHERE r.tenant IN (0, $1) AND r.lease_until > now() AND ($2::text IS NULL OR r.pool = $2)
       AND ($4::text = '' OR strpos(lower(r.name || ' ' || r.pool || ' ' || coalesce(r.machine ->> 'system', '')), $4) > 0)
       AND (r.pool, r.name, r.id) > ($5::text, $6::text, $7::uuid)
     ORDER BY r.pool, r.name, r.id LIMIT $8
   ) r CROSS JOIN LATERAL (
     SELECT count(*)::int AS run_count, coalesce(json_agg(json_build_object(
       'number', l.number, 'state', l.state, 'started_at', l.started_at, 'agent', l.agent
     ) ORDER BY l.place) FILTER (WHERE l.place <= $3), '[]') AS runs FROM (
       SELECT h.number, h.state, h.started_at,
         json_build_object('owner_provider', a.owner_provider, 'account', a.account, 'workspace', a.workspace, 'path', a.path) AS agent,
         row_number() OVER (ORDER BY h.started_at DESC, h.agent) AS place
       FROM runs h JOIN agents a ON a.tenant = h.tenant AND a.id = h.agent
       WHERE h.runner_id = r.id AND h.gone_at IS NULL AND h.state <> 'ENDED' AND h.tenant = $1
     ) l
   ) h ORDER BY r.pool, r.name, r.id`,
);

/** Late polls of a runner that left find it for this long. */
export const deleteOldRunners = statement<[], never>(
  'delete-old-runners',
  `DELETE FROM runners r WHERE r.lease_until < now() - interval '10 minutes'
     AND NOT EXISTS (SELECT FROM runs h WHERE h.runner_id = r.id AND h.gone_at IS NULL)`,
);
