import type { Identity } from '../../domain/agent.ts';
import { agentColumns, loadedAgentFields } from '../agent-columns.ts';
import type { Part, Wanted, WantedState } from '../agent-store.ts';
import { statement } from '../connection.ts';
import { loadedFollowUpFields } from '../follow-up-columns.ts';
import { listText } from '../list-text.ts';
import type { AgentBriefRow, LoadedAgentRow } from '../rows.ts';
import { loadedRunFields } from '../run-columns.ts';
import { namesOf } from '../tables.ts';
import { budgetsPart } from './budgets.ts';
import { childResponseLength, isBelow } from './shared-sql.ts';

/** The parameters $1 to $6 of a statement that looks for agents by identity or by id. */
export type WantedParameters = [
  tenants: string,
  providers: string,
  accounts: string,
  paths: string,
  workspaces: string,
  ids: string,
];

/** As lists in text form: nearly every request looks for agents. */
export function wantedParameters(wanted: readonly Wanted[]): WantedParameters {
  const ofIdentity = (itemOf: (identity: Identity) => string): string =>
    listText(wanted, (w) => ('identity' in w ? itemOf(w.identity) : null));
  return [
    listText(wanted, (w) => ('identity' in w ? w.identity.tenant : w.key.tenant)),
    ofIdentity((i) => i.ownerProvider),
    ofIdentity((i) => i.account),
    ofIdentity((i) => i.path.join('/')),
    ofIdentity((i) => i.workspace),
    listText(wanted, (w) => ('key' in w ? w.key.id : null)),
  ];
}

/** A FROM clause: `q.n` numbers the wanted agents from 1, `a` has these columns of what was found for each. */
export const wantedAgents = (columns: string): string =>
  `unnest($1::int[], $2::text[], $3::text[], $4::text[], $5::text[], $6::uuid[])
     WITH ORDINALITY AS q (tenant, provider, account, path, workspace, id, n)
   CROSS JOIN LATERAL (
     SELECT ${columns} FROM agents a
     WHERE q.id IS NULL AND a.tenant = q.tenant AND a.path = q.path AND a.owner_provider = q.provider
       AND a.account = q.account AND (q.workspace = '' OR a.workspace = q.workspace) AND a.current
     UNION ALL
     SELECT ${columns} FROM agents a WHERE a.tenant = q.tenant AND a.id = q.id
   ) a`;

/** Locks the agents of `wanted` that no other node holds. */
const lockWanted = `locked AS MATERIALIZED (
     SELECT a.id FROM wanted w
     CROSS JOIN LATERAL (
       SELECT a.id FROM agents a WHERE a.tenant = w.tenant AND a.id = w.id FOR UPDATE SKIP LOCKED
     ) a
   )`;

export interface LockedRow {
  /** Which of the wanted it answers, counted from 0. */
  wanted: number;
  tenant: number;
  id: string;
  parent: string | null;
  root: string;
  /** False: another node holds it right now. */
  locked: boolean;
}

/**
 * Finds agents by identity (an empty workspace matches any) or by id, and locks those that no other node holds.
 * It never waits for a lock, so no two nodes can deadlock: commands on locked agents go into the next batch.
 */
export const lockAgents = statement<WantedParameters, LockedRow>(
  'lock-agents',
  `WITH wanted AS MATERIALIZED (
     SELECT q.n, a.tenant, a.id, a.parent, a.root
     FROM ${wantedAgents('a.tenant, a.id, a.parent, a.root')}
   ), ${lockWanted}
   SELECT w.n::int - 1 AS wanted, w.tenant, w.id, w.parent, w.root, w.id = ANY (ARRAY(SELECT id FROM locked)) AS locked
   FROM wanted w`,
);

/** Locks every live descendant of an agent; its root is locked already, so none can be added meanwhile. */
export const lockTree = statement<
  [tenant: number, root: string, id: string],
  { tenant: number; id: string; locked: boolean }
>(
  'lock-tree',
  `WITH wanted AS MATERIALIZED (
     SELECT a.tenant, a.id FROM agents a
     WHERE a.tenant = $1 AND a.root = $2 AND a.parent IS NOT NULL AND a.is_live AND ${isBelow('a', '$3')}
   ), ${lockWanted}
   SELECT w.tenant, w.id, w.id = ANY (ARRAY(SELECT id FROM locked)) AS locked FROM wanted w`,
);

const partParameter = (wanted: readonly WantedState[], part: Part): string =>
  listText(wanted, ({ parts }) => parts.has(part));

export const stateParameters = (wanted: readonly WantedState[]): StateParameters => [
  ...wantedParameters(wanted.map(({ want }) => want)),
  partParameter(wanted, 'queue'),
  partParameter(wanted, 'checklist'),
  partParameter(wanted, 'children'),
  partParameter(wanted, 'policies'),
  partParameter(wanted, 'budgets'),
];

