import { plainText, type Thread } from '@muster/sdk/contract';

export type ThreadMark = 'resolved' | 'pending' | 'answered' | 'declined' | 'unanswered';

const answerMarks = {
  NONE: 'unanswered',
  PENDING: 'pending',
  ANSWERED: 'answered',
  DECLINED: 'declined',
} as const satisfies Record<Thread['answer'], ThreadMark>;

export const markOf = ({ state, answer }: Thread): ThreadMark =>
  state === 'RESOLVED' ? 'resolved' : answerMarks[answer];

export const markTexts: Readonly<Record<ThreadMark, string>> = {
  resolved: 'Resolved',
  pending: 'Pending',
  answered: 'Answered',
  declined: 'Declined',
  unanswered: 'Unanswered',
};

export const markHints: Readonly<Record<ThreadMark, string>> = {
  resolved: 'Nothing is left to do.',
  pending: 'The agent has the comment and has not answered yet.',
  answered: 'The agent answered. Reply, or resolve the thread.',
  declined: 'The agent declined to change this, with a reason.',
  unanswered: 'The agent has not answered. The next review repeats the comment.',
};

/** `2 open, 1 resolved`. */
export function countsText(threads: readonly Thread[]): string {
  const open = threads.filter(({ state }) => state === 'OPEN').length;
  const counts = [open > 0 && `${open} open`, threads.length > open && `${threads.length - open} resolved`];
  return counts.filter(Boolean).join(', ');
}

const excerptLength = 300;

/** `ada: Use the helper.` */
export function excerptOf({ comments }: Thread): string {
  const [first] = comments;
  return first ? `${first.author}: ${plainText(first.body, excerptLength)}` : '';
}

/** A thread names its repository always; a diff of one repository does not. */
export const isInFile = (
  place: { readonly repo: string; readonly path: string },
  file: { readonly repo: string; readonly path: string; readonly oldPath: string },
): boolean =>
  (place.path === file.path || (file.oldPath !== '' && place.path === file.oldPath)) &&
  (file.repo === '' || place.repo === '' || place.repo === file.repo);
