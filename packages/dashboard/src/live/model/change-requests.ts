import type { ChangeRequest } from '@muster/sdk';
import { plural } from '../../parts/model/text.ts';
import type { Tone } from '../../parts/model/tone.ts';

export const isOpen = ({ state }: Pick<ChangeRequest, 'state'>): boolean =>
  state === 'OPEN' || state === 'DRAFT';

type Text = readonly [text: string, tone: Tone];

const stateTexts: Readonly<Record<ChangeRequest['state'], Text>> = {
  OPEN: ['open', 'good'],
  DRAFT: ['draft', 'quiet'],
  MERGED: ['merged', 'special'],
  CLOSED: ['closed', 'bad'],
};
export const stateText = ({ state }: ChangeRequest): Text => stateTexts[state];

/** A change request without checks is not one whose checks pass. */
export function checksText({ checks: { state, failing } }: Pick<ChangeRequest, 'checks'>): Text {
  switch (state) {
    case 'NONE':
      return ['no checks', 'quiet'];
    case 'PENDING':
      return ['checks pending', 'busy'];
    case 'PASSING':
      return ['checks passing', 'good'];
    case 'FAILING':
      return [failing.length === 0 ? 'checks failing' : `${plural(failing.length, 'check')} failing`, 'bad'];
  }
}

const reviewTexts: Readonly<Record<ChangeRequest['review']['state'], Text>> = {
  NONE: ['no review', 'quiet'],
  COMMENTED: ['commented', 'quiet'],
  CHANGES_REQUESTED: ['changes requested', 'warning'],
  APPROVED: ['approved', 'good'],
};
export const reviewText = ({ review }: ChangeRequest): Text => reviewTexts[review.state];

/** `threads on lines: 1 open, 2 resolved`, `3 rounds`. */
export function countTexts({ review, rounds }: Pick<ChangeRequest, 'review' | 'rounds'>): string[] {
  const { openThreads, resolvedThreads } = review;
  const threads = [
    openThreads > 0 && `${openThreads} open`,
    resolvedThreads > 0 && `${resolvedThreads} resolved`,
  ];
  const shown = threads.filter(Boolean).join(', ');
  return [shown && `threads on lines: ${shown}`, rounds > 0 && plural(rounds, 'round')].filter(
    (text): text is string => Boolean(text),
  );
}

/** Whether checks of an open change request fail. */
export const hasFailingChecks = (requests: readonly ChangeRequest[]): boolean =>
  requests.some((request) => isOpen(request) && request.checks.state === 'FAILING');
