import type { JsonReader } from '../../work/json-reader.ts';
import { hunkOf, pullRequestOf } from '../github-events.ts';
import type { HostChangeRequest, HostComment, HostReview, HostThread, Person } from '../host.ts';

/** The account `ghost` owns what deleted accounts wrote. */
const ghost: Person = { id: '-1', login: 'ghost' };

export const personOf = (user: JsonReader | null): Person =>
  user === null ? ghost : { id: String(user.number('id')), login: user.text('login') };

/** How long the host may take to find out whether there is a conflict; until then it says that there may be one. */
const conflictCheckMs = 60_000;

export function changeRequestOf(pull: JsonReader): HostChangeRequest {
  const state = stateOf(pull);
  return pullRequestOf(pull, {
    state,
    author: personOf(pull.find('user')),
    isFork: pull.object('head').number('repo_id') !== pull.object('base').number('repo_id'),
    hasConflict: state === 'OPEN' ? conflictOf(pull) : null,
  });
}

function stateOf(pull: JsonReader): HostChangeRequest['state'] {
  if (pull.flag('merged')) return 'MERGED';
  if (pull.text('state') === 'closed') return 'CLOSED';
  return pull.flag('draft') ? 'DRAFT' : 'OPEN';
}

/** A draft is never mergeable, nor is one that is being checked. */
function conflictOf(pull: JsonReader): boolean | null {
  if (pull.flag('mergeable')) return false;
  return Date.now() - Date.parse(pull.text('updated_at')) < conflictCheckMs ? null : true;
}

const verdicts: Readonly<Record<string, HostReview['verdict']>> = {
  APPROVED: 'APPROVED',
  REQUEST_CHANGES: 'CHANGES_REQUESTED',
  COMMENT: 'COMMENTED',
};

export interface FoundReview {
  readonly review: HostReview;
  /** What was written about the change request as a whole; null if nothing was. */
  readonly text: HostThread | null;
  readonly hasComments: boolean;
}

/** Null for a review that was only asked for, or is not submitted yet. */
export function reviewOf(found: JsonReader): FoundReview | null {
  const verdict = verdicts[found.text('state')];
  if (verdict === undefined) return null;
  const id = String(found.number('id'));
  const author = personOf(found.find('user'));
  const submittedAt = found.text('submitted_at');
  const body = found.textOrEmpty('body');
  const comment: HostComment = {
    ...{ id: `review-${id}`, author, body, url: found.url('html_url') },
    ...{ createdAt: submittedAt, updatedAt: found.textOrEmpty('updated_at') || submittedAt, reviewId: id },
  };
  return {
    review: { id, author, verdict: found.flag('dismissed') ? 'COMMENTED' : verdict, submittedAt },
    text: body.trim() === '' ? null : conversationThread(comment),
    hasComments: (found.numberOrNull('comments_count') ?? 1) > 0,
  };
}

export const commentOf = (comment: JsonReader): HostComment => ({
  id: String(comment.number('id')),
  author: personOf(comment.find('user')),
  body: comment.textOrEmpty('body'),
  url: comment.url('html_url'),
  createdAt: comment.text('created_at'),
  updatedAt: comment.text('updated_at'),
  reviewId: String(comment.numberOrNull('pull_request_review_id') ?? ''),
});

export const conversationThread = (comment: HostComment): HostThread => ({
  ...{ id: comment.id, path: '', line: null, startLine: null, side: 'NEW' },
  ...{ isResolved: false, canResolve: false, comments: [comment] },
});

export interface LineComment {
  readonly comment: HostComment;
  readonly path: string;
  readonly line: number;
  readonly side: HostThread['side'];
  readonly isResolved: boolean;
}

/** The number of a line is `position` in the new version, or `original_position` in the old one; the other one is 0. */
export function lineCommentOf(found: JsonReader): LineComment {
  const oldLine = found.numberOrNull('original_position') ?? 0;
  const newLine = found.numberOrNull('position') ?? 0;
  return {
    comment: { ...commentOf(found), ...hunkOf(found) },
    path: found.text('path'),
    line: newLine || oldLine,
    side: newLine === 0 && oldLine > 0 ? 'OLD' : 'NEW',
    isResolved: found.find('resolver') !== null,
  };
}

/**
 * The host has no threads. It shows the comments of one review on one line together, and a reply belongs to the same
 * review as the comment that it answers. The id of a thread is that of its first comment.
 */
export function threadsOf(comments: readonly LineComment[], canResolve: boolean): HostThread[] {
  const groups = new Map<string, LineComment[]>();
  for (const item of [...comments].sort((a, b) => Number(a.comment.id) - Number(b.comment.id))) {
    const key = JSON.stringify([item.comment.reviewId, item.path, item.side, item.line]);
    const known = groups.get(key);
    if (known) known.push(item);
    else groups.set(key, [item]);
  }
  return [...groups.values()].flatMap((group) => {
    const [first] = group;
    if (!first) return [];
    return {
      ...{
        id: first.comment.id,
        path: first.path,
        line: first.line || null,
        startLine: null,
        side: first.side,
      },
      isResolved: group.some(({ isResolved }) => isResolved),
      canResolve,
      comments: group.map(({ comment }) => comment),
    };
  });
}
