import { isThreadTask, limits, type Task, threadPlace } from '@muster/sdk/contract';
import { cutText } from '../lib/cut-text.ts';
import { quoted } from '../lib/quoting/quoted.ts';
import { type ChecklistTask, type FollowUp, isUndelivered } from './agent.ts';
import type { Draft } from './draft.ts';
import { exhausted, notFound, type Refusal } from './refusal.ts';
import type { Comment, Review, Thread, ThreadChange, ThreadPlace } from './thread.ts';

/** Records a change of a thread, and applies it if the thread is loaded. */
export function changeThread(draft: Draft, change: ThreadChange): void {
  draft.threadChanges.push(change);
  noteAnswer(draft, change);
  if (change.type === 'open') {
    draft.setThread(change.thread);
    return;
  }
  const thread = draft.threads.get(change.id);
  if (!thread) return;
  draft.setThread(change.type === 'comment' ? commented(thread, change.comment) : settled(thread, change));
}

/** What a code host does not know yet. */
function noteAnswer({ events, now: at }: Draft, change: ThreadChange): void {
  if (change.type === 'comment' && change.comment.hostId === '') {
    const { id: threadId, comment } = change;
    events.push({ type: 'threadAnswered', threadId, how: 'reply', comment, at });
  }
  if (change.type === 'set' && !change.byHost && (change.isDone || change.state)) {
    const how = change.state === 'OPEN' ? 'reopen' : 'resolve';
    events.push({ type: 'threadAnswered', threadId: change.id, how, comment: null, at });
  }
}

const commented = (thread: Thread, comment: Comment): Thread => ({
  ...thread,
  comments: [...thread.comments, comment],
});

const settled = (thread: Thread, change: Extract<ThreadChange, { type: 'set' }>): Thread => ({
  ...thread,
  state: change.isDone && thread.hostId === '' ? 'RESOLVED' : (change.state ?? thread.state),
  answer: change.answer ?? thread.answer,
  toldBy: change.toldBy ?? thread.toldBy,
});

/** The threads of tasks that are still to be answered: in the checklist, or in messages that are not delivered yet. */
export function toldThreads({ checklist, followUps }: Pick<Draft, 'checklist' | 'followUps'>): Set<string> {
  const undelivered = [...followUps.values()].filter(isUndelivered).flatMap((f) => f.tasks);
  return new Set([...checklist, ...undelivered].filter(isThreadTask).map((task) => task.dedupKey));
}

/**
 * Opens threads and adds comments. Returns the text of the message and a task per thread; null if there is nothing new.
 * Threads and comments of a host that are already recorded are not new.
 */
export function admitReview(
  draft: Draft,
  { threads, tellAgain, taskIds }: Review,
  { followUpId, description }: { readonly followUpId: string; readonly description: string },
  /** The same message was admitted, and removed or cleared since: it has its comments already. */
  wasAdmitted: boolean,
): { readonly tasks: Task[]; readonly description: string } | Refusal | null {
  const told = toldThreads(draft);
  const isRepeated = [...draft.threads.values()].some((thread) => thread.openedBy === followUpId);
  const news = new Set<string>();
  for (const given of threads) {
    const known = draft.threads.get(given.id) ?? threadOfHost(draft, given.place);
    if (!known && !given.place) return notFound(noThread(given.id));
    // The message was removed or cleared and is sent again: its threads exist, under the ids of the first time.
    if (!known && isRepeated) continue;
    const seen = new Set(known?.comments.map((comment) => comment.hostId));
    const isRetold = known !== undefined && (wasAdmitted || known.toldBy === followUpId);
    const comments = given.comments.filter(({ hostId }) => (hostId === '' ? !isRetold : !seen.has(hostId)));
    if (comments.length === 0 && !isRetold) continue;
    const id = known?.id ?? given.id;
    if (!known && given.place) openThread(draft, id, given.place, followUpId);
    for (const comment of comments)
      changeThread(draft, { type: 'comment', id, comment: { at: draft.now, run: null, ...comment } });
    news.add(id);
  }
  if (news.size === 0 && !isRepeated) return null;
  const unanswered = [...draft.threads.values()].filter(
    (thread) =>
      thread.changeRequest === tellAgain &&
      thread.state === 'OPEN' &&
      !news.has(thread.id) &&
      // Also one whose task is gone, however that happened.
      (thread.answer === 'NONE' || (thread.answer === 'PENDING' && !told.has(thread.id))),
  );
  const ids = [...news, ...unanswered.map(({ id }) => id)].slice(0, limits.commentsPerReview);
  if (ids.length === 0) return null;
  for (const id of ids) {
    const isResolved = draft.threads.get(id)?.state === 'RESOLVED';
    // A comment at the host in a thread that is resolved there leaves it resolved there.
    const reopened = isResolved && ({ state: 'OPEN', byHost: Boolean(tellAgain) } as const);
    changeThread(draft, { type: 'set', id, ...reopened, answer: 'PENDING', toldBy: followUpId });
  }
  const refused = refuseSize(draft);
  if (refused) return refused;
  const tellable = ids.flatMap((id) => draft.threads.get(id) ?? []);
  draft.log('THREADS_CHANGED', { followUpId, text: 'told', data: { threadIds: ids } });
  return {
    tasks: tellable.map((thread, i) => taskOf(thread, `${taskIds}-${i + 1}`)),
    description: reviewText(description, tellable),
  };
}

