import { statement } from '../connection.ts';
import { liveSession } from './browser-sessions.ts';
import { dueTables } from './due-rows.ts';
import { isEnabled, isValid } from './key-roles.ts';
import { hasVanished } from './runners.ts';
import { hasSteers } from './shared-sql.ts';

export interface TickRow {
  what: 'due' | 'lost' | 'gone' | 'watched' | 'work' | 'runner' | 'revoked' | 'next' | 'table' | 'budget';
  tenant: number | null;
  id: string | null;
  number: number | null;
  text: string | null;
}

/**
 * The one query a node makes per second, however many agents there are: deferred messages whose time has come, runs
 * whose lease has ended, tables with other work whose time has come, and, as a safety net under lost notifications, what this node watches — agents that someone
 * waits for, pools and runners with an open poll, keys and sessions with an open stream.
 */
export const tick = statement<
  [
    tenants: number[],
    agents: string[],
    pools: string[],
    poolTenants: number[],
    runners: string[],
    keys: string[],
    sessions: string[],
  ],
  TickRow
>(
  'tick',
  `SELECT 'due' AS what, f.tenant, f.agent::text AS id, NULL::bigint AS number, NULL AS text
   FROM (SELECT DISTINCT tenant, agent FROM follow_ups
         WHERE state = 'DEFERRED' AND deliver_at <= now() LIMIT 500) f
   UNION ALL
   SELECT 'next', NULL, NULL, (extract(epoch FROM min(n.deliver_at) - now()) * 1000)::bigint, NULL
   FROM (SELECT deliver_at FROM follow_ups
         WHERE state = 'DEFERRED' AND deliver_at > now() ORDER BY deliver_at LIMIT 1) n
   HAVING min(n.deliver_at) < now() + interval '1 second'
   UNION ALL
   SELECT 'lost', h.tenant, h.agent::text, h.number, NULL
   FROM runners r JOIN runs h ON h.runner_id = r.id AND h.gone_at IS NULL
   WHERE r.lease_until < now()
   UNION ALL
   SELECT 'gone', NULL, NULL, NULL, NULL WHERE EXISTS (SELECT FROM runners r WHERE ${hasVanished('r')})
   UNION ALL
   SELECT 'budget', NULL, NULL, NULL, NULL WHERE EXISTS (SELECT FROM budget_waits)
   UNION ALL
   SELECT 'watched', a.tenant, a.id::text, a.sequence, a.phase
   FROM unnest($1::int[], $2::uuid[]) AS q (tenant, id)
   JOIN agents a ON a.tenant = q.tenant AND a.id = q.id
   UNION ALL
   SELECT 'work', q.tenant, NULL, NULL, q.pool
   FROM unnest($3::text[], $4::int[]) AS q (pool, tenant)
   WHERE EXISTS (SELECT FROM agents a
                 WHERE a.pool = q.pool AND a.claimable_at <= now()
                   AND a.tenant >= q.tenant AND a.tenant <= CASE q.tenant WHEN 0 THEN 2147483647 ELSE q.tenant END)
   UNION ALL
   SELECT 'runner', NULL, q.id, NULL, NULL
   FROM unnest($5::text[]) AS q (id)
   WHERE EXISTS (SELECT FROM runs h
                 WHERE h.runner_id = q.id::uuid AND h.gone_at IS NULL AND (h.state IN ('STOPPING', 'ENDED') OR ${hasSteers('h')}
                   OR EXISTS (SELECT FROM watches w WHERE w.tenant = h.tenant AND w.agent = h.agent
                              AND w.opened_at > now() - interval '2 seconds')))
   UNION ALL
   SELECT 'revoked', NULL, q.id, NULL, NULL
   FROM unnest($6::text[]) AS q (id)
   WHERE NOT EXISTS (SELECT FROM keys k
                     WHERE k.key_id = q.id AND ${isValid('k')} AND ${isEnabled('k')})
   UNION ALL
   SELECT 'revoked', NULL, q.id::text, NULL, NULL
   FROM unnest($7::uuid[]) AS q (id)
   WHERE NOT EXISTS (${liveSession('q.id')})
   UNION ALL
   SELECT 'table', NULL, NULL, NULL, 'events' WHERE EXISTS (SELECT FROM events)
   ${dueTables
     .map(
       (table) => `UNION ALL
   SELECT 'table', NULL, NULL, NULL, '${table}' WHERE EXISTS (SELECT FROM ${table} WHERE next_at <= now())`,
     )
     .join('\n   ')}`,
);

/** Also true on a server that follows another one. */
export const readReadiness = statement<[], { is_read_only: boolean }>(
  'read-readiness',
  "SELECT current_setting('transaction_read_only')::boolean AS is_read_only",
);
