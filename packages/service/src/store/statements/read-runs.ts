import { statement } from '../connection.ts';
import type { RunRow } from '../rows.ts';

/** The runs of an agent, newest first. */
export const readRuns = statement<[tenant: number, agent: string, before: number, limit: number], RunRow>(
  'read-runs',
  `SELECT * FROM runs WHERE tenant = $1 AND agent = $2 AND number < $3 ORDER BY number DESC LIMIT $4`,
);
