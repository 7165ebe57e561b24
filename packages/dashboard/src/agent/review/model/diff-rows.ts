import type { DiffLine } from './diff-lines.ts';

/** Lines by their index in the diff. A range ends before its end. */
export interface Lines {
  readonly from: number;
  readonly to: number;
}

/** What is shown in one row: a line, two lines beside each other, or what is folded. */
export type DiffRow =
  | { readonly kind: 'line'; readonly line: number }
  /** −1 on the side without a line. An unchanged line is on both sides. */
  | { readonly kind: 'pair'; readonly left: number; readonly right: number }
  | FoldRow
  | { readonly kind: 'hunk'; readonly line: number };

/** Unchanged lines that are not shown. */
export interface FoldRow extends Lines {
  readonly kind: 'fold';
  /** The header of the hunk that begins with these lines; −1 if they are within a hunk. */
  readonly hunk: number;
  /** Whether a line is shown above in the same hunk, and below. */
  readonly isAfterLine: boolean;
  readonly isBeforeLine: boolean;
}

/** Unchanged lines that are shown around a change. */
const contextLines = 3;
/** Fewer lines than these are not worth a fold. */
const leastFolded = 2;
/** How many lines a fold shows at a time. */
export const unfoldedLines = 20;

export interface RowOptions {
  readonly isSplit: boolean;
  /** Lines with threads or comments: they are shown with those around them. */
  readonly noted: Iterable<number>;
  /** What the person has unfolded. */
  readonly opened: readonly Lines[];
}

export function rowsOf(
  lines: readonly DiffLine[],
  { isSplit, noted, opened }: RowOptions,
): readonly DiffRow[] {
  const isShown = shownLines(lines, noted, opened);
  const rows: DiffRow[] = [];
  for (let at = 0; at < lines.length; ) {
    const { side } = lines[at] as DiffLine;
    if (side === 'hunk') {
      const isFolded = isHeader(lines, at) && at + 1 < lines.length && !isShown[at + 1];
      if (!isFolded) rows.push({ kind: 'hunk', line: at });
      at += 1;
    } else if (!isShown[at]) {
      const fold = foldFrom(lines, isShown, at);
      rows.push(fold);
      at = fold.to;
    } else if (isSplit && side !== 'same') {
      at = pushPairs(rows, lines, at);
    } else {
      rows.push(isSplit ? { kind: 'pair', left: at, right: at } : { kind: 'line', line: at });
      at += 1;
    }
  }
  return rows;
}

const isHeader = (lines: readonly DiffLine[], at: number): boolean =>
  lines[at]?.text.startsWith('@@') === true;

function shownLines(
  lines: readonly DiffLine[],
  noted: Iterable<number>,
  opened: readonly Lines[],
): Uint8Array {
  const shown = new Uint8Array(lines.length);
  const show = ({ from, to }: Lines) => shown.fill(1, Math.max(0, from), Math.max(0, to));
  for (const [at, { side }] of lines.entries())
    if (side === 'added' || side === 'removed') show({ from: at - contextLines, to: at + contextLines + 1 });
  for (const at of noted) if (at >= 0) show({ from: at - contextLines, to: at + contextLines + 1 });
  for (const range of opened) show(range);
  // A header ends the context of the hunk before it; a short rest is shown.
  for (let at = 0; at < lines.length; ) {
    let end = at;
    while (end < lines.length && !shown[end] && lines[end]?.side === 'same') end++;
    if (end > at && end - at < leastFolded) show({ from: at, to: end });
    at = Math.max(end, at + 1);
  }
  return shown;
}

function foldFrom(lines: readonly DiffLine[], isShown: Uint8Array, from: number): FoldRow {
  let to = from;
  while (to < lines.length && !isShown[to] && lines[to]?.side !== 'hunk') to++;
  const hunk = isHeader(lines, from - 1) ? from - 1 : -1;
  return { kind: 'fold', from, to, hunk, isAfterLine: hunk === -1, isBeforeLine: isLineAt(lines, to) };
}

const isLineAt = (lines: readonly DiffLine[], at: number): boolean =>
  at < lines.length && lines[at]?.side !== 'hunk';

/** Removed lines beside the added ones that replace them. Returns the index after them. */
function pushPairs(rows: DiffRow[], lines: readonly DiffLine[], start: number): number {
  let added = start;
  while (lines[added]?.side === 'removed') added++;
  let end = added;
  while (lines[end]?.side === 'added') end++;
  const count = Math.max(added - start, end - added);
  for (let at = 0; at < count; at++)
    rows.push({
      kind: 'pair',
      left: start + at < added ? start + at : -1,
      right: added + at < end ? added + at : -1,
    });
  return end;
}

/** The part of a fold that a button shows. */
export function unfolded({ from, to }: Lines, part: 'first' | 'last' | 'all'): Lines {
  if (part === 'all') return { from, to };
  return part === 'first'
    ? { from, to: Math.min(to, from + unfoldedLines) }
    : { from: Math.max(from, to - unfoldedLines), to };
}

/** Where each change begins: lines that are beside each other are one change. */
export const changesIn = (lines: readonly DiffLine[]): readonly number[] =>
  lines.flatMap(({ side }, at) => {
    const isChange = side === 'added' || side === 'removed';
    const before = lines[at - 1]?.side;
    return isChange && before !== 'added' && before !== 'removed' ? [at] : [];
  });
