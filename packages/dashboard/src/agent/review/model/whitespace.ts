import { diffArrays } from 'diff';
import { runFrom } from './changed-words.ts';
import type { DiffLine } from './diff-lines.ts';

/** More changed lines than these beside each other are compared only in their order. */
const comparedLines = 2_000;
const mostEdits = 1_000;

/** The lines without changes of white space: such a line is unchanged, with the text that it has now. */
export function withoutWhitespace(lines: readonly DiffLine[]): readonly DiffLine[] {
  const result: DiffLine[] = [];
  for (let at = 0; at < lines.length; ) {
    const added = runFrom(lines, at, 'removed');
    const end = runFrom(lines, added, 'added');
    if (added === at || end === added) {
      const next = Math.max(end, added, at + 1);
      result.push(...lines.slice(at, next));
      at = next;
      continue;
    }
    result.push(...merged(lines.slice(at, added), lines.slice(added, end)));
    at = end;
  }
  return result;
}

const codeOf = ({ text }: DiffLine): string => text.slice(1).replace(/\s+/g, '');

function merged(removed: readonly DiffLine[], added: readonly DiffLine[]): readonly DiffLine[] {
  const [before, after] = [removed.map(codeOf), added.map(codeOf)];
  if (before.length + after.length > comparedLines) return [...removed, ...added];
  const parts = diffArrays(before, after, { maxEditLength: mostEdits });
  if (!parts) return [...removed, ...added];
  const result: DiffLine[] = [];
  let [left, right] = [0, 0];
  for (const { count = 0, removed: isRemoved, added: isAdded } of parts) {
    if (isRemoved) {
      result.push(...removed.slice(left, left + count));
      left += count;
    } else if (isAdded) {
      result.push(...added.slice(right, right + count));
      right += count;
    } else
      for (let step = 0; step < count; step++) {
        const { oldLine } = removed[left++] as DiffLine;
        const { newLine, text } = added[right++] as DiffLine;
        result.push({ text: ` ${text.slice(1)}`, side: 'same', oldLine, newLine });
      }
  }
  return result;
}
