import { limits } from '@muster/sdk/contract';
import type { AgentKey } from '../agent-store.ts';
import { statement } from '../connection.ts';
import { addToRow, usageColumns } from '../save-usage.ts';
import { namesOf } from '../tables.ts';
import { usageAmounts } from '../usage-rows.ts';

export interface RunKey extends AgentKey {
  number: number;
}

/**
 * Runs whose usage is not compared with `usage_hours` yet: the next of them. Those of live runs, and of those that ended
 * lately and may be reported on, wait. The agents are locked, so that no report counts anything meanwhile; one that
 * another transaction has waits, too. What is counted is read in a later statement, which sees what was committed before
 * the lock.
 */
export const lockUnmetered = statement<
  [tenant: number, agent: string, number: number, most: number],
  RunKey & { is_due: boolean }
>(
  'lock-unmetered-runs',
  `WITH next AS MATERIALIZED (
     SELECT r.tenant, r.agent AS id, r.number, coalesce(r.gone_at < now() - interval '1 hour', false) AS is_due
     FROM runs r WHERE r.is_metered IS NULL AND (r.tenant, r.agent, r.number) > ($1, $2, $3)
     ORDER BY r.tenant, r.agent, r.number LIMIT $4
   ), locked AS MATERIALIZED (
     SELECT a.tenant, a.id FROM agents a
     WHERE (a.tenant, a.id) IN (SELECT n.tenant, n.id FROM next n WHERE n.is_due) FOR NO KEY UPDATE SKIP LOCKED
   )
   SELECT n.tenant, n.id, n.number, n.is_due AND l.id IS NOT NULL AS is_due
   FROM next n LEFT JOIN locked l ON l.tenant = n.tenant AND l.id = n.id
   ORDER BY n.tenant, n.id, n.number`,
);

/** The same of deleted agents, without waiting: nobody reports on their runs. */
export const lockUnmeteredOf = statement<
  [tenants: readonly number[], ids: readonly string[], most: number],
  RunKey
>(
  'lock-unmetered-runs-of',
  `SELECT r.tenant, r.agent AS id, r.number FROM unnest($1::int[], $2::uuid[]) AS q (tenant, id)
   JOIN agents a ON a.tenant = q.tenant AND a.id = q.id
   JOIN runs r ON r.tenant = a.tenant AND r.agent = a.id AND r.is_metered IS NULL
   LIMIT $3 FOR NO KEY UPDATE OF a`,
);

/** What a run used beyond its rows. Runs do not say what had no price. */
const missing = usageAmounts.map((name) =>
  name === 'unpriced_tokens' ? `0 AS ${name}` : `greatest(0, r.${name} - coalesce(c.${name}, 0)) AS ${name}`,
);

/**
 * Counts what runs used beyond the rows they have, under the hour of their end, and for the model of the agent: what a build
 * took that had no such rows. Costs may differ by what is rounded.
 */
export const meterRuns = statement<
  [tenants: readonly number[], ids: readonly string[], numbers: readonly number[]],
  never
>(
  'meter-runs',
  `WITH due AS MATERIALIZED (
     SELECT r.tenant, date_trunc('hour', coalesce(r.ended_at, r.started_at), 'UTC') AS hour, r.agent, r.number AS run, a.model,
       '' AS provider_account, a.root, a.owner_provider, a.account, a.workspace, a.backend, ${missing.join(', ')}, false AS is_estimated
     FROM unnest($1::int[], $2::uuid[], $3::int[]) AS q (tenant, agent, number)
     JOIN runs r ON r.tenant = q.tenant AND r.agent = q.agent AND r.number = q.number
     JOIN agents a ON a.tenant = r.tenant AND a.id = r.agent
     CROSS JOIN LATERAL (
       SELECT ${usageAmounts.map((name) => `sum(u.${name}) AS ${name}`).join(', ')} FROM usage_hours u
       WHERE u.tenant = r.tenant AND u.agent = r.agent AND u.run = r.number
     ) c
   ), added AS (
     INSERT INTO usage_hours AS u (${namesOf(usageColumns)})
     SELECT ${namesOf(usageColumns, 'd')} FROM due d
     WHERE d.cost > 1e-9 OR d.input_tokens + d.cached_tokens + d.output_tokens > 0
     ON CONFLICT (tenant, hour, agent, run, model, provider_account) DO UPDATE SET ${addToRow()}
   )
   UPDATE runs r SET is_metered = true FROM due d WHERE r.tenant = d.tenant AND r.agent = d.agent AND r.number = d.run`,
);

const dayColumns = namesOf(usageColumns).replace('hour', 'day').replace('run,', 'runs,');
const ownerColumns = 'root, owner_provider, account, workspace, backend';

/**
 * Replaces the rows of some agents' oldest days by one for each day, model and account. All of an agent and a day go
 * together, so that each of its runs counts once.
 */
export const mergeDays = statement<[most: number], { merged: number }>(
  'merge-usage-days',
  `WITH old AS MATERIALIZED (
     SELECT DISTINCT o.tenant, date_trunc('day', o.hour, 'UTC') AS day, o.agent FROM (
       SELECT o.tenant, o.hour, o.agent FROM tenants t CROSS JOIN LATERAL (
         SELECT u.tenant, u.hour, u.agent FROM usage_hours u
         WHERE u.tenant = t.id AND u.hour < date_trunc('day', now(), 'UTC') - interval '${limits.usageHourDays} days'
         ORDER BY u.hour LIMIT $1
       ) o LIMIT $1
     ) o
   ), taken AS (
     DELETE FROM usage_hours u USING old o
     WHERE u.tenant = o.tenant AND u.hour >= o.day AND u.hour < o.day + interval '1 day' AND u.agent = o.agent
     RETURNING o.day, ${namesOf(usageColumns, 'u')}
   ), merged AS (
     INSERT INTO usage_days AS u (${dayColumns})
     SELECT tenant, day, agent, count(DISTINCT run), model, provider_account, ${ownerColumns},
       ${usageAmounts.map((name) => `sum(${name})`).join(', ')}, bool_or(is_estimated)
     FROM taken GROUP BY tenant, day, agent, model, provider_account, ${ownerColumns}
     ON CONFLICT (tenant, day, agent, model, provider_account) DO UPDATE SET ${addToRow('runs')}
   )
   SELECT count(*)::int AS merged FROM taken`,
);
