import { statement } from '../connection.ts';

/**
 * Those of the given agents that ended at least so many days ago, of the tenant and the pool of this runner, or that
 * live there by name; tenant 0 serves every tenant. `isSaved`: only those whose last run left a checkpoint. An agent that nobody knows is not among them: rows of agents stay for ever, so it is
 * more likely that the store is the wrong one than that its files are waste.
 */
export const endedAgents = statement<
  [runnerId: string, ids: string[], days: number, isSaved: boolean],
  { id: string }
>(
  'ended-agents',
  `SELECT a.id FROM runners r, agents a
   WHERE r.id = $1 AND a.id = ANY($2::uuid[]) AND r.tenant IN (0, a.tenant)
     AND (a.pool = r.pool OR a.home = r.name) AND a.ended_at <= now() - $3::float8 * interval '1 day'
     AND (NOT $4 OR EXISTS (
       SELECT FROM checkpoints c
       WHERE c.tenant = a.tenant AND c.agent = a.id AND c.run = a.run_count AND c.final AND c.completed_at IS NOT NULL))
   ORDER BY a.ended_at, a.id`,
);
