import type { HostChangeRequest, HostReview } from '../host.ts';
import type { JsonReader } from '../json-reader.ts';
import { personOf } from './rest.ts';

export function changeRequestOf(pull: JsonReader): HostChangeRequest {
  const head = pull.object('head');
  const base = pull.object('base');
  const baseRepo = base.object('repo');
  // The repository of the head is null once a fork was deleted.
  const isFork = head.find('repo')?.number('id') !== baseRepo.number('id');
  const state = stateOf(pull);
  return {
    repo: baseRepo.text('full_name'),
    number: pull.number('number'),
    url: pull.text('html_url'),
    title: pull.text('title'),
    state,
    author: personOf(pull.find('user')),
    branch: isFork ? '' : head.text('ref'),
    base: base.text('ref'),
    headSha: head.text('sha'),
    isFork,
    hasConflict: state === 'OPEN' || state === 'DRAFT' ? conflictOf(pull) : null,
    updatedAt: pull.text('updated_at'),
  };
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
