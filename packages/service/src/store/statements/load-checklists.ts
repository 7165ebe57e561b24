import type { Task } from '@muster/sdk/contract';
import { statement } from '../connection.ts';

export const loadChecklists = statement<
  [tenants: number[], agents: string[]],
  { agent: string; tasks: Task[] }
>(
  'load-checklists',
  `SELECT c.agent, c.tasks
   FROM unnest($1::int[], $2::uuid[]) AS q (tenant, agent)
   CROSS JOIN LATERAL (SELECT * FROM checklists c WHERE c.tenant = q.tenant AND c.agent = q.agent OFFSET 0) c`,
);