type StateParameters = [
  ...WantedParameters,
  withQueue: string,
  withChecklist: string,
  withChildren: string,
  withPolicies: string,
  withBudgets: string,
];

/**
 * Agents with their newest run and those parts that are wanted, read after their rows are locked so that all are of one
 * moment. The run is not looked for by the agent's count: a count that is wrong must not hide a run that holds a slot.
 * Each row comes as JSON: nearly every command reads one, and separate columns take a node twice as long to read.
 */
export const loadAgents = statement<StateParameters, { loaded: LoadedAgentRow }>(
  'load-agents',
  `SELECT row_to_json(l) AS loaded FROM (SELECT
     (SELECT row_to_json(r) FROM (SELECT ${loadedAgentFields}, s.settings, s.memory, s.result, s.labels) r) AS agent,
     left(s.response, ${childResponseLength}) AS response,
     (SELECT row_to_json(r) FROM (
       SELECT ${loadedRunFields} FROM runs r
       WHERE r.tenant = a.tenant AND r.agent = a.id ORDER BY r.number DESC LIMIT 1
     ) r) AS run,
     CASE WHEN a.home IS NOT NULL THEN (
       SELECT 'deferral' = ANY (h.capabilities) FROM runners h
       WHERE h.name = a.home AND h.tenant IN (0, a.tenant) AND h.pool = a.pool ORDER BY h.lease_until DESC LIMIT 1
     ) END AS home_deferral,
     CASE WHEN ($7::boolean[])[q.n] THEN (SELECT coalesce(json_agg(f), '[]') FROM (
       SELECT ${loadedFollowUpFields} FROM follow_ups f
       WHERE f.tenant = a.tenant AND f.agent = a.id AND f.state IN ('QUEUED', 'DEFERRED')
     ) f) END AS queue,
     CASE WHEN ($8::boolean[])[q.n] THEN coalesce(
       (SELECT c.tasks FROM checklists c WHERE c.tenant = a.tenant AND c.agent = a.id), '[]'
     ) END AS checklist,
     CASE WHEN ($9::boolean[])[q.n] THEN (SELECT coalesce(json_agg(c), '[]') FROM (
       SELECT c.id, c.path, c.phase, c.reason, c.since, t.memory ->> 'question' AS question,
         left(t.response, ${childResponseLength}) AS response, coalesce(t.result -> 'error' ->> 'message', '') AS error
       FROM agents c JOIN agent_states t ON t.tenant = c.tenant AND t.agent = c.id
       WHERE c.tenant = a.tenant AND c.parent = a.id AND c.current
       ORDER BY c.id
     ) c) END AS children,
     CASE WHEN ($10::boolean[])[q.n] THEN (SELECT coalesce(json_agg(p), '[]') FROM (
       SELECT n.name, r.document
       FROM (
         SELECT 'default' AS name
         UNION SELECT w.document ->> 'policy' FROM resources w
         WHERE w.tenant = a.tenant AND w.kind = 'workspace' AND w.name = a.workspace
       ) n
       LEFT JOIN resources r ON r.tenant = a.tenant AND r.kind = 'policy' AND r.name = n.name
       WHERE r.document IS NOT NULL OR n.name NOT IN ('default', '')
     ) p) END AS policies,
     CASE WHEN ($11::boolean[])[q.n] THEN ${budgetsPart} END AS budgets
   FROM ${wantedAgents(namesOf(agentColumns, 'a'))}
   JOIN agent_states s ON s.tenant = a.tenant AND s.agent = a.id) l`,
);

/** The number of live agents below each of these. */
export const countLiveDescendants = statement<
  [tenants: number[], roots: string[], ids: string[]],
  { id: string; live: number }
>(
  'count-live-descendants',
  `SELECT q.id, (
     SELECT count(*)::int FROM agents a
     WHERE a.tenant = q.tenant AND a.root = q.root AND a.parent IS NOT NULL AND a.is_live AND ${isBelow('a', 'q.id')}
   ) AS live
   FROM unnest($1::int[], $2::uuid[], $3::uuid[]) AS q (tenant, root, id)`,
);

/** What agents were asked when they were spawned. */
export const readBriefs = statement<
  [tenants: number[], agents: string[]],
  { agent: string; traceparent: string | null } & Pick<AgentBriefRow, 'description' | 'expected_output'>
>(
  'read-briefs',
  `SELECT b.agent, b.description, b.expected_output, b.traceparent
   FROM unnest($1::int[], $2::uuid[]) AS q (tenant, agent)
   JOIN agent_briefs b ON b.tenant = q.tenant AND b.agent = q.agent`,
);
