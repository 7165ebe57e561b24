import { diff3Merge } from 'node-diff3';

/** A stretch of two texts that grew from one: either it fits together by itself, or somebody must choose. */
export type MergePart =
  | { readonly isConflict: false; readonly lines: readonly string[] }
  | {
      readonly isConflict: true;
      readonly mine: readonly string[];
      readonly base: readonly string[];
      readonly theirs: readonly string[];
    };

/** What somebody chose for a conflict: a side, both after one another, or words of their own. */
export type MergeChoice = 'mine' | 'theirs' | 'both' | { readonly text: string };

/** Line by line: what only one side changed is taken, what both changed alike is taken once. */
export const mergeTexts = (base: string, mine: string, theirs: string): readonly MergePart[] =>
  diff3Merge(mine.split('\n'), base.split('\n'), theirs.split('\n'), { excludeFalseConflicts: true }).map(
    ({ ok, conflict }) =>
      conflict
        ? { isConflict: true, mine: conflict.a, base: conflict.o, theirs: conflict.b }
        : { isConflict: false, lines: ok ?? [] },
  );

/** The text that the choices make, by the place of the part they are for; null while one is missing. */
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
