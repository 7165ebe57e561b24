import type { Thread } from '@muster/sdk/contract';
import {
  type KeyboardEvent,
  type MouseEvent,
  memo,
  type PointerEvent,
  type ReactNode,
  useMemo,
  useRef,
  useState,
} from 'react';
import { Button } from '../../../parts/button.tsx';
import { visibleControls } from '../../../parts/model/text.ts';
import type { DiffFile } from '../../panels/model/diff-files.ts';
import {
  type DiffLine,
  diffLinesOf,
  indexOfRange,
  isInRange,
  rangeOf,
  shownNumber,
} from '../model/diff-lines.ts';
import { type DraftComment, moveComment, startComment } from '../model/review-draft.ts';
import { isInFile } from '../model/threads.ts';
import { DraftCommentView } from './draft-comment.tsx';
import { ThreadView } from './thread-view.tsx';
import { useReviewContext } from './use-review.ts';

/** A longer file is shown after a click. */
const shownLines = 400;
/** Each numbered line is an element; the rest of a longer file is plain text. */
const numberedLines = 5_000;

/** Threads and draft comments by the index of their line; -1 for those whose lines the diff does not have. */
interface Notes {
  readonly threads: readonly Thread[];
  readonly comments: readonly DraftComment[];
}

function useNotes(file: DiffFile, lines: readonly DiffLine[]): ReadonlyMap<number, Notes> {
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

/** The lines of a file with their threads. A click on a line number starts a comment. */
export function ReviewLines({ file }: { readonly file: DiffFile }) {
  const lines = useMemo(() => (file.text === '' ? [] : diffLinesOf(file.text)), [file.text]);
  const notes = useNotes(file, lines);
  const [isWhole, setWhole] = useState(() => Math.max(...notes.keys()) >= shownLines);
  const isShortened = !isWhole && lines.length > shownLines;
  const shown = useMemo(() => lines.slice(0, isShortened ? shownLines : numberedLines), [lines, isShortened]);
  const apart = notes.get(-1);
  return (
    <div className="diff-file-lines stack">
      {apart && <NotesView notes={apart} lines={lines} isApart />}
      {lines.length === 0 && (
        <p className="secondary">{file.change === 'binary' ? 'Binary file' : 'Content unchanged'}</p>
      )}
      {lines.length > 0 && (
        <NumberedLines file={file} lines={shown} notes={notes}>
          {!isShortened && lines.length > numberedLines && (
            <pre>
              {lines
                .slice(numberedLines)
                .map(({ text }) => visibleControls(text))
                .join('\n')}
            </pre>
          )}
        </NumberedLines>
      )}
      {isShortened && <Button onClick={() => setWhole(true)}>Show all {lines.length} lines</Button>}
    </div>
  );
}

interface NumberedLinesProps {
  readonly file: DiffFile;
  readonly lines: readonly DiffLine[];
  readonly notes: ReadonlyMap<number, Notes>;
  readonly children: ReactNode;
}

function NumberedLines({ file, lines, notes, children }: NumberedLinesProps) {
  const { draft, mayComment } = useReviewContext();
  const selection = useLineSelection(file, lines);
  const open = draft.comments.find(({ id }) => id === draft.editing);
  const marked = selection.range ?? (open && isInFile(open, file) ? open : null);
  return (
    <div
      className="diff-lines review-lines"
      data-selecting={selection.isDragging}
      // The line numbers are buttons, and scroll the lines by keyboard.
      {...(!mayComment && { tabIndex: 0 })}
      {...(mayComment && selection.handlers)}
    >
      <div className="review-rows">
        {lines.map((line, index) => (
          <Row
            // biome-ignore lint/suspicious/noArrayIndexKey: a line has no other identity than its index.
            key={index}
            line={line}
            index={index}
            isMarked={marked !== null && isInRange(line, marked)}
            isTabStop={index === selection.tabStop}
            mayComment={mayComment}
            notes={notes.get(index)}
            lines={lines}
          />
        ))}
        {children}
      </div>
    </div>
  );
}

interface RowProps {
  readonly line: DiffLine;
  readonly index: number;
  readonly isMarked: boolean;
  readonly isTabStop: boolean;
  readonly mayComment: boolean;
  readonly notes: Notes | undefined;
  readonly lines: readonly DiffLine[];
}

/** A line, with its threads and comments below it. Renders again only when it changes: a file has thousands of lines. */
const Row = memo(function Row({ line, index, isMarked, isTabStop, mayComment, notes, lines }: RowProps) {
  const number = shownNumber(line);
  const place = line.side === 'removed' ? `${number} before the change` : String(number);
  return (
    <div className="review-row">
      <div className="review-line" data-side={line.side} data-marked={isMarked}>
        {number > 0 && mayComment ? (
          <button
            type="button"
            className="line-number"
            data-index={index}
            tabIndex={isTabStop ? 0 : -1}
            aria-label={`Comment on line ${place}`}
          >
            {number}
          </button>
        ) : (
          <span className="line-number">{number || ''}</span>
        )}
        <code>{visibleControls(line.text)}</code>
      </div>
      {notes && <NotesView notes={notes} lines={lines} />}
    </div>
  );
});

const isNumber = (target: EventTarget): boolean => (target as Element).closest('.line-number') !== null;

/** The index of the line around an element. */
const indexIn = (target: EventTarget): number | undefined => {
  const found = (target as Element).closest<HTMLElement>('.review-line')?.querySelector('[data-index]');
  return found ? Number(found.getAttribute('data-index')) : undefined;
};

/** The index of the line whose number this is. */
const indexOfNumber = (target: EventTarget): number | undefined =>
  isNumber(target) ? indexIn(target) : undefined;

interface ChosenLines {
  readonly from: number;
  readonly to: number;
}

/**
 * Chooses lines. With the pointer: a click for one line, Shift and a click or a drag over the numbers for several. With the
 * keyboard: arrows move, Shift and arrows choose several, Enter comments.
 */
function useLineSelection(file: DiffFile, lines: readonly DiffLine[]) {
  const { change, opened } = useReviewContext();
  const [chosen, setChosen] = useState<ChosenLines | null>(null);
  const [focused, setFocused] = useState<number | null>(null);
  /** Where a range starts that Shift and a click end. */
  const anchor = useRef<number | null>(null);
  const tabStop = focused ?? lines.findIndex((line) => shownNumber(line) > 0);

  const comment = (from: number, to: number, isSameComment: boolean) => {
    const range = rangeOf(lines, from, to);
    setChosen(null);
    if (!range) return;
    const place = { ...range, repo: file.repo, path: file.path };
    change((draft) => {
      const next = isSameComment ? moveComment(draft, place) : startComment(draft, place);
      opened.current = next.editing;
      return next;
    });
  };

  const onClick = (event: { readonly target: EventTarget; readonly shiftKey: boolean }) => {
    const index = indexOfNumber(event.target);
    if (index === undefined) return;
    if (event.shiftKey && anchor.current !== null) return comment(anchor.current, index, true);
    if (chosen && chosen.from !== chosen.to && chosen.to === index) return comment(chosen.from, index, false);
    anchor.current = index;
    comment(index, index, false);
  };

  const onKeyDown = (event: KeyboardEvent<HTMLElement>) => {
    const at = indexOfNumber(event.target);
    if (at === undefined) return;
    const next = neighbour(lines, at, event.key);
    if (next === undefined) return;
    event.preventDefault();
    setChosen(event.shiftKey ? { from: chosen?.from ?? at, to: next } : null);
    event.currentTarget.querySelector<HTMLElement>(`[data-index="${next}"]`)?.focus();
  };

  const drag = useDrag(chosen, setChosen, ({ from, to }) => {
    anchor.current = from;
    comment(from, to, false);
  });

  const onMouseDown = (event: MouseEvent<HTMLElement>) => {
    // It would select the text up to the number.
    if (event.shiftKey && isNumber(event.target)) event.preventDefault();
  };
  const onFocus = (event: { readonly target: EventTarget }) => {
    const index = indexOfNumber(event.target);
    if (index !== undefined) setFocused(index);
  };

  return {
    tabStop,
    isDragging: drag.isDragging,
    range: chosen && rangeOf(lines, chosen.from, chosen.to),
    handlers: { onClick, onKeyDown, onMouseDown, onFocus, ...drag.handlers },
  };
}

/** A drag of the mouse over the numbers. */
function useDrag(
  chosen: ChosenLines | null,
  setChosen: (chosen: ChosenLines | null) => void,
  onDragged: (chosen: ChosenLines) => void,
) {
  const [isDragging, setDragging] = useState(false);
  const onPointerDown = (event: PointerEvent<HTMLElement>) => {
    // A finger scrolls; Shift extends the range with the click.
    const isMouse = event.pointerType === 'mouse' && event.button === 0 && !event.shiftKey;
    const index = indexOfNumber(event.target);
    if (!isMouse || index === undefined) return;
    setChosen({ from: index, to: index });
    setDragging(true);
    const end = () => {
      setDragging(false);
      setChosen(null);
      removeEventListener('pointerup', end);
      removeEventListener('pointercancel', end);
    };
    addEventListener('pointerup', end);
    addEventListener('pointercancel', end);
  };
  const onPointerOver = (event: PointerEvent<HTMLElement>) => {
    const index = indexIn(event.target);
    if (isDragging && chosen && index !== undefined) setChosen({ ...chosen, to: index });
  };
  const onPointerUp = () => {
    if (!isDragging || !chosen) return;
    // A press and release on the same number is a click.
    if (chosen.from === chosen.to) return setChosen(null);
    onDragged(chosen);
  };
  return { isDragging, handlers: { onPointerDown, onPointerOver, onPointerUp } };
}

/** The line that a key moves the focus to. */
function neighbour(lines: readonly DiffLine[], at: number, key: string): number | undefined {
  const isNumbered = (line: DiffLine) => shownNumber(line) > 0;
  switch (key) {
    case 'ArrowDown': {
      const next = lines.slice(at + 1).findIndex(isNumbered);
      return next === -1 ? undefined : at + 1 + next;
    }
    case 'ArrowUp': {
      const before = lines.slice(0, at).findLastIndex(isNumbered);
      return before === -1 ? undefined : before;
    }
    default:
      return undefined;
  }
}

interface NotesViewProps {
  readonly notes: Notes;
  readonly lines: readonly DiffLine[];
  /** The lines are not in this diff. */
  readonly isApart?: boolean;
}

/** Threads, then comments that are not sent yet. */
const NotesView = ({ notes: { threads, comments }, lines, isApart = false }: NotesViewProps) => (
  <div className="review-notes stack">
    {threads.map((thread) => (
      <ThreadView
        key={thread.threadId}
        thread={thread}
        isApart={isApart}
        isOpenAtFirst={thread.state === 'OPEN'}
      />
    ))}
    {comments.map((comment) => (
      <DraftCommentView key={comment.id} comment={comment} lines={lines} isApart={isApart} />
    ))}
  </div>
);
