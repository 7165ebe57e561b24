import type { Thread } from '@muster/sdk/contract';
import { useMemo } from 'react';
import { useSearchParams } from 'wouter';
import type { DiffFile } from '../../panels/model/diff-files.ts';
import { type DiffLine, indexOfRange } from '../model/diff-lines.ts';
import type { DraftComment } from '../model/review-draft.ts';
import { isInFile } from '../model/threads.ts';
import { DraftCommentView } from './draft-comment.tsx';
import { ThreadView } from './thread-view.tsx';
import { useReviewContext } from './use-review.ts';

export interface Notes {
  readonly threads: readonly Thread[];
  readonly comments: readonly DraftComment[];
}

/** Threads and draft comments by the index of their line; −1 for those whose lines the diff does not have. */
export function useNotes(file: DiffFile, lines: readonly DiffLine[]): ReadonlyMap<number, Notes> {
  const { threads, draft } = useReviewContext();
  return useMemo(() => {
    const notes = new Map<number, { threads: Thread[]; comments: DraftComment[] }>();
    const at = (index: number) => {
      const known = notes.get(index) ?? { threads: [], comments: [] };
      notes.set(index, known);
      return known;
    };
    for (const thread of threads)
      if (isInFile(thread, file)) at(indexOfRange(lines, thread)).threads.push(thread);
    for (const comment of draft.comments)
      if (isInFile(comment, file)) at(indexOfRange(lines, comment)).comments.push(comment);
    return notes;
  }, [threads, draft.comments, file, lines]);
}

interface NotesViewProps {
  readonly notes: Notes;
  readonly lines: readonly DiffLine[];
  /** The lines are not in this diff. */
  readonly isApart?: boolean;
}

/** Threads, then comments that are not sent yet. */
export function NotesView({ notes: { threads, comments }, lines, isApart = false }: NotesViewProps) {
  const [parameters] = useSearchParams();
  const linked = parameters.get('thread');
  return (
    <div className="review-notes stack">
      {threads.map((thread) => (
        <ThreadView
          key={thread.threadId}
          thread={thread}
          isApart={isApart}
          isOpenAtFirst={thread.state === 'OPEN' || thread.threadId === linked}
        />
      ))}
      {comments.map((comment) => (
        <DraftCommentView key={comment.id} comment={comment} lines={lines} isApart={isApart} />
      ))}
    </div>
  );
}
