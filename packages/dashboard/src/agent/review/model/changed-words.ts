import { diffWordsWithSpace } from 'diff';
import type { DiffLine } from './diff-lines.ts';

/** The places of changed words in a line: start and end in turn, without the sign of the line. */
export type WordRanges = readonly number[];

const comparedLineLength = 500;
const comparedRun = 60;
/** More changes than this are not words within a line, but another line. */
const mostEdits = 60;
/** The least part of both lines that has to be the same. */
const leastCommon = 0.3;

/** The changed words of lines that replace others, by the index of the line. */
export function changedWords(lines: readonly DiffLine[]): ReadonlyMap<number, WordRanges> {
  const found = new Map<number, WordRanges>();
  for (const [removed, added] of replacements(lines)) {
    const marked = compared(
      (lines[removed] as DiffLine).text.slice(1),
      (lines[added] as DiffLine).text.slice(1),
    );
    if (!marked) continue;
    found.set(removed, marked.before);
    found.set(added, marked.after);
  }
  return found;
}

/** The removed and the added line that are beside each other, by their indices. */
export function replacements(
  lines: readonly DiffLine[],
): readonly (readonly [removed: number, added: number])[] {
  const pairs: [number, number][] = [];
  for (let at = 0; at < lines.length; ) {
    const removed = runFrom(lines, at, 'removed');
    const added = runFrom(lines, removed, 'added');
    const count = Math.min(removed - at, added - removed);
    if (Math.max(removed - at, added - removed) <= comparedRun)
      for (let line = 0; line < count; line++) pairs.push([at + line, removed + line]);
    at = Math.max(added, at + 1);
  }
  return pairs;
}

/** The index after the lines of one side that start here. */
export function runFrom(lines: readonly DiffLine[], start: number, side: DiffLine['side']): number {
  let end = start;
  while (lines[end]?.side === side) end++;
  return end;
}

function compared(
  before: string,
  after: string,
): { readonly before: WordRanges; readonly after: WordRanges } | undefined {
  if (Math.max(before.length, after.length) > comparedLineLength) return undefined;
  const parts = diffWordsWithSpace(before, after, { maxEditLength: mostEdits });
  if (!parts) return undefined;
  const ranges = { before: [] as number[], after: [] as number[] };
  let [left, right, common] = [0, 0, 0];
  for (const { value, added, removed } of parts) {
    const { length } = value;
    if (removed) addRange(ranges.before, left, left + length);
    if (added) addRange(ranges.after, right, right + length);
    if (!added) left += length;
    if (!removed) right += length;
    if (!added && !removed) common += value.trim().length;
  }
  const isSimilar = common >= leastCommon * Math.max(before.trim().length, after.trim().length);
  return isSimilar ? ranges : undefined;
}

function addRange(ranges: number[], start: number, end: number): void {
  if (ranges.at(-1) === start) ranges[ranges.length - 1] = end;
  else ranges.push(start, end);
}
