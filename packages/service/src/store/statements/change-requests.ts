import type { ChangeRequest } from '@muster/sdk/contract';
import type { AgentRow } from '../agent-columns.ts';
import { statement } from '../connection.ts';

import { assigned, insertInto, namesOf, rowsOf } from '../tables.ts';
import { dueRows } from './due-rows.ts';
import { insertEventsOf } from './events.ts';

/** What messages to an agent said about its change request, and when a person may have written to it since. */
export interface Told {
  /** The head whose failed checks a message was about. */
  readonly checksSha?: string;
  /** The head whose conflict a message was about. */
  readonly conflictSha?: string;
  readonly state?: ChangeRequest['state'];
  /** The newest timeline entry of the agent when this was last looked at. */
  readonly sequence?: number;
  /** The newest head that the agent pushed, or got a message about. */
  readonly knownSha?: string;
  /** How often in a row the host did not say whether there is a conflict. */
  readonly computing?: number;
  /** When it was compared with its host, and which request for a comparison that answered. */
  readonly comparedMs?: number;
  readonly asked?: number;
  /** Until when the calls of its comparisons would last if they were spread evenly. */
  readonly spentUntilMs?: number;
  /** When it was found to be closed. */
  readonly endedMs?: number;
  /** Why it is not compared completely, and why something was not posted. */
  readonly problem?: string;
  readonly postProblem?: string;
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

/** What an event says of a change request. */
const toldOf = (c: string): string => `${c}.tenant, ${c}.agent, ${c}.repo, ${c}.number, ${c}.title, ${c}.url`;

/** What people are notified of, from rows with the name of the event and what it says. */
const eventsOf = (rows: string): string =>
  `(SELECT c.tenant, 'change_request.' || c.type AS type, c.agent, NULL AS workspace, NULL AS account, NULL::timestamptz AS at,
       json_build_object('name', c.repo || '#' || c.number, 'text', c.title, 'url', c.url) AS data
     FROM (${rows}) c) n`;

const insert = statement<[rows: string], { name: string }>(
  'insert-change-request',
  `WITH added AS (
     ${insertInto('change_requests', due)} ON CONFLICT DO NOTHING
     RETURNING tenant, name, agent, repo, number, title, url, state
   ), events AS (
     ${insertEventsOf(eventsOf(`SELECT 'opened' AS type, ${toldOf('c')} FROM added c WHERE c.state IN ('OPEN', 'DRAFT')`))}
   )
   SELECT name FROM added`,
);

/**
 * A new record is compared with its host immediately. One that exists stays as it is, also with another name: that of a
 * repository that was renamed. Returns a row if it is new.
 */
export const insertChangeRequest = (
  connection: Parameters<typeof insert>[0],
  row: ChangeRequestRow,
): Promise<{ name: string }[]> =>
  insert(connection, JSON.stringify([{ ...row, next_at: row.created_at, asked: 0 }]));

const key = ['tenant', 'name', 'integration', 'repo', 'repo_url', 'number', 'agent', 'created_at'];

const save = statement<[rows: string, asked: number, delayMs: number | null, collectMs: number], never>(
  'save-change-request',
  `WITH before AS MATERIALIZED (
     SELECT t.tenant, t.name, t.state, t.paused FROM ${rowsOf(columns)}
     JOIN change_requests t ON t.tenant = n.tenant AND t.name = n.name
   ), saved AS (
   UPDATE change_requests t SET ${assigned(columns, 'n', [...key, 'told'])},
     -- What was not posted is noted meanwhile.
     told = (n.told::jsonb - 'postProblem' || CASE WHEN t.told -> 'postProblem' IS NULL THEN '{}'::jsonb
       ELSE jsonb_build_object('postProblem', t.told -> 'postProblem') END)::json,
     next_at = CASE WHEN t.asked = $2 THEN now() + make_interval(secs => $3 / 1000.0)
       ELSE now() + make_interval(secs => $4 / 1000.0) END,
     is_claimed = false
   FROM ${rowsOf(columns)} WHERE t.tenant = n.tenant AND t.name = n.name RETURNING t.name, t.state, t.paused, ${toldOf('t')}
   )
   ${insertEventsOf(
     eventsOf(
       `SELECT e.type, ${toldOf('s')} FROM saved s JOIN before b ON b.tenant = s.tenant AND b.name = s.name CROSS JOIN LATERAL (
         SELECT CASE WHEN s.state IN ('MERGED', 'CLOSED') THEN lower(s.state) ELSE 'opened' END AS type
         WHERE s.state <> b.state AND (s.state IN ('MERGED', 'CLOSED') OR b.state IN ('MERGED', 'CLOSED'))
         UNION ALL SELECT 'paused' WHERE s.paused AND NOT b.paused
       ) e`,
     ),
   )} ORDER BY n.type`,
);

/** After a comparison: it is due again after the delay, never without one, and soon if that was asked meanwhile. */
export const saveChangeRequest = (
  connection: Parameters<typeof save>[0],
  { asked, ...row }: DueChangeRequest,
  delayMs: number | null,
  collectMs: number,
): Promise<unknown> => save(connection, JSON.stringify([row]), asked, delayMs, collectMs);

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

/**
 * What happens to a change request within `collectMs` is one comparison. One that is being compared is due again when that
 * has ended: two comparisons at the same time would overwrite each other.
 */
const ask = (collectMs: string) => `UPDATE change_requests c SET asked = c.asked + 1,
  next_at = least(c.next_at, now() + CASE WHEN c.is_claimed THEN interval '15 s'
    ELSE make_interval(secs => ${collectMs}::float8 / 1000) END)`;

/** Items of the outbox are about to be posted about it. */
const isPosting = `EXISTS (SELECT FROM outbox o WHERE o.tenant = c.tenant AND o.target = c.integration
  AND o.lane = c.name AND o.next_at IS NOT NULL)`;

/**
 * Asks for a comparison, and returns the name of the change request. What the integration itself has done is ignored
 * while it has more to post; `askWhenPosted` asks afterwards.
 */
export const askByNumber = statement<
  [tenant: number, integration: string, repo: string, number: number, collectMs: number, isOwn: boolean],
  { name: string }
>(
  'ask-change-request-by-number',
  `WITH found AS (
     SELECT tenant, name, $6 AND ${isPosting} AS is_posting FROM change_requests c
     WHERE tenant = $1 AND integration = $2 AND repo = $3 AND number = $4
   ), asked AS (
     ${ask('$5')} FROM found f WHERE c.tenant = f.tenant AND c.name = f.name AND NOT f.is_posting
   )
   SELECT name FROM found`,
);

/** One that is being compared may have this commit only in a moment: its checks may have been read before. */
export const askByHead = statement<
  [tenant: number, integration: string, repo: string, sha: string, collectMs: number],
  { name: string }
>(
  'ask-change-request-by-head',
  `${ask('$5')} WHERE tenant = $1 AND integration = $2 AND repo = $3 AND (head_sha = $4 OR is_claimed)
     AND state IN ('OPEN', 'DRAFT') RETURNING name`,
);

/** Those from a branch, or to it, which has moved. */
export const askByBranch = statement<
  [tenant: number, integration: string, repo: string, branch: string, collectMs: number],
  { name: string }
>(
  'ask-change-requests-by-branch',
  `${ask('$5')} WHERE tenant = $1 AND integration = $2 AND repo = $3 AND (branch = $4 OR base = $4)
     AND state IN ('OPEN', 'DRAFT') RETURNING name`,
);

export const askByName = statement<[tenant: number, name: string, collectMs: number], { name: string }>(
  'ask-change-request-by-name',
  `${ask('$3')} WHERE tenant = $1 AND name = $2 RETURNING name`,
);

/** All of an integration that was written: it may have been paused, or unusable. Nodes know it after some seconds. */
export const askByIntegration = statement<[tenant: number, integration: string], never>(
  'ask-change-requests-of-integration',
  `${ask('6000')} WHERE tenant = $1 AND integration = $2 AND next_at IS NOT NULL`,
);

/**
 * Requests a comparison of one change request, or of all open ones, except those for which somebody has requested one
 * within this time. With `isForgiven`, one that was given up is tried again. Returns how many it found, and for how
 * many it requested a comparison.
 */
export const syncByName = statement<
  [tenant: number, name: string | null, intervalMs: number, isForgiven: boolean],
  { found: number; asked: number }
>(
  'sync-change-requests',
  `WITH found AS (
     SELECT tenant, name, coalesce(asked_at > now() - make_interval(secs => $3 / 1000.0), false) AS is_recent
     FROM change_requests WHERE tenant = $1 AND (name = $2 OR ($2 IS NULL AND next_at IS NOT NULL))
   ), asked AS (
     ${ask('0')}, asked_at = now(), claims = CASE WHEN $4 THEN 0 ELSE c.claims END
     FROM found f WHERE c.tenant = f.tenant AND c.name = f.name AND NOT f.is_recent RETURNING c.name
   )
   SELECT (SELECT count(*) FROM found)::int AS found, (SELECT count(*) FROM asked)::int AS asked`,
);

/** Not while more is to be posted about it: then it is asked for afterwards. */
export const askWhenPosted = statement<
  [tenant: number, integration: string, name: string, collectMs: number],
  never
>(
  'ask-posted-change-request',
  `${ask('$4')} WHERE tenant = $1 AND integration = $2 AND name = $3 AND NOT ${isPosting}`,
);

/** When a node starts: deliveries may have been missed. Few are compared at a time. */
export const askAll = statement<[], never>(
  'ask-all-change-requests',
  'UPDATE change_requests SET next_at = now() WHERE next_at > now() AND NOT is_claimed',
);

/** Says on the record what failed; empty if nothing does any more. Returns a row if the record said something else. */
export const noteProblem = statement<
  [tenant: number, name: string, field: 'problem' | 'postProblem', problem: string],
  { agent: string }
>(
  'note-problem-of-change-request',
  `UPDATE change_requests SET told = (CASE WHEN $4 = '' THEN told::jsonb - $3::text
     ELSE told::jsonb || jsonb_build_object($3::text, $4::text) END)::json
   WHERE tenant = $1 AND name = $2 AND coalesce(told ->> $3::text, '') <> $4 RETURNING agent`,
);

/** Of an integration: what its change requests say. */
export const readProblems = statement<
  [tenant: number, integration: string, most: number],
  { repo: string; number: number; problem: string }
>(
  'read-problems-of-change-requests',
  `SELECT repo, number, coalesce(told ->> 'postProblem', told ->> 'problem') AS problem FROM change_requests
   WHERE tenant = $1 AND integration = $2 AND next_at IS NOT NULL
     AND (told ->> 'problem' IS NOT NULL OR told ->> 'postProblem' IS NOT NULL)
   ORDER BY updated_at DESC LIMIT $3`,
);

/** The commit that an agent pushed last to a repository; null if its runner does not say. */
export const readPushedTip = statement<
  [tenant: number, agent: string, repoUrl: string],
  { tip: string | null; phase: string }
>(
  'read-pushed-tip',
  `SELECT s.result -> 'pushed' ->> $3 AS tip, a.phase FROM agents a
   JOIN agent_states s ON s.tenant = a.tenant AND s.agent = a.id WHERE a.tenant = $1 AND a.id = $2`,
);

/** Other paths with a change request from this branch with this number: the repository may have had one of them. */
export const pathsOfRequest = statement<
  [tenant: number, integration: string, repo: string, number: number, branch: string],
  { repo: string }
>(
  'paths-of-change-request',
  `SELECT repo FROM change_requests
   WHERE tenant = $1 AND integration = $2 AND repo <> $3 AND number = $4 AND branch = $5 LIMIT 20`,
);

/** Returns the agents with an open change request in it, if its records had the earlier path. */
export const renameRepository = statement<
  [tenant: number, integration: string, from: string, to: string],
  { agent: string }
>(
  'rename-repository',
  `WITH issues AS (
     UPDATE triggered_agents t SET repo = $4 WHERE tenant = $1 AND integration = $2 AND repo = $3
       AND NOT EXISTS (SELECT FROM triggered_agents o WHERE o.tenant = $1 AND o.integration = $2 AND o.repo = $4
         AND o.subject = t.subject AND o.number = t.number)
   ), items AS (
     UPDATE outbox SET data = (data::jsonb || jsonb_build_object('repo', $4::text))::json
     WHERE tenant = $1 AND target = $2 AND next_at IS NOT NULL AND data ->> 'repo' = $3
   ), requests AS (
     UPDATE change_requests c SET repo = $4 WHERE tenant = $1 AND integration = $2 AND repo = $3
       AND NOT EXISTS (SELECT FROM change_requests o WHERE o.tenant = $1 AND o.integration = $2 AND o.repo = $4
         AND o.number = c.number)
     RETURNING agent, state
   )
   SELECT DISTINCT agent FROM requests WHERE state IN ('OPEN', 'DRAFT')`,
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

/** The agent that works on an issue or a change request, and what it was spawned for or told, separated by spaces. */
export const findTriggered = statement<
  Issue,
  Pick<AgentRow, 'id' | 'phase' | 'created_at'> & { delivery: string }
>(
  'find-triggered-agent',
  `SELECT a.id, a.phase, a.created_at, t.delivery FROM triggered_agents t JOIN agents a ON a.tenant = t.tenant AND a.id = t.agent
   WHERE t.tenant = $1 AND t.integration = $2 AND t.repo = $3 AND t.subject = $4 AND t.number = $5`,
);

/** Other paths with an agent for this issue: the repository may have had one of them. */
export const pathsOfTriggered = statement<Issue, { repo: string }>(
  'paths-of-triggered-agent',
  `SELECT repo FROM triggered_agents
   WHERE tenant = $1 AND integration = $2 AND repo <> $3 AND subject = $4 AND number = $5 LIMIT 20`,
);

/** The newest first, up to about sixty: one of an earlier agent of the issue counts too. */
const effects = (newest: string) => `left(${newest} || ' ' || t.delivery, 4000)`;

export const saveTriggered = statement<[...Issue, agent: string, effect: string], never>(
  'save-triggered-agent',
  `INSERT INTO triggered_agents AS t (tenant, integration, repo, subject, number, agent, delivery)
   VALUES ($1, $2, $3, $4, $5, $6, $7)
   ON CONFLICT (tenant, integration, repo, subject, number)
   DO UPDATE SET agent = excluded.agent, delivery = ${effects('excluded.delivery')}`,
);

export const noteTrigger = statement<[...Issue, effect: string], never>(
  'note-trigger',
  `UPDATE triggered_agents t SET delivery = ${effects('$6::text')}
   WHERE t.tenant = $1 AND t.integration = $2 AND t.repo = $3 AND t.subject = $4 AND t.number = $5`,
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

/** The integrations that an agent was triggered by, the newest issue first. */
export const findTriggeredBy = statement<[tenant: number, agent: string], { integration: string }>(
  'find-triggered-by',
  `SELECT integration FROM triggered_agents WHERE tenant = $1 AND agent = $2 GROUP BY integration
   ORDER BY max(number) DESC LIMIT 10`,
);
