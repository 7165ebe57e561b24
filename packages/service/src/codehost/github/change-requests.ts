import type { JsonReader } from '../../work/json-reader.ts';
import { pullRequestOf } from '../github-events.ts';
import type { HostChangeRequest, HostReview } from '../host.ts';
import { personOf } from './rest.ts';

export function changeRequestOf(pull: JsonReader): HostChangeRequest {
  const state = stateOf(pull);
  return pullRequestOf(pull, {
    state,
    author: personOf(pull.find('user')),
    // The repository of the head is null once a fork was deleted.
    isFork:
      pull.object('head').find('repo')?.number('id') !== pull.object('base').object('repo').number('id'),
    hasConflict: state === 'OPEN' || state === 'DRAFT' ? conflictOf(pull) : null,
  });
}

function stateOf(pull: JsonReader): HostChangeRequest['state'] {
  if (pull.textOrEmpty('merged_at') !== '') return 'MERGED';
  if (pull.text('state') === 'closed') return 'CLOSED';
  return pull.flag('draft') ? 'DRAFT' : 'OPEN';
}

/** Lists do not have it. */
function conflictOf(pull: JsonReader): boolean | null {
  const isMergeable = pull.flagOrNull('mergeable');
  return isMergeable === null ? null : !isMergeable;
}

const verdicts: Readonly<Record<string, HostReview['verdict']>> = {
  APPROVED: 'APPROVED',
  CHANGES_REQUESTED: 'CHANGES_REQUESTED',
};

/** Null for a review that is not submitted yet, which only its author sees. A dismissed one counts as a comment. */
export function reviewOf(review: JsonReader): HostReview | null {
  const state = review.text('state').toUpperCase();
  if (state === 'PENDING') return null;
  return {
    id: String(review.number('id')),
    author: personOf(review.find('user')),
    verdict: verdicts[state] ?? 'COMMENTED',
    submittedAt: review.text('submitted_at'),
  };
}
