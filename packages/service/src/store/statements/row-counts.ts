import { statement } from '../connection.ts';

export interface RowCount {
  what: 'agents' | 'claimable' | 'messages' | 'runners' | 'slots' | 'wanted' | 'deliveries' | 'outbox';
  /** The phase, the pool, or nothing. */
  first: string;
  /** The reason or the state. */
  second: string;
  count: number;
  /** In seconds. */
  oldest: number | null;
}

const age = (of: string): string => `extract(epoch FROM now() - ${of})::float8`;

/** Work that waits, by whether it was tried; its partial index has nothing else. */
const waiting = (table: string, since: string): string =>
  `SELECT '${table}', '', CASE attempts WHEN 0 THEN 'new' ELSE 'retrying' END, count(*)::int, ${age(`min(${since})`)}
   FROM ${table} WHERE next_at IS NOT NULL GROUP BY 3`;

/**
 * What the metrics say about rows. Each part reads one partial index, and of it as much as there is now: live agents
 * (agents_list, and their rows), agents that wait (agents_claimable, without their rows), undelivered messages
 * (follow_ups_undelivered), live runners and their runs, and what waits for a code host. What ended is not read.
 */
export const countRows = statement<[], RowCount>(
  'count-rows',
  `SELECT 'agents' AS what, a.phase AS first, a.reason AS second, count(*)::int AS count, NULL::float8 AS oldest
   FROM tenants t JOIN agents a ON a.tenant = t.id AND a.is_root IN (true, false) AND a.is_live AND a.current
   GROUP BY a.phase, a.reason
   UNION ALL
   SELECT 'claimable', pool, '', count(*)::int, ${age('min(claimable_at)')}
   FROM agents WHERE claimable_at <= now() GROUP BY pool
   UNION ALL
   SELECT 'messages', '', state, count(*)::int, greatest(0, ${age('min(greatest(queued_at, deliver_at))')})
   FROM follow_ups WHERE state IN ('QUEUED', 'DEFERRED') GROUP BY state
   UNION ALL
   SELECT 'runners', pool,
     CASE WHEN leaving THEN 'leaving' WHEN 'disk-full' = ANY (capabilities) THEN 'disk_full' ELSE 'ready' END,
     count(*)::int, NULL
   FROM runners WHERE lease_until > now() GROUP BY 2, 3
   UNION ALL
   SELECT 'slots', pool, 'free', sum(CASE WHEN leaving THEN 0 WHEN rehearses THEN free_rehearsed ELSE free_real END)::int, NULL
   FROM runners WHERE lease_until > now() GROUP BY pool
   UNION ALL
   SELECT 'slots', r.pool, 'used', count(h.number)::int, NULL
   FROM runners r LEFT JOIN runs h ON h.runner_id = r.id AND h.gone_at IS NULL AND h.state <> 'ENDED'
   WHERE r.lease_until > now() GROUP BY r.pool
   UNION ALL
   ${waiting('deliveries', 'received_at')}
   UNION ALL
   ${waiting('outbox', 'created_at')}`,
);
