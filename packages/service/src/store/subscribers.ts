import { type PhaseReason, providerName } from '@muster/sdk/contract';
import type { AgentState } from '../domain/agent.ts';
import type { DomainEvent } from '../domain/events.ts';
import type { AgentChange } from '../domain/loaded-agents.ts';
import type { Comment } from '../domain/thread.ts';
import { type Connection, statement } from './connection.ts';
import { recordAudit } from './statements/audit.ts';
import { insertEvents, insertEventsOf, type NewEvent, resumed } from './statements/events.ts';
import { agentKey, namesOf, rowsOf } from './tables.ts';

/** Makes a row of each event that concerns it, and writes those of a batch with one statement. */
interface Subscriber {
  /** `place` is that of the row among those of the batch. */
  readonly rowOf: (event: DomainEvent, after: AgentState, place: number) => object | null;
  readonly write: (connection: Connection, rows: string) => Promise<unknown>;
}

/** Two agents may push the same branch: the last one has it. */
const upsertBranches = statement<[rows: string], never>(
  'upsert-pushed-branches',
  `INSERT INTO pushed_branches (tenant, agent, repo, branch, is_new)
   SELECT DISTINCT ON (n.tenant, n.repo, n.branch) n.tenant, n.agent, n.repo, n.branch, true
   FROM ${rowsOf({ ...agentKey, repo: 'text', branch: 'text', place: 'int' })}
   ORDER BY n.tenant, n.repo, n.branch, n.place DESC
   ON CONFLICT (tenant, repo, branch) DO UPDATE SET agent = excluded.agent, is_new = true`,
);

const considerBranches = statement<[rows: string], never>(
  'consider-pushed-branches',
  `UPDATE pushed_branches t SET is_new = false, next_at = now()
   FROM ${rowsOf(agentKey)} WHERE t.tenant = n.tenant AND t.agent = n.agent AND t.is_new`,
);

const postColumns = {
  ...agentKey,
  thread: 'uuid',
  kind: 'text',
  body: 'text',
  round: 'text',
  at: 'timestamptz',
  place: 'int',
} as const;

/** Only threads that are on a code host, by the node that sends the outbox. */
const insertPosts = statement<[rows: string], never>(
  'insert-thread-posts',
  `INSERT INTO outbox (tenant, topic, target, lane, kind, agent, data, key, state, attempts, error, posted_id,
     created_at, next_at)
   SELECT n.tenant, 'codehost', c.integration, c.name, n.kind, n.agent,
     json_build_object('repo', c.repo, 'number', c.number, 'threadId', t.host_id, 'body', n.body),
     n.kind || '/' || t.id || '/' || n.round, 'QUEUED', 0, '', '', n.at, n.at
   FROM ${rowsOf(postColumns)}
   JOIN threads t ON t.tenant = n.tenant AND t.agent = n.agent AND t.id = n.thread AND t.host_id <> ''
   JOIN change_requests c ON c.tenant = t.tenant AND c.name = t.change_request
   ORDER BY n.place ON CONFLICT (tenant, key) DO NOTHING`,
);

const waitColumns = { ...agentKey, key: 'text', need: 'float8', since: 'timestamptz', place: 'int' } as const;

/** Without a key, the agent does not wait any more. */
const upsertWaits = statement<[rows: string], never>(
  'upsert-budget-waits',
  `WITH n AS MATERIALIZED (
     SELECT DISTINCT ON (n.tenant, n.agent) ${namesOf(waitColumns, 'n')} FROM ${rowsOf(waitColumns)} ORDER BY n.tenant, n.agent, n.place DESC
   ), ended AS (
     DELETE FROM budget_waits w USING n WHERE w.tenant = n.tenant AND w.agent = n.agent AND n.key IS NULL
   )
   INSERT INTO budget_waits (tenant, agent, key, need, since)
   SELECT n.tenant, n.agent, n.key, n.need, n.since FROM n WHERE n.key IS NOT NULL
   ON CONFLICT (tenant, agent) DO UPDATE SET key = excluded.key, need = excluded.need, since = excluded.since`,
);

const noticeColumns = {
  tenant: 'int',
  type: 'text',
  key: 'text',
  name: 'text',
  starts_at: 'timestamptz',
  text: 'text',
} as const;

/** The workspace and the account are those that the budget is for. */
const insertNotices = statement<[rows: string], never>(
  'insert-budget-notices',
  `WITH told AS (
     INSERT INTO budget_notices AS b (tenant, key, type, starts_at)
     SELECT n.tenant, n.key, n.type, min(n.starts_at) FROM ${rowsOf(noticeColumns)}
     GROUP BY n.tenant, n.key, n.type ORDER BY n.tenant, n.key, n.type
     ON CONFLICT (tenant, key, type) DO UPDATE SET starts_at = excluded.starts_at WHERE b.starts_at <> excluded.starts_at
     RETURNING tenant, key, type
   )
   ${insertEventsOf(`(
     SELECT DISTINCT ON (t.tenant, t.key, t.type) t.tenant, t.type, CASE WHEN t.key LIKE 'agent/%' THEN substr(t.key, 7)::uuid END AS agent,
       r.document ->> 'workspace' AS workspace, r.document ->> 'account' AS account, NULL::timestamptz AS at,
       json_build_object('name', n.name, 'text', n.text) AS data
     FROM told t JOIN ${rowsOf(noticeColumns)} ON n.tenant = t.tenant AND n.key = t.key AND n.type = t.type
     LEFT JOIN resources r ON r.tenant = t.tenant AND r.kind = 'budget' AND 'budget/' || r.name = t.key
   ) n`)}`,
);

