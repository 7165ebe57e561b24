import type { AgentChange } from '../domain/loaded-agents.ts';
import type { Comment, Thread, ThreadChange } from '../domain/thread.ts';
import { type Connection, statement } from './connection.ts';
import {
  changingThreadColumns,
  insertInto,
  namesOf,
  rowsOf,
  threadColumns,
  threadCommentColumns,
} from './tables.ts';

type Save = [rows: string];

const insertThreads = statement<Save, never>('insert-threads', insertInto('threads', threadColumns));

/** A thread on a code host is resolved there first. */
const updateThreads = statement<Save, never>(
  'update-threads',
  `UPDATE threads t
   SET state = CASE WHEN n.is_done AND t.host_id = '' THEN 'RESOLVED' ELSE coalesce(n.state, t.state) END,
     answer = coalesce(n.answer, t.answer), told_by = coalesce(n.told_by, t.told_by)
   FROM ${rowsOf(changingThreadColumns)} WHERE t.tenant = n.tenant AND t.agent = n.agent AND t.id = n.id`,
);

/** A caller may have given a task the key of a thread that does not exist: then there is nothing to answer. */
const insertComments = statement<Save, never>(
  'insert-thread-comments',
  `INSERT INTO thread_comments (${namesOf(threadCommentColumns)}, number)
   SELECT ${namesOf(threadCommentColumns, 'n')}, coalesce((
     SELECT max(c.number) FROM thread_comments c
     WHERE c.tenant = n.tenant AND c.agent = n.agent AND c.thread = n.thread
   ), 0) + row_number() OVER (PARTITION BY n.tenant, n.agent, n.thread ORDER BY n.place)
   FROM ${rowsOf({ ...threadCommentColumns, place: 'int' })}
   JOIN threads t ON t.tenant = n.tenant AND t.agent = n.agent AND t.id = n.thread`,
);

type Settled = Extract<ThreadChange, { type: 'set' }>;

/** Writes what a batch changed about review threads, in the order in which rows refer to each other. */
export function saveThreads(connection: Connection, changes: readonly AgentChange[]): Promise<unknown>[] {
  const opened: object[] = [];
  const comments: object[] = [];
  const settled = new Map<string, Settled & { tenant: number; agent: string }>();
  for (const { after, threadChanges } of changes) {
    const { tenant, id: agent } = after.agent;
    for (const change of threadChanges) {
      if (change.type === 'open') opened.push({ tenant, agent, ...threadRow(change.thread) });
      else if (change.type === 'comment')
        comments.push({
          tenant,
          agent,
          thread: change.id,
          place: comments.length,
          ...commentRow(change.comment),
        });
      else settled.set(change.id, { ...merged(settled.get(change.id), change), tenant, agent });
    }
  }
  const updated = [...settled.values()].map(({ tenant, agent, id, state, answer, toldBy, isDone }) => ({
    tenant,
    agent,
    id,
    state,
    answer,
    told_by: toldBy,
    is_done: isDone ?? false,
  }));
  return [
    ...(opened.length > 0 ? [insertThreads(connection, JSON.stringify(opened))] : []),
    ...(updated.length > 0 ? [updateThreads(connection, JSON.stringify(updated))] : []),
    ...(comments.length > 0 ? [insertComments(connection, JSON.stringify(comments))] : []),
  ];
}

/** Two changes of one thread in one batch: what the later one leaves out stays. */
const merged = (earlier: Settled | undefined, later: Settled): Settled => ({
  type: 'set',
  id: later.id,
  state: later.state ?? earlier?.state,
  answer: later.answer ?? earlier?.answer,
  toldBy: later.toldBy ?? earlier?.toldBy,
  isDone: later.isDone ?? (later.state === undefined && earlier?.isDone === true),
});

const threadRow = (thread: Thread) => ({
  id: thread.id,
  repo: thread.repo,
  path: thread.path,
  line: thread.line,
  start_line: thread.startLine,
  side: thread.side,
  quote: thread.quote,
  state: thread.state,
  answer: thread.answer,
  change_request: thread.changeRequest,
  host_id: thread.hostId,
  url: thread.url,
  opened_by: thread.openedBy,
  told_by: thread.toldBy,
  created_at: thread.createdAt,
});

const commentRow = ({ author, kind, permission, body, at, url, hostId, run }: Comment) => ({
  author,
  kind,
  permission,
  body,
  at,
  url,
  host_id: hostId,
  run,
});
