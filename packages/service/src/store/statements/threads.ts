import { statement } from '../connection.ts';
import type { ThreadRow } from '../rows.ts';
import { namesOf, threadColumns } from '../tables.ts';
import { boundedPage } from './shared-sql.ts';

/** The columns of a thread `t`, and its comments, oldest first. */
const shown = (body = 'c.body'): string =>
  `${namesOf(threadColumns, 't')}, coalesce((
     SELECT json_agg(json_build_object('author', c.author, 'kind', c.kind, 'permission', c.permission, 'body', ${body},
       'at', c.at, 'url', c.url, 'host_id', c.host_id, 'run', c.run) ORDER BY c.number)
     FROM thread_comments c WHERE c.tenant = t.tenant AND c.agent = t.agent AND c.thread = t.id
   ), '[]') AS comments`;

/** All threads of these agents. The comments of resolved ones have no text, unless it is wanted. */
export const loadThreads = statement<[tenants: number[], agents: string[], wanted: string[]], ThreadRow>(
  'load-threads',
  `SELECT ${shown("CASE WHEN t.state = 'OPEN' OR t.id = ANY ($3::uuid[]) THEN c.body ELSE '' END")}
   FROM unnest($1::int[], $2::uuid[]) AS q (tenant, agent)
   JOIN threads t ON t.tenant = q.tenant AND t.agent = q.agent ORDER BY t.id`,
);

/** The threads of an agent in these states, from the given id on, oldest first. */
export const readThreads = statement<
  [tenant: number, agent: string, states: readonly string[], after: string, limit: number, mostBytes: number],
  ThreadRow & { found: number }
>(
  'read-threads',
  boundedPage({
    rows: `SELECT ${shown()} FROM threads t
       WHERE t.tenant = $1 AND t.agent = $2 AND t.state = ANY ($3) AND t.id > $4 ORDER BY t.id LIMIT $5 + 1`,
    bytes: 'octet_length(quote) + octet_length(comments::text)',
    order: 'id',
    limit: '$5',
    mostBytes: '$6',
  }),
);

/** The threads that a follow-up opened. */
export const readReview = statement<[tenant: number, agent: string, followUpId: string], ThreadRow>(
  'read-review',
  `SELECT ${shown()} FROM threads t WHERE t.tenant = $1 AND t.agent = $2 AND t.opened_by = $3 ORDER BY t.id`,
);

export const readThread = statement<[tenant: number, agent: string, id: string], ThreadRow>(
  'read-thread',
  `SELECT ${shown()} FROM threads t WHERE t.tenant = $1 AND t.agent = $2 AND t.id = $3`,
);

/** The repositories that an agent was spawned with. */
export const readRepositories = statement<[tenant: number, agent: string], { repos: string[] }>(
  'read-repositories',
  'SELECT repos FROM agent_briefs WHERE tenant = $1 AND agent = $2',
);
