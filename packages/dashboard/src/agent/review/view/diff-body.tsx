import {
  type CSSProperties,
  type ReactNode,
  startTransition,
  useEffect,
  useMemo,
  useRef,
  useState,
} from 'react';
import { Button } from '../../../parts/button.tsx';
import { visibleControls } from '../../../parts/model/text.ts';
import type { DiffFile } from '../../panels/model/diff-files.ts';
import { type DiffLine, isInRange } from '../model/diff-lines.ts';
import {
  type DiffRow,
  type FoldRow,
  type Lines,
  rowsOf,
  unfolded,
  unfoldedLines,
} from '../model/diff-rows.ts';
import { languageOf } from '../model/highlight.ts';
import { isInFile } from '../model/threads.ts';
import { type LineLook, SplitRow, UnifiedRow } from './diff-row.tsx';
import { highlight, useHighlights } from './highlighter.ts';
import { useLineSelection } from './line-selection.ts';
import { type Notes, NotesView, useNotes } from './notes-view.tsx';
import { useReviewContext } from './use-review.ts';

/** Rows that appear together. */
const blockRows = 20;
/** Of a longer file, only lines that come near the screen appear. */
const eagerLines = 4_000;
/** Each numbered line is an element; the rest of a longer file is plain text. */
const numberedLines = 10_000;

interface DiffBodyProps {
  readonly file: DiffFile;
  readonly lines: readonly DiffLine[];
  readonly isSplit: boolean;
  readonly isWrapped: boolean;
  /** A line that must be there, because the page goes to it; −1 for none. */
  readonly wanted: number;
  readonly onChoose: (index: number) => void;
}

/** The lines of a file with their threads. A click on a line number starts a comment. */
export function DiffBody({ file, lines, ...props }: DiffBodyProps) {
  const numbered = useMemo(
    () => (lines.length > numberedLines ? lines.slice(0, numberedLines) : lines),
    [lines],
  );
  if (lines.length === 0)
    return <p className="secondary">{file.change === 'binary' ? 'Binary file' : 'Content unchanged'}</p>;
  return (
    <NumberedLines file={file} lines={numbered} {...props}>
      {lines.length > numberedLines && (
        <pre>
          {lines
            .slice(numberedLines)
            .map(({ text }) => visibleControls(text))
            .join('\n')}
        </pre>
      )}
    </NumberedLines>
  );
}

function useRows(lines: readonly DiffLine[], isSplit: boolean, noted: readonly number[]) {
  const [opened, setOpened] = useState<{
    readonly of: readonly DiffLine[];
    readonly ranges: readonly Lines[];
  }>({
    of: lines,
    ranges: [],
  });
  const ranges = opened.of === lines ? opened.ranges : noLines;
  const key = noted.join();
  // biome-ignore lint/correctness/useExhaustiveDependencies: `key` has what is in `noted`, which is another list each time.
  const rows = useMemo(
    () => rowsOf(lines, { isSplit, noted, opened: ranges }),
    [lines, isSplit, key, ranges],
  );
  return { rows, open: (range: Lines) => setOpened({ of: lines, ranges: [...ranges, range] }) };
}

const noLines: readonly Lines[] = [];

/** How each line is shown now: whether it is chosen, and its colours as far as they are known. */
function useLooks(
  file: DiffFile,
  lines: readonly DiffLine[],
  { range, tabStop }: Pick<ReturnType<typeof useLineSelection>, 'range' | 'tabStop'>,
) {
  const { draft } = useReviewContext();
  const { colours, words, isDone } = useHighlights(lines);
  const open = draft.comments.find(({ id }) => id === draft.editing);
  const marked = range ?? (open && isInFile(open, file) ? open : null);
  const lookOf = (index: number): LineLook => {
    const line = lines[index];
    return {
      isMarked: marked !== null && line !== undefined && isInRange(line, marked),
      isTabStop: index === tabStop,
      colours: colours[index],
      words: words.get(index),
    };
  };
  return { lookOf, isDone };
}

function NumberedLines({
  file,
  lines,
  isSplit,
  isWrapped,
  wanted,
  onChoose,
  children,
}: DiffBodyProps & { readonly children: ReactNode }) {
  const { mayComment } = useReviewContext();
  const notes = useNotes(file, lines);
  const selection = useLineSelection(file, lines, onChoose);
  const { rows, open } = useRows(lines, isSplit, [...notes.keys(), wanted]);
  const { lookOf, isDone } = useLooks(file, lines, selection);
  const longest = useMemo(() => lines.reduce((most, { text }) => Math.max(most, text.length), 0), [lines]);
  const blocks = useMemo(() => inBlocks(rows), [rows]);
  const apart = notes.get(-1);
  return (
    <>
      {apart && <NotesView notes={apart} lines={lines} isApart />}
      <div
        className="diff-lines review-lines"
        data-selecting={selection.isDragging}
        data-wrapped={isWrapped}
        data-split={isSplit}
        {...selection.handlers}
      >
        <div className="review-rows" style={{ '--columns': longest } as CSSProperties}>
          {blocks.map((block, at) => (
            <Block
              // biome-ignore lint/suspicious/noArrayIndexKey: a block has no other identity than its index.
              key={at}
              rows={block.length}
              isWanted={block.some((row) => hasLine(row, wanted))}
              // Later, rows would be drawn twice: without and with colours.
              isEager={isDone && lines.length <= eagerLines}
              onNear={() => highlight(lines, languageOf(file.path))}
            >
              {() => block.map((row) => drawRow(row, { lines, notes, mayComment, lookOf, open }))}
            </Block>
          ))}
          {children}
        </div>
      </div>
    </>
  );
}

