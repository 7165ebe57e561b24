import type { ChangeRequest } from '@muster/sdk/contract';
import { digestOf } from '../lib/token.ts';
import type { ChangeRequestRow } from '../store/statements/change-requests.ts';
import { hasMarker } from '../work/markers.ts';
import type {
  HostChangeRequest,
  HostCheck,
  HostComment,
  HostReview,
  HostThread,
  Permission,
  Person,
} from './host.ts';

/** What the host says about a change request now. */
export interface HostState {
  readonly request: HostChangeRequest;
  readonly threads: readonly HostThread[];
  readonly reviews: readonly HostReview[];
  readonly checks: readonly HostCheck[];
  /** The integration's own account. */
  readonly self: Person;
  /** What the agent pushed last; null if that is not known. */
  readonly tip: string | null;
  /** Somebody else pushed to the branch of the agent, which does not know that. */
  readonly isPushed: boolean;
}

/** A thread with comments that the agent has not seen, or that it has not answered. */
export interface NewsThread {
  readonly thread: HostThread;
  readonly comments: readonly HostComment[];
}

export const checksOf = (
  checks: readonly HostCheck[],
  ignore: readonly string[],
): ChangeRequest['checks'] => {
  const counted = checks.filter(({ name, state }) => state !== 'SKIPPED' && !ignore.includes(name));
  const failing = counted.filter(({ state }) => state === 'FAILED').map(({ name }) => name);
  const isPending = counted.some(({ state }) => state === 'PENDING');
  const state =
    counted.length === 0 ? 'NONE' : isPending ? 'PENDING' : failing.length > 0 ? 'FAILING' : 'PASSING';
  return { state, failing: failing.slice(0, 100) };
};

/** By the newest verdict of each person; one that asks for changes outweighs approvals. */
export function reviewOf(
  threads: readonly HostThread[],
  reviews: readonly HostReview[],
): ChangeRequest['review'] {
  const verdicts = new Map<string, HostReview['verdict']>();
  const ordered = [...reviews].sort((a, b) => (a.submittedAt < b.submittedAt ? -1 : 1));
  for (const { author, verdict } of ordered) {
    // A comment after a verdict does not take it back.
    if (verdict !== 'COMMENTED' || !verdicts.has(author.id)) verdicts.set(author.id, verdict);
  }
  const all = [...verdicts.values()];
  const state =
    (['CHANGES_REQUESTED', 'APPROVED', 'COMMENTED'] as const).find((verdict) => all.includes(verdict)) ??
    'NONE';
  const onLines = threads.filter(({ path }) => path !== '');
  const resolvedThreads = onLines.filter(({ isResolved }) => isResolved).length;
  return { state, openThreads: onLines.length - resolvedThreads, resolvedThreads };
}

/**
 * Comments that are not in the ledger, without those of the integration itself: these have a known id, or its account
 * and a marker. A comment in which another person has copied a marker is new.
 */
export function unknownComments(
  threads: readonly HostThread[],
  known: ReadonlySet<string>,
  self: Person,
): NewsThread[] {
  const isOwn = ({ author, body }: HostComment) => author.id === self.id && hasMarker(body);
  return threads
    .map((thread) => ({
      thread,
      comments: thread.comments.filter(
        (comment) => !known.has(comment.id) && !isOwn(comment) && comment.body.trim() !== '',
      ),
    }))
    .filter(({ comments }) => comments.length > 0);
}

/** The threads, with the comments of authorized people. */
export const heard = (news: readonly NewsThread[], isHeard: (author: Person) => boolean): NewsThread[] =>
  news
    .map(({ thread, comments }) => ({ thread, comments: comments.filter(({ author }) => isHeard(author)) }))
    .filter(({ comments }) => comments.length > 0);

/** The news that fit into one message, in their order; the others come with the next message. */
export function beginningOf(
  news: readonly NewsThread[],
  most: { readonly threads: number; readonly bytes: number },
): NewsThread[] {
  let left = most.bytes;
  return news
    .slice(0, most.threads)
    .map(({ thread, comments }) => ({
      thread,
      comments: comments.filter(({ body }) => {
        left -= Math.min(Buffer.byteLength(body), toldCommentBytes);
        return left >= 0;
      }),
    }))
    .filter(({ comments }) => comments.length > 0);
}

/** The agent reads the beginning of a longer comment. */
export const toldCommentBytes = 16 * 1024;

export const authorsOf = (news: readonly NewsThread[]): Person[] => [
  ...new Map(news.flatMap(({ comments }) => comments.map(({ author }) => [author.id, author]))).values(),
];

/** Whether all comments were submitted with reviews: then nothing more is to be expected at this moment. */
export const areSubmitted = (news: readonly NewsThread[]): boolean =>
  news.every(({ comments }) => comments.every(({ reviewId }) => reviewId !== ''));

/** Whether the checks of this head have failed for good, and the agent does not know. */
const hasFailedChecks = (row: ChangeRequestRow, { request }: HostState, checks: ChangeRequest['checks']) =>
  checks.state === 'FAILING' && row.told.checksSha !== request.headSha;

const hasNewConflict = (row: ChangeRequestRow, { request }: HostState): boolean =>
  request.hasConflict === true && row.told.conflictSha !== request.headSha;

/** Whether the host does not know yet if there is a conflict. Of a draft some hosts never say it. */
export const isComputing = ({ state, hasConflict }: HostChangeRequest): boolean =>
  state === 'OPEN' && hasConflict === null;

/** Whether the head is a commit of somebody else. `tip` is what the agent pushed last; null if that is not known. */
export const isPushedByOthers = (
  { told }: ChangeRequestRow,
  { headSha }: HostChangeRequest,
  tip: string | null,
): boolean => tip !== null && headSha !== tip && told.knownSha !== undefined && headSha !== told.knownSha;

export type HeardThread = NewsThread & { readonly permissionOf: ReadonlyMap<string, Permission> };
export type ReviewNews = {
  readonly type: 'review';
  readonly digest: string;
  readonly threads: readonly HeardThread[];
};
export type News =
  | ReviewNews
  | { readonly type: 'checks'; readonly digest: string; readonly checks: HostState['checks'] }
  | { readonly type: 'pushed'; readonly digest: string }
  | { readonly type: 'conflict'; readonly digest: string };

/** The next message to the agent. */
export function whatIsNew(
  row: ChangeRequestRow,
  state: HostState,
  threads: readonly HeardThread[],
  settings: { readonly report: boolean; readonly ignore: readonly string[] },
  checks: ReturnType<typeof checksOf>,
): News | { readonly type: 'nothing' } {
  const { headSha } = state.request;
  if (threads.length > 0) {
    const ids = threads.flatMap(({ comments }) => comments.map(({ id }) => id)).sort();
    return { type: 'review', digest: digestOf(ids), threads };
  }
  if (settings.report && hasFailedChecks(row, state, checks)) {
    const failed = state.checks.filter(
      ({ name, state: result }) => result === 'FAILED' && !settings.ignore.includes(name),
    );
    const names = state.checks.map(({ name, state: result }) => `${name} ${result}`).sort();
    return { type: 'checks', digest: digestOf([headSha, names]), checks: failed };
  }
  if (state.isPushed) return { type: 'pushed', digest: headSha };
  return hasNewConflict(row, state) ? { type: 'conflict', digest: headSha } : { type: 'nothing' };
}
