import { limits, type Provider } from '@muster/sdk/contract';
import { statement } from '../connection.ts';

type Account = [tenant: number, provider: Provider, account: string];

/**
 * Writes what an account has seen and pinned, each agent at most once; what is null stays as it is. Returns the agents
 * whose marks have changed.
 */
export const saveMarks = statement<
  [
    ...Account,
    agents: readonly string[],
    seen: readonly (number | null)[],
    pinned: readonly (boolean | null)[],
  ],
  { agent: string; is_new: boolean }
>(
  'save-marks',
  `INSERT INTO agent_marks AS m (tenant, owner_provider, account, agent, seen, is_pinned)
   SELECT a.tenant, $2, $3, a.id, CASE WHEN q.seen > a.sequence THEN a.sequence ELSE q.seen END, q.is_pinned
   FROM unnest($4::uuid[], $5::bigint[], $6::boolean[]) AS q (agent, seen, is_pinned)
   JOIN agents a ON a.tenant = $1 AND a.id = q.agent AND a.current
   JOIN tenants t ON t.id = a.tenant AND t.closed_at IS NULL
   ORDER BY a.id
   ON CONFLICT (tenant, agent, owner_provider, account) DO UPDATE SET
     seen = CASE excluded.seen WHEN 0 THEN 0 ELSE greatest(m.seen, excluded.seen) END,
     is_pinned = coalesce(excluded.is_pinned, m.is_pinned)
   WHERE excluded.seen > coalesce(m.seen, 0) OR (excluded.seen = 0 AND m.seen > 0)
     OR excluded.is_pinned <> coalesce(m.is_pinned, false)
   RETURNING m.agent, m.xmax = 0 AS is_new`,
);

/** Of an account that has too many, those of the oldest agents go. */
export const deleteSurplusMarks = statement<Account, never>(
  'delete-surplus-marks',
  `DELETE FROM agent_marks WHERE tenant = $1 AND owner_provider = $2 AND account = $3 AND agent <= (
     SELECT agent FROM agent_marks WHERE tenant = $1 AND owner_provider = $2 AND account = $3
     ORDER BY agent DESC OFFSET ${limits.marksPerAccount} LIMIT 1)`,
);