interface RowContext {
  readonly lines: readonly DiffLine[];
  readonly notes: ReadonlyMap<number, Notes>;
  readonly mayComment: boolean;
  readonly lookOf: (index: number) => LineLook;
  readonly open: (range: Lines) => void;
}

function drawRow(row: DiffRow, { lines, notes, mayComment, lookOf, open }: RowContext): ReactNode {
  switch (row.kind) {
    case 'hunk':
      return <HunkRow key={row.line} line={lines[row.line] as DiffLine} />;
    case 'fold':
      return <Fold key={`${row.from} fold`} fold={row} lines={lines} onOpen={open} />;
    case 'line':
      return (
        <UnifiedRow
          key={row.line}
          line={lines[row.line] as DiffLine}
          index={row.line}
          notes={notes.get(row.line)}
          {...{ lines, mayComment, ...lookOf(row.line) }}
        />
      );
    case 'pair':
      return (
        <SplitRow
          key={`${row.left} ${row.right}`}
          {...{ lines, mayComment, left: row.left, right: row.right }}
          leftLook={lookOf(row.left)}
          rightLook={lookOf(row.right)}
          leftNotes={notes.get(row.left)}
          rightNotes={notes.get(row.right)}
        />
      );
  }
}

function inBlocks(rows: readonly DiffRow[]): readonly (readonly DiffRow[])[] {
  const blocks: (readonly DiffRow[])[] = [];
  for (let at = 0; at < rows.length; at += blockRows) blocks.push(rows.slice(at, at + blockRows));
  return blocks;
}

function hasLine(row: DiffRow, index: number): boolean {
  if (row.kind === 'pair') return row.left === index || row.right === index;
  return row.kind === 'line' && row.line === index;
}

interface BlockProps {
  readonly rows: number;
  readonly isWanted: boolean;
  /** Whether it may appear before it is near. */
  readonly isEager: boolean;
  readonly onNear: () => void;
  readonly children: () => ReactNode;
}

/**
 * Rows appear when they come near the screen, and the others as soon as the browser is idle, so that a search of the
 * browser finds them and scrolling has nothing to wait for. The browser lays out only what is near.
 */
function Block({ rows, isWanted, isEager, onNear, children }: BlockProps) {
  const element = useRef<HTMLDivElement>(null);
  const near = useRef(onNear);
  near.current = onNear;
  const [wasNear, setNear] = useState(false);
  useEffect(() => {
    if (!element.current) return;
    const observer = new IntersectionObserver(
      ([entry]) => {
        if (!entry?.isIntersecting) return;
        near.current();
        startTransition(() => setNear(true));
        observer.disconnect();
      },
      { root: element.current.closest('.review-scroll'), rootMargin: '2400px 0px' },
    );
    observer.observe(element.current);
    return () => observer.disconnect();
  }, []);
  useEffect(() => (isEager ? whenIdle(() => startTransition(() => setNear(true))) : undefined), [isEager]);
  const isPresent = wasNear || isWanted;
  return (
    <div
      ref={element}
      className="review-block"
      data-present={isPresent}
      style={{ '--rows': rows } as CSSProperties}
    >
      {isPresent && children()}
    </div>
  );
}

/** Safari has no idle callbacks. */
function whenIdle(act: () => void): () => void {
  if (typeof requestIdleCallback === 'function') {
    const handle = requestIdleCallback(act);
    return () => cancelIdleCallback(handle);
  }
  const timer = setTimeout(act, 500);
  return () => clearTimeout(timer);
}

const HunkRow = ({ line: { text } }: { readonly line: DiffLine }) => (
  <div className="review-row">
    <div className="review-line" data-side="hunk">
      <code>{visibleControls(text)}</code>
    </div>
  </div>
);

/** Unchanged lines, and buttons that show some of them. */
function Fold({
  fold,
  lines,
  onOpen,
}: {
  readonly fold: FoldRow;
  readonly lines: readonly DiffLine[];
  readonly onOpen: (range: Lines) => void;
}) {
  const { from, to, hunk, isAfterLine, isBeforeLine } = fold;
  const count = to - from;
  const isLong = count > unfoldedLines;
  const heading = lines[hunk]?.text.replace(/^@@.*?@@ ?/, '') ?? '';
  return (
    <div className="review-row review-fold wrap">
      {isLong && isAfterLine && (
        <Button look="quiet" onClick={() => onOpen(unfolded(fold, 'first'))}>
          ↓ {unfoldedLines} more
        </Button>
      )}
      {isLong && isBeforeLine && (
        <Button look="quiet" onClick={() => onOpen(unfolded(fold, 'last'))}>
          ↑ {unfoldedLines} more
        </Button>
      )}
      <Button look="quiet" onClick={() => onOpen(fold)}>
        {isLong ? `Show all ${count} lines` : `Show ${count} lines`}
      </Button>
      <code>{visibleControls(heading)}</code>
    </div>
  );
}
