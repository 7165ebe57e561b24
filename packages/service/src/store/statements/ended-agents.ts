import { statement } from '../connection.ts';

/**
 * Those of the given agents that ended at least so many days ago, of the tenant and the pool of this runner, or that live there by name;
 * tenant 0 serves every tenant. An agent that nobody knows is not among them: rows of agents stay for ever, so it is
 * more likely that the store is the wrong one than that its files are waste.
 */
export const endedAgents = statement<[runnerId: string, ids: string[], days: number], { id: string }>(
  'ended-agents',
  `SELECT a.id FROM runners r, agents a
   WHERE r.id = $1 AND a.id = ANY($2::uuid[]) AND r.tenant IN (0, a.tenant)
     AND (a.pool = r.pool OR a.home = r.name) AND a.ended_at <= now() - $3::float8 * interval '1 day'`,
);