/** The phases that people may want to be notified of, by their reason. */
const eventOf: Readonly<Partial<Record<PhaseReason, NewEvent['type']>>> = {
  QUESTION: 'agent.needs_input',
  BLOCKED: 'agent.blocked',
  BUDGET: 'agent.budget',
  FINISHED: 'agent.completed',
  ERROR: 'agent.failed',
  RESTING: 'agent.idle',
  TASKS_UNFINISHED: 'agent.idle',
};

const needsSomebody: ReadonlySet<PhaseReason> = new Set(['QUESTION', 'BLOCKED', 'BUDGET']);

/** A child that is idle concerns its parent, which gets to know it. */
function eventRow(event: DomainEvent, { agent }: AgentState, place: number): object | null {
  const { tenant, id, phase, reason, since: at } = agent;
  if (event.type !== 'phaseChanged' || event.reason !== reason) return null;
  const type = eventOf[reason] ?? (needsSomebody.has(event.fromReason) ? resumed : undefined);
  return !type || (type === 'agent.idle' && agent.parent !== null)
    ? null
    : { tenant, type, agent: id, at, data: { phase, reason }, place };
}

/** What follows from what happened to agents, in the order in which it is written. */
const subscribers: readonly Subscriber[] = [
  {
    rowOf: (event, { agent: { tenant, id: agent } }, place) =>
      event.type === 'branchPushed' ? { tenant, agent, repo: event.repo, branch: event.branch, place } : null,
    write: upsertBranches,
  },
  {
    // A change request may be opened for what the run has pushed.
    rowOf: (event, { agent: { tenant, id: agent, result } }) =>
      event.type === 'runEnded' && result.branch !== '' ? { tenant, agent } : null,
    write: considerBranches,
  },
  {
    rowOf: (event, { agent: { tenant, id: agent, since } }, place) => {
      if (event.type === 'waitsForBudget')
        return { tenant, agent, key: event.key, need: event.needUsd, since, place };
      const hasLeft =
        event.type === 'phaseChanged' && event.fromReason === 'BUDGET' && event.reason !== 'BUDGET';
      return hasLeft ? { tenant, agent, place } : null;
    },
    write: upsertWaits,
  },
  {
    rowOf: (event, { agent: { tenant, id: agent, sequence } }, place) =>
      event.type === 'threadAnswered'
        ? {
            ...{ tenant, agent, thread: event.threadId, kind: event.how, at: event.at, place },
            body: event.comment ? postedText(event.comment) : '',
            round: `${sequence}-${place}`,
          }
        : null,
    write: insertPosts,
  },
  { rowOf: eventRow, write: insertEvents },
  {
    rowOf: (event, { agent: { tenant } }) =>
      event.type === 'budgetNoticed'
        ? {
            tenant,
            type: event.event,
            key: event.key,
            name: event.name,
            starts_at: event.startsAt,
            text: event.text,
          }
        : null,
    write: insertNotices,
  },
  {
    rowOf: (event, { agent }) =>
      event.type === 'killedByOther'
        ? {
            tenant: agent.tenant,
            actor: event.by.name,
            keyId: event.by.keyId,
            ...{ kind: 'agent', action: 'KILL' },
            name: agent.path.join('/'),
            details: {
              account: `${providerName(agent.ownerProvider)}/${agent.account}`,
              workspace: agent.workspace,
              agent: agent.id,
            },
          }
        : null,
    write: (connection, rows) => recordAudit(connection, JSON.parse(rows)),
  },
];

/** At the host, every comment has the integration as its author. */
const postedText = ({ kind, author, body }: Comment): string =>
  kind === 'AGENT' ? body : `${author} wrote in Muster:\n\n${body}`;

/** Writes what follows from the events of a batch, after the changes themselves, in the same transaction. */
export function saveEvents(connection: Connection, changes: readonly AgentChange[]): Promise<unknown>[] {
  const eventful = changes.filter(({ events }) => events.length > 0);
  if (eventful.length === 0) return [];
  return subscribers.flatMap(({ rowOf, write }) => {
    const rows: object[] = [];
    for (const { events, after } of eventful)
      for (const event of events) {
        const row = rowOf(event, after, rows.length);
        if (row) rows.push(row);
      }
    return rows.length > 0 ? [write(connection, JSON.stringify(rows))] : [];
  });
}
