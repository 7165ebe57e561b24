import { memo } from 'react';
import { visibleControls } from '../../../parts/model/text.ts';
import type { WordRanges } from '../model/changed-words.ts';
import type { DiffLine } from '../model/diff-lines.ts';
import type { LineColours } from '../model/highlight.ts';
import { partsOf } from '../model/line-text.ts';
import { type Notes, NotesView } from './notes-view.tsx';

/** How a line is shown; one that is near the screen has colours. */
export interface LineLook {
  readonly isMarked: boolean;
  readonly isTabStop: boolean;
  readonly colours: LineColours | undefined;
  readonly words: WordRanges | undefined;
}

interface LineProps extends LineLook {
  readonly line: DiffLine;
  readonly index: number;
  readonly mayComment: boolean;
}

interface UnifiedRowProps extends LineProps {
  readonly notes: Notes | undefined;
  readonly lines: readonly DiffLine[];
}

/** A line with both numbers, and its threads and comments below it. Renders again only when it changes. */
export const UnifiedRow = memo(function UnifiedRow({ notes, lines, ...props }: UnifiedRowProps) {
  return (
    <div className="review-row">
      <Line {...props} numbers="both" />
      {notes && <NotesView notes={notes} lines={lines} />}
    </div>
  );
});

interface SplitRowProps extends Pick<LineProps, 'mayComment'> {
  readonly lines: readonly DiffLine[];
  /** −1: this side has no line here. */
  readonly left: number;
  readonly right: number;
  readonly leftLook: LineLook;
  readonly rightLook: LineLook;
  readonly leftNotes: Notes | undefined;
  readonly rightNotes: Notes | undefined;
}

const isSameLook = (one: LineLook, other: LineLook): boolean =>
  one.isMarked === other.isMarked &&
  one.isTabStop === other.isTabStop &&
  one.colours === other.colours &&
  one.words === other.words;

/** A line before the change beside the one after it. An unchanged line has one button, for its number after the change. */
export const SplitRow = memo(
  function SplitRow({
    lines,
    left,
    right,
    leftLook,
    rightLook,
    leftNotes,
    rightNotes,
    mayComment,
  }: SplitRowProps) {
    const [before, after] = [lines[left], lines[right]];
    return (
      <div className="review-row">
        <div className="review-pair">
          {before ? (
            <Line line={before} index={left} numbers="old" mayComment={mayComment} {...leftLook} />
          ) : (
            <div className="review-line" data-side="none" />
          )}
          {after ? (
            <Line line={after} index={right} numbers="new" mayComment={mayComment} {...rightLook} />
          ) : (
            <div className="review-line" data-side="none" />
          )}
        </div>
        {leftNotes && left !== right && <NotesView notes={leftNotes} lines={lines} />}
        {rightNotes && <NotesView notes={rightNotes} lines={lines} />}
      </div>
    );
  },
  (before, after) =>
    isSameLook(before.leftLook, after.leftLook) &&
    isSameLook(before.rightLook, after.rightLook) &&
    (['lines', 'left', 'right', 'leftNotes', 'rightNotes', 'mayComment'] as const).every(
      (name) => before[name] === after[name],
    ),
);

function Line({
  line,
  index,
  numbers,
  isMarked,
  isTabStop,
  mayComment,
  colours,
  words,
}: LineProps & { readonly numbers: 'both' | 'old' | 'new' }) {
  const { side, oldLine, newLine } = line;
  return (
    <div className="review-line" data-side={side} data-marked={isMarked} data-line={index}>
      <span className="line-numbers">
        {numbers !== 'new' && (
          <LineNumber number={oldLine} isButton={newLine === 0} {...{ line, index, isTabStop, mayComment }} />
        )}
        {numbers !== 'old' && (
          <LineNumber number={newLine} isButton {...{ line, index, isTabStop, mayComment }} />
        )}
      </span>
      <LineText text={line.text.slice(1)} colours={colours} words={words} />
    </div>
  );
}

interface LineNumberProps extends Pick<LineProps, 'line' | 'index' | 'isTabStop' | 'mayComment'> {
  /** 0: the file does not have the line. */
  readonly number: number;
  /** Of an unchanged line, only the number after the change is one. */
  readonly isButton: boolean;
}

function LineNumber({ number, line, index, isButton, isTabStop, mayComment }: LineNumberProps) {
  if (number === 0 || !isButton) return <span className="line-number">{number || ''}</span>;
  const place = line.newLine > 0 ? String(number) : `${number} before the change`;
  return (
    <button
      type="button"
      className="line-number"
      data-index={index}
      tabIndex={isTabStop ? 0 : -1}
      aria-label={`${mayComment ? 'Comment on' : 'Link to'} line ${place}`}
    >
      {number}
    </button>
  );
}

function LineText({
  text,
  colours,
  words,
}: {
  readonly text: string;
  readonly colours: LineColours | undefined;
  readonly words: WordRanges | undefined;
}) {
  if (!colours && !words) return <code>{visibleControls(text)}</code>;
  return (
    <code>
      {partsOf(text, colours, words).map(({ text: part, className, isChanged }, at) => {
        const look = isChanged ? 'changed-word' : className;
        const shown = visibleControls(part);
        return look === '' ? (
          shown
        ) : (
          // biome-ignore lint/suspicious/noArrayIndexKey: a part has no other identity than its index.
          <span key={at} className={look}>
            {shown}
          </span>
        );
      })}
    </code>
  );
}
