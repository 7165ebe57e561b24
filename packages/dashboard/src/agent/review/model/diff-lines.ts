import { limits, type Thread, type ThreadSide } from '@muster/sdk/contract';

/** One line of a hunk, with its sign, and its numbers in both files: 0 in the file that does not have it. */
export interface DiffLine {
  readonly text: string;
  readonly side: 'added' | 'removed' | 'same' | 'hunk';
  readonly oldLine: number;
  readonly newLine: number;
}

/** The lines of a file's hunks. */
export function diffLinesOf(hunks: string): readonly DiffLine[] {
  let before = 0;
  let after = 0;
  return hunks.split('\n').map((text): DiffLine => {
    const header = /^@@ -(\d+)(?:,\d+)? \+(\d+)/.exec(text);
    if (header) {
      before = Number(header[1]);
      after = Number(header[2]);
    }
    // A line that starts with a backslash says that the file does not end with a newline.
    if (header || text.startsWith('@@') || text.startsWith('\\'))
      return { text, side: 'hunk', oldLine: 0, newLine: 0 };
    if (text.startsWith('+')) return { text, side: 'added', oldLine: 0, newLine: after++ };
    if (text.startsWith('-')) return { text, side: 'removed', oldLine: before++, newLine: 0 };
    return { text, side: 'same', oldLine: before++, newLine: after++ };
  });
}

/** Commented lines: their file, before or after the change, and their numbers in it. */
export interface LineRange {
  readonly side: ThreadSide;
  readonly startLine: number;
  readonly line: number;
  /** The lines as they are, for the agent and to find them again in a newer diff. */
  readonly quote: string;
}

export const numberIn = ({ oldLine, newLine }: DiffLine, side: ThreadSide): number =>
  side === 'OLD' ? oldLine : newLine;

/** The number to comment on: of a removed line the one before the change. 0 for a header. */
export const shownNumber = (line: DiffLine): number => line.newLine || line.oldLine;

/** What a comment on these lines refers to, in either order: the new file, unless only removed lines are among them. */
export function rangeOf(lines: readonly DiffLine[], from: number, to: number): LineRange | null {
  const chosen = lines.slice(Math.min(from, to), Math.max(from, to) + 1);
  const has = (side: DiffLine['side']) => chosen.some((line) => line.side === side);
  const side = has('removed') && !has('added') ? 'OLD' : 'NEW';
  const own = chosen.filter((line) => numberIn(line, side) > 0);
  const [first] = own;
  const last = own.at(-1);
  if (!first || !last) return null;
  return {
    side,
    startLine: numberIn(first, side),
    line: numberIn(last, side),
    quote: quoteOf(own),
  };
}

const quoteOf = (lines: readonly DiffLine[]): string =>
  lines
    .map(({ text }) => text.slice(1))
    .join('\n')
    .slice(0, limits.threadQuoteLength);

/** The lines of a range, without signs and as a whole; null if they are not in the new file. */
export const codeIn = (lines: readonly DiffLine[], range: LineRange): string | null =>
  range.side === 'OLD'
    ? null
    : lines
        .filter((line) => isInRange(line, range))
        .map(({ text }) => text.slice(1))
        .join('\n');

export const isInRange = (line: DiffLine, { side, startLine, line: last }: LineRange): boolean => {
  const number = numberIn(line, side);
  return number > 0 && number >= startLine && number <= last;
};

/**
 * The index of the last line of a range in a diff that may be newer; -1 if the diff does not have these lines. Lines that
 * moved are found by their text, if there is only one such place.
 */
export function indexOfRange(
  lines: readonly DiffLine[],
  { side, line, startLine, quote }: Pick<Thread, 'side' | 'line' | 'startLine' | 'quote'>,
): number {
  if (line === 0) return -1;
  const own = lines.flatMap((one, index) => (numberIn(one, side) > 0 ? [{ one, index }] : []));
  const last = own.findIndex(({ one }) => numberIn(one, side) === line);
  if (quote === '') return own[last]?.index ?? -1;
  const first = own.findIndex(({ one }) => numberIn(one, side) === (startLine || line));
  const matches = (start: number, end: number): boolean =>
    start >= 0 && quoteOf(own.slice(start, end + 1).map(({ one }) => one)) === quote;
  if (matches(first, last)) return own[last]?.index ?? -1;
  const length = quote.split('\n').length;
  const [firstLine] = quote.split('\n', 1);
  const found = own.flatMap(({ one }, start) =>
    one.text.slice(1) === firstLine && matches(start, start + length - 1) ? [start + length - 1] : [],
  );
  return found.length === 1 ? (own[found[0] as number]?.index ?? -1) : -1;
}

/** The first lines that a range which ends here may have: those of the same hunk, nearest first. */
export function possibleStarts(
  lines: readonly DiffLine[],
  range: Pick<LineRange, 'side' | 'line'>,
): readonly number[] {
  const end = lines.findIndex((line) => numberIn(line, range.side) === range.line);
  const before = lines.slice(0, end + 1);
  const hunk = before.slice(before.findLastIndex(({ text }) => text.startsWith('@@')) + 1);
  const numbers = hunk.map((line) => numberIn(line, range.side)).filter((number) => number > 0);
  return numbers.slice(-mostStarts).reverse();
}

const mostStarts = 100;

/** A range that ends at the same line and starts at another one. */
export function withStart<R extends LineRange>(lines: readonly DiffLine[], range: R, startLine: number): R {
  const own = lines.filter((line) => isInRange(line, { ...range, startLine }));
  return { ...range, startLine, quote: quoteOf(own) };
}

/** `line 3`, `lines 3 to 8`, `line 3 before the change`. */
export function rangeText({ side, startLine, line }: Pick<LineRange, 'side' | 'startLine' | 'line'>): string {
  const before = side === 'OLD' ? ' before the change' : '';
  return startLine > 0 && startLine < line
    ? `lines ${startLine} to ${line}${before}`
    : `line ${line}${before}`;
}
