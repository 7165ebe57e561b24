import { statement } from '../connection.ts';

/** Those of the given agents that have ended or that this tenant does not know; 0 knows every tenant's. */
export const endedAgents = statement<[tenant: number, ids: string[]], { id: string }>(
  'ended-agents',
  `SELECT q.id FROM unnest($2::uuid[]) AS q (id)
   WHERE NOT EXISTS (
     SELECT FROM agents a WHERE a.id = q.id AND ($1 = 0 OR a.tenant = $1) AND a.ended_at IS NULL)`,
);
