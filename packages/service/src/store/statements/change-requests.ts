import type { ChangeRequest } from '@muster/sdk/contract';
import { statement } from '../connection.ts';
import type { AgentRow } from '../rows.ts';
import { assigned, insertInto, namesOf } from '../tables.ts';
import { dueRows } from './due-rows.ts';

/** What an agent was told about its change request, and when a person may have written to it since. */
export interface Told {
  /** The head whose failed checks it was told about. */
  readonly checksSha?: string;
  /** The head whose conflict it was told about. */
  readonly conflictSha?: string;
  readonly state?: ChangeRequest['state'];
  /** The newest timeline entry of the agent when this was last looked at. */
  readonly sequence?: number;
  /** What is new, and until when more of it may come. */
  readonly waiting?: { readonly digest: string; readonly untilMs: number };
}

export interface ChangeRequestRow {
  tenant: number;
  name: string;
  integration: string;
  repo: string;
  /** As the agent's workspace writes it. */
  repo_url: string;
  number: number;
  agent: string;
  url: string;
  title: string;
  state: ChangeRequest['state'];
  branch: string;
  base: string;
  head_sha: string;
  checks: ChangeRequest['checks'];
  review: ChangeRequest['review'];
  rounds: number;
  check_rounds: number;
  paused: boolean;
  told: Told;
  created_at: string;
  updated_at: string;
}

const columns = {
  tenant: 'int',
  name: 'text',
  integration: 'text',
  repo: 'text',
  repo_url: 'text',
  number: 'int',
  agent: 'uuid',
  url: 'text',
  title: 'text',
  state: 'text',
  branch: 'text',
  base: 'text',
  head_sha: 'text',
  checks: 'json',
  review: 'json',
  rounds: 'int',
  check_rounds: 'int',
  paused: 'boolean',
  told: 'json',
  created_at: 'timestamptz',
  updated_at: 'timestamptz',
} as const;

/** A record with the identity of its agent. */
export type ShownChangeRequest = ChangeRequestRow &
  Pick<AgentRow, 'owner_provider' | 'account' | 'workspace' | 'path'>;

const shown = `SELECT ${namesOf(columns, 'c')}, a.owner_provider, a.account, a.workspace, a.path
   FROM change_requests c JOIN agents a ON a.tenant = c.tenant AND a.id = c.agent`;
const due = { ...columns, next_at: 'timestamptz', asked: 'bigint' } as const;

const insert = statement<[rows: string], never>(
  'insert-change-request',
  `${insertInto('change_requests', due)} ON CONFLICT (tenant, name) DO NOTHING`,
);

/** A new record is compared with its host immediately. One that exists stays as it is. */
export const insertChangeRequest = (
  connection: Parameters<typeof insert>[0],
  row: ChangeRequestRow,
): Promise<unknown> => insert(connection, JSON.stringify([{ ...row, next_at: row.created_at, asked: 0 }]));

const key = ['tenant', 'name', 'integration', 'repo', 'repo_url', 'number', 'agent', 'created_at'];

const save = statement<[rows: string, asked: number, delayMs: number | null], never>(
  'save-change-request',
  `UPDATE change_requests t SET ${assigned(columns, 'n', key)},
     next_at = CASE WHEN t.asked = $2 THEN now() + make_interval(secs => $3 / 1000.0) ELSE now() END,
     is_claimed = false
   FROM json_to_recordset($1::json) AS n (${Object.entries(columns)
     .map(([name, type]) => `${name} ${type}`)
     .join(', ')})
   WHERE t.tenant = n.tenant AND t.name = n.name`,
);

/** After a comparison: it is due again after the delay, never without one, and immediately if that was asked meanwhile. */
export const saveChangeRequest = (
  connection: Parameters<typeof save>[0],
  { asked, ...row }: DueChangeRequest,
  delayMs: number | null,
): Promise<unknown> => save(connection, JSON.stringify([row]), asked, delayMs);

export type DueChangeRequest = ChangeRequestRow & { asked: number };

export const dueChangeRequests = dueRows<DueChangeRequest>('change-requests', {
  table: 'change_requests',
  key: ['tenant', 'name'],
  columns: [...Object.keys(columns), 'asked'],
  set: 'is_claimed = true',
});

export const postponeChangeRequest = statement<[tenant: number, name: string, delayMs: number], never>(
  'postpone-change-request',
  `UPDATE change_requests SET next_at = now() + make_interval(secs => $3 / 1000.0), is_claimed = false
   WHERE tenant = $1 AND name = $2`,
);

/** One that is being compared is due again when that has ended: two comparisons at once would overwrite each other. */
const ask = `UPDATE change_requests SET asked = asked + 1,
  next_at = CASE WHEN is_claimed THEN least(next_at, now() + interval '15 s') ELSE now() END`;

/** Asks for a comparison; returns which it is for. */
export const askByNumber = statement<
  [tenant: number, integration: string, repo: string, number: number],
  { name: string }
>(
  'ask-change-request-by-number',
  `${ask} WHERE tenant = $1 AND integration = $2 AND repo = $3 AND number = $4 RETURNING name`,
);

export const askByHead = statement<
  [tenant: number, integration: string, repo: string, sha: string],
  { name: string }
>(
  'ask-change-request-by-head',
  `${ask} WHERE tenant = $1 AND integration = $2 AND repo = $3 AND head_sha = $4
     AND state IN ('OPEN', 'DRAFT') RETURNING name`,
);

