import type { ThreadAnswer, ThreadSide, ThreadState } from '@muster/sdk/contract';

/**
 * Review threads. People comment on places in an agent's changes; a follow-up tells the agent, with an ephemeral task per
 * thread whose `dedupKey` is the id of the thread.
 *
 *   NONE ──told──▶ PENDING ──▶ ANSWERED   the task was completed, or has a note
 *    ▲                │   └──▶ DECLINED   the task was deleted
 *    └────────────────┘  the batch ended without an answer, or the message was removed
 *
 * An answer counts when the batch has ended for good, so a batch that is retried answers once. A new
 * comment is sent to the agent again. Only commands that change threads load them; the end of a batch does not, and names them by their tasks.
 */
export interface ThreadPlace {
  readonly repo: string;
  /** Empty for the whole change. */
  readonly path: string;
  /** The last line; 0 for the whole file. */
  readonly line: number;
  readonly startLine: number;
  readonly side: ThreadSide;
  /** The commented lines. */
  readonly quote: string;
  /** The name of a change-request record, and the id and address of the thread on its host; empty without a host. */
  readonly changeRequest: string;
  readonly hostId: string;
  readonly url: string;
}

export interface Thread extends ThreadPlace {
  readonly id: string;
  readonly state: ThreadState;
  readonly answer: ThreadAnswer;
  /** The follow-up that opened it, and the one that last told the agent about it. */
  readonly openedBy: string;
  readonly toldBy: string;
  readonly createdAt: string;
  /** Oldest first. Those of resolved threads are loaded without their texts. */
  readonly comments: readonly Comment[];
}

export interface Comment {
  readonly author: string;
  readonly kind: 'PERSON' | 'AGENT';
  /** The role of the author, or the permission on the host. */
  readonly permission: string;
  readonly body: string;
  readonly at: string;
  readonly url: string;
  readonly hostId: string;
  /** Of an agent's own answer. */
  readonly run: number | null;
}

/** Comments of people on one thread: one that they open, or one that exists. */
export interface ThreadComments {
  readonly id: string;
  /** Absent: the thread exists. */
  readonly place?: ThreadPlace;
  readonly comments: readonly (Omit<Comment, 'at' | 'run'> & { readonly at?: string })[];
}

/** What a follow-up tells about threads. */
export interface Review {
  readonly threads: readonly ThreadComments[];
  /** The follow-up also tells threads of this change request that the agent left unanswered; empty: those without one. */
  readonly tellAgain?: string;
  /** The ids of its tasks begin with this. */
  readonly taskIds: string;
}

/** What is written about a thread. */
export type ThreadChange =
  | { readonly type: 'open'; readonly thread: Thread }
  | { readonly type: 'comment'; readonly id: string; readonly comment: Comment }
  | {
      readonly type: 'set';
      readonly id: string;
      readonly state?: ThreadState | undefined;
      readonly answer?: ThreadAnswer | undefined;
      readonly toldBy?: string | undefined;
      /** Resolves it unless it is on a code host, where that takes a request. */
      readonly isDone?: boolean;
      /** The code host says so: nothing is posted there. */
      readonly byHost?: boolean;
    };
