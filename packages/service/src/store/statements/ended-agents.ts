import { statement } from '../connection.ts';

/**
 * Those of the given agents that have ended; 0 knows every tenant's. An agent that nobody knows is not among them:
 * rows of agents stay for ever, so it is more likely that the store is the wrong one than that its files are waste.
 */
export const endedAgents = statement<[tenant: number, ids: string[]], { id: string }>(
  'ended-agents',
  `SELECT id FROM agents WHERE id = ANY($2::uuid[]) AND ($1 = 0 OR tenant = $1) AND ended_at IS NOT NULL`,
);
