import type { ThreadState } from '@muster/sdk/contract';
import { isLive } from '../agent.ts';
import { type Decide, type Done, decided, unchanged } from '../decision.ts';
import { Draft } from '../draft.ts';
import { fenced, notFound } from '../refusal.ts';
import { answerThread, changeThread, noThread, toldThreads } from '../review.ts';
import { setNote } from './tasks.ts';

export interface ResolveThread {
  readonly type: 'resolveThread';
  readonly threadId: string;
  readonly state: ThreadState;
  /** The code host says so. */
  readonly byHost?: boolean;
}

/** Resolves a thread or opens it again, also of an agent that has ended. The agent gets no message about it. */
export const resolveThread: Decide<ResolveThread, Done> = (loaded, command, state) => {
  const { threadId: id, state: to, byHost = false } = command;
  const thread = state.threads?.get(id);
  if (!thread) return notFound(noThread(id));
  if (thread.state === to) return unchanged({});
  const draft = Draft.of(state, loaded.now);
  changeThread(draft, { type: 'set', id, state: to, byHost });
  draft.log('THREADS_CHANGED', { text: to.toLowerCase(), data: { threadIds: [id] } });
  return decided(loaded, {}, [draft]);
};

export interface AnswerThread {
  readonly type: 'answerThread';
  readonly runId: number;
  readonly threadId: string;
  readonly body: string;
}

/**
 * The live run answers a thread. If its batch has the task of the thread, the answer is the note of the task, which
 * counts when the batch has ended; otherwise it is added now.
 */
export const answer: Decide<AnswerThread, Done> = (loaded, { runId, threadId, body }, state) => {
  const { run, agent, checklist } = state;
  if (!isLive(run) || run.number !== runId)
    return fenced(`run ${runId} is not the current run of ${agent.path.join('/')}`);
  const draft = Draft.of(state, loaded.now);
  const task = checklist.findLast(({ ephemeral, dedupKey }) => ephemeral && dedupKey === threadId);
  if (task) {
    if (task.note === body) return unchanged({});
    const refused = setNote(draft, task, body);
    return refused ?? decided(loaded, {}, [draft]);
  }
  const thread = state.threads?.get(threadId);
  if (!thread) return notFound(noThread(threadId));
  const last = thread.comments.at(-1);
  // A repeated request.
  if (last?.run === runId && last.body === body) return unchanged({});
  answerThread(draft, threadId, body);
  if (!toldThreads(draft).has(threadId))
    changeThread(draft, { type: 'set', id: threadId, answer: 'ANSWERED' });
  draft.log('THREADS_CHANGED', { text: '1 answered', data: { threadIds: [threadId] } });
  return decided(loaded, {}, [draft]);
};