function openThread(draft: Draft, id: string, place: ThreadPlace, followUpId: string): void {
  const thread: Thread = {
    ...place,
    id,
    state: 'OPEN',
    answer: 'NONE',
    openedBy: followUpId,
    toldBy: '',
    createdAt: draft.now,
    comments: [],
  };
  changeThread(draft, { type: 'open', thread });
}

const threadOfHost = ({ threads }: Draft, place: ThreadPlace | undefined): Thread | undefined =>
  place?.hostId
    ? [...threads.values()].find(
        ({ hostId, changeRequest }) => hostId === place.hostId && changeRequest === place.changeRequest,
      )
    : undefined;

function refuseSize({ threads }: Draft): Refusal | null {
  const open = [...threads.values()].filter(({ state }) => state === 'OPEN');
  if (open.length > limits.openThreadsPerAgent)
    return exhausted(`an agent has at most ${limits.openThreadsPerAgent} open review threads; resolve some`);
  const bytes = open
    .flatMap(({ quote, comments }) => [quote, ...comments.map(({ body }) => body)])
    .reduce((sum, text) => sum + Buffer.byteLength(text), 0);
  return bytes > limits.threadBytesPerAgent
    ? exhausted(
        `the open review threads of an agent hold at most ${limits.threadBytesPerAgent} bytes together; resolve some`,
      )
    : null;
}

/** Adds what the agent says to a thread. */
export function answerThread(draft: Draft, id: string, body: string): void {
  const comment: Comment = {
    author: draft.agent.path.join('/'),
    kind: 'AGENT',
    permission: '',
    body,
    at: draft.now,
    url: '',
    hostId: '',
    run: draft.run?.number ?? null,
  };
  changeThread(draft, { type: 'comment', id, comment });
}

export const noThread = (id: string): string => `the agent has no review thread "${id}"`;

/** Discards a message before its delivery. The next review names its threads again. */
export function discardFollowUp(
  draft: Draft,
  followUp: FollowUp,
  to: 'REMOVED' | 'CLEARED',
  entry: Parameters<Draft['moveFollowUp']>[2] = {},
): void {
  draft.moveFollowUp(followUp, to, entry);
  settleThreads(draft, followUp.tasks);
}

/**
 * Settles the threads whose tasks are removed, because their batch has ended or their message will never be delivered.
 * A thread that is also part of a later message stays PENDING.
 */
