import { structuredPatch } from 'diff';
import { diff3Merge } from 'node-diff3';

/** A part of a three-way merge: merged lines, or a conflict that the user resolves. */
export type MergePart =
  | { readonly isConflict: false; readonly lines: readonly string[] }
  | {
      readonly isConflict: true;
      readonly mine: readonly string[];
      readonly base: readonly string[];
      readonly theirs: readonly string[];
    };

/** How the user resolves a conflict: one side, both, or their own text. */
export type MergeChoice = 'mine' | 'theirs' | 'both' | { readonly text: string };

/** Merges line by line. A change that both sides made is taken once. */
export const mergeTexts = (base: string, mine: string, theirs: string): readonly MergePart[] =>
  diff3Merge(mine.split('\n'), base.split('\n'), theirs.split('\n'), { excludeFalseConflicts: true }).map(
    ({ ok, conflict }) =>
      conflict
        ? { isConflict: true, mine: conflict.a, base: conflict.o, theirs: conflict.b }
        : { isConflict: false, lines: ok ?? [] },
  );

/** The merged text; null while a choice is missing. Choices are keyed by the index of their part. */
export function mergedText(
  parts: readonly MergePart[],
  choices: ReadonlyMap<number, MergeChoice>,
): string | null {
  const pieces = parts.map((part, at) => (part.isConflict ? chosenLines(part, choices.get(at)) : part.lines));
  return pieces.includes(null) ? null : pieces.flatMap((lines) => lines ?? []).join('\n');
}

function chosenLines(
  { mine, theirs }: Extract<MergePart, { isConflict: true }>,
  choice: MergeChoice | undefined,
): readonly string[] | null {
  switch (choice) {
    case undefined:
      return null;
    case 'mine':
      return mine;
    case 'theirs':
      return theirs;
    case 'both':
      return [...mine, ...theirs];
    default:
      return choice.text === '' ? [] : choice.text.replace(/\n$/, '').split('\n');
  }
}

/** A unified diff without file names; empty if the texts are equal. */
export function diffText(before: string, after: string): string {
  const { hunks } = structuredPatch('', '', before, after, '', '', { context: 3 });
  return hunks
    .flatMap(({ oldStart, oldLines, newStart, newLines, lines }) => [
      `@@ -${oldStart},${oldLines} +${newStart},${newLines} @@`,
      ...lines,
    ])
    .join('\n');
}
