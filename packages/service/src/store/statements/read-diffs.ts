import { statement } from '../connection.ts';
import type { AgentRow } from '../rows.ts';

export interface DiffsRow extends Pick<AgentRow, 'result'> {
  diffs: { repo: string; text: string; working_tree: boolean }[];
}

/** What the branch of an agent changed, in the order of its repositories' names. */
export const readDiffs = statement<[tenant: number, agent: string], DiffsRow>(
  'read-diffs',
  `SELECT a.result, coalesce(
     (SELECT json_agg(json_build_object('repo', d.repo, 'text', d.text, 'working_tree', d.working_tree) ORDER BY d.repo)
      FROM diffs d WHERE d.tenant = a.tenant AND d.agent = a.id), '[]') AS diffs
   FROM agents a WHERE a.tenant = $1 AND a.id = $2`,
);