export function settleThreads(draft: Draft, leaving: readonly ChecklistTask[]): void {
  const byThread = new Map<string, ChecklistTask[]>();
  for (const task of leaving.filter(isThreadTask))
    byThread.set(task.dedupKey, [...(byThread.get(task.dedupKey) ?? []), task]);
  if (byThread.size === 0) return;
  const told = toldThreads(draft);
  const counts = new Map<string, number>();
  for (const [id, tasks] of byThread) {
    const body = answerOf(tasks);
    if (body) answerThread(draft, id, body);
    const status = tasks.at(-1)?.status;
    const answer = body === '' ? 'NONE' : status === 'TASK_STATUS_DELETED' ? 'DECLINED' : 'ANSWERED';
    const how = answer === 'NONE' ? 'unanswered' : answer.toLowerCase();
    counts.set(how, (counts.get(how) ?? 0) + 1);
    if (!told.has(id))
      changeThread(draft, { type: 'set', id, answer, isDone: status === 'TASK_STATUS_COMPLETED' });
  }
  const text = [...counts].map(([how, count]) => `${count} ${how}`).join(', ');
  draft.log('THREADS_CHANGED', { text, data: { threadIds: [...byThread.keys()] } });
}

/** What the agent answered; empty if it did not. A thread has two tasks in a batch if it got a reply in between. */
function answerOf(tasks: readonly ChecklistTask[]): string {
  const notes = new Set(tasks.map(({ note = '' }) => note.trim()).filter(Boolean));
  if (notes.size > 0) return [...notes].join('\n\n');
  const status = tasks.at(-1)?.status;
  if (status === 'TASK_STATUS_COMPLETED') return 'Done.';
  return status === 'TASK_STATUS_DELETED' ? 'Declined.' : '';
}

const subjectLength = 200;
/** What a message says beside the quoted threads, at most: in all, and for each thread. */
const otherBytes = 2048;
const headBytes = 64;

function taskOf(thread: Thread, id: string): Task {
  return {
    id,
    subject: subjectOf(thread),
    description: cut(threadText(thread), limits.taskDescriptionLength),
    status: 'TASK_STATUS_PENDING',
    blocks: [],
    blockedBy: [],
    activation: null,
    persona: '',
    dedupKey: thread.id,
    ephemeral: true,
  };
}

/** `src/login.ts:12 — What if the password …` */
function subjectOf(thread: Thread): string {
  const body = thread.comments.findLast(({ kind }) => kind === 'PERSON')?.body ?? '';
  const words = body.replaceAll(/[\s\p{Cc}]+/gu, ' ').trim();
  const place = threadPlace(thread);
  const shown = place.length > subjectLength / 2 ? `…${place.slice(-subjectLength / 2)}` : place;
  return cut(`${shown} — ${words}`, subjectLength);
}

/** The thread as the agent reads it: the place, then every comment, quoted. */
function threadText(thread: Thread): string {
  const { repo, side, quote, url, comments } = thread;
  const head = [
    `${threadPlace(thread)}${side === 'OLD' ? ', before your change' : ''}${repo ? ` in ${repo}` : ''}`,
    ...(url ? [url] : []),
    ...(quote ? ['The commented lines:', quoted(quote)] : []),
  ];
  return [...head, ...comments.map(commentText)].join('\n');
}

const commentText = ({ author, kind, permission, at, body }: Comment): string =>
  `${author} (${kind === 'AGENT' ? 'agent' : permission || 'person'}), ${at}:\n${quoted(body)}`;

/** The text of the message. Long threads are cut to leave room for the others; the tasks have the whole text. */
function reviewText(description: string, threads: readonly Thread[]): string {
  const roomBytes = limits.descriptionBytes - Buffer.byteLength(description) - otherBytes;
  const mostBytes = Math.max(0, Math.floor(roomBytes / threads.length) - headBytes);
  const textOf = (thread: Thread): string => {
    const { text, truncated } = cutText(threadText(thread), mostBytes);
    return truncated ? `${text} […]` : text;
  };
  return [
    ...(description ? [description] : []),
    `Review: ${threads.length === 1 ? 'one comment' : `${threads.length} comments`} on your changes. Your checklist has a task for each.`,
    'Answer each of them: complete its task with a note that says what you changed, or, if you decide against it, delete the task with a note that says why. `reply_to_thread` answers without completing the task, for example to ask back. Lines that begin with ">" quote people and code.',
    ...threads.map((thread, i) => `${i + 1}. Thread ${thread.id}: ${textOf(thread)}`),
  ].join('\n\n');
}

/** The beginning of a text, without half of a character at its end. */
const cut = (text: string, length: number): string =>
  text.length <= length ? text : `${text.slice(0, length - 1).replace(/[\ud800-\udbff]$/, '')}…`;