/** All that are open, or one. */
export const askByName = statement<[tenant: number, name: string | null], { name: string }>(
  'ask-change-requests',
  `${ask} WHERE tenant = $1 AND (name = $2 OR ($2 IS NULL AND state IN ('OPEN', 'DRAFT'))) RETURNING name`,
);

/** Not while more is to be posted about it: then it is asked for afterwards. */
export const askWhenPosted = statement<[tenant: number, integration: string, name: string], never>(
  'ask-posted-change-request',
  `${ask} WHERE tenant = $1 AND integration = $2 AND name = $3 AND NOT EXISTS (SELECT FROM outbox o
     WHERE o.tenant = $1 AND o.target = $2 AND o.lane = $3 AND o.next_at IS NOT NULL)`,
);

/** When a node starts: deliveries may have been missed. Spread over a minute, for they share the limits of their host. */
export const askAll = statement<[], never>(
  'ask-all-change-requests',
  `UPDATE change_requests SET next_at = least(next_at, now() + make_interval(secs => random() * 60))
   WHERE next_at IS NOT NULL AND NOT is_claimed AND state IN ('OPEN', 'DRAFT')`,
);

export const readChangeRequest = statement<[tenant: number, name: string], ShownChangeRequest>(
  'read-change-request',
  `${shown} WHERE c.tenant = $1 AND c.name = $2`,
);

export const findChangeRequests = statement<
  [tenant: number, integration: string, repo: string, branch: string],
  ShownChangeRequest
>(
  'find-change-requests',
  `${shown} WHERE c.tenant = $1 AND c.integration = $2 AND c.repo = $3 AND c.branch = $4
   ORDER BY c.number DESC LIMIT 100`,
);

export const listChangeRequests = statement<
  [tenant: number, after: string, limit: number],
  ShownChangeRequest
>('list-change-requests', `${shown} WHERE c.tenant = $1 AND c.name > $2 ORDER BY c.name LIMIT $3`);

/** Of these agents, newest first. */
export const readChangeRequestsOf = statement<
  [tenants: readonly number[], agents: readonly string[]],
  ShownChangeRequest
>(
  'read-change-requests-of',
  `${shown} JOIN unnest($1::int[], $2::uuid[]) AS q (tenant, agent) ON q.tenant = c.tenant AND q.agent = c.agent
   ORDER BY c.created_at DESC, c.number DESC`,
);

/** Whether a person has written to the agent since that entry of its timeline: no code host, and no other agent. */
export const hasPersonWritten = statement<
  [tenant: number, agent: string, sequence: number, ownPrefix: string],
  { written: boolean }
>(
  'has-person-written',
  `SELECT EXISTS (SELECT FROM timeline
     WHERE tenant = $1 AND agent = $2 AND sequence > $3 AND type IN ('FOLLOW_UP_QUEUED', 'FOLLOW_UP_DEFERRED')
       AND NOT starts_with(follow_up_id, $4) AND data ->> 'from' = '' AND data ->> 'byAgent' IS NULL) AS written`,
);

const readThreadsOf = statement<
  [tenant: number, agent: string, name: string],
  { id: string; host_id: string; state: 'OPEN' | 'RESOLVED'; comments: string[] }
>(
  'read-threads-of-change-request',
  `SELECT t.id, t.host_id, t.state,
     ARRAY(SELECT c.host_id FROM thread_comments c
       WHERE c.tenant = t.tenant AND c.agent = t.agent AND c.thread = t.id AND c.host_id <> '') AS comments
   FROM threads t WHERE t.tenant = $1 AND t.agent = $2 AND t.change_request = $3`,
);

export type Ledger = Awaited<ReturnType<typeof readLedger>>;

/** What the ledger has of a change request: its threads, and the host's ids of their comments. */
export async function readLedger(
  connection: Parameters<typeof readThreadsOf>[0],
  ...key: Parameters<typeof readThreadsOf> extends [unknown, ...infer K] ? K : never
) {
  const threads = await readThreadsOf(connection, ...key);
  return { threads, comments: threads.flatMap(({ comments }) => comments) };
}

type Issue = [tenant: number, integration: string, repo: string, subject: string, number: number];

/** The agent that works on an issue or a change request. */
export const findTriggered = statement<
  Issue,
  Pick<AgentRow, 'id' | 'phase' | 'created_at'> & { delivery: string }
>(
  'find-triggered-agent',
  `SELECT a.id, a.phase, a.created_at, t.delivery FROM triggered_agents t JOIN agents a ON a.tenant = t.tenant AND a.id = t.agent
   WHERE t.tenant = $1 AND t.integration = $2 AND t.repo = $3 AND t.subject = $4 AND t.number = $5`,
);

export const saveTriggered = statement<[...Issue, agent: string, delivery: string], never>(
  'save-triggered-agent',
  `INSERT INTO triggered_agents (tenant, integration, repo, subject, number, agent, delivery)
   VALUES ($1, $2, $3, $4, $5, $6, $7)
   ON CONFLICT (tenant, integration, repo, subject, number)
   DO UPDATE SET agent = excluded.agent, delivery = excluded.delivery`,
);

/** The issues that an agent works on. */
export const findTriggers = statement<
  [tenant: number, agent: string, integration: string, repo: string],
  { number: number }
>(
  'find-triggers',
  `SELECT number FROM triggered_agents WHERE tenant = $1 AND agent = $2 AND integration = $3 AND repo = $4
   AND subject = 'issue' ORDER BY number`,
);
