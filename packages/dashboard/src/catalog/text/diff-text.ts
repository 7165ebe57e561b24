import { structuredPatch } from 'diff';

/** A unified diff without the names of files; empty where the texts are the same. */
export function diffText(before: string, after: string): string {
  const { hunks } = structuredPatch('', '', before, after, '', '', { context: 3 });
  return hunks
    .flatMap(({ oldStart, oldLines, newStart, newLines, lines }) => [
      `@@ -${oldStart},${oldLines} +${newStart},${newLines} @@`,
      ...lines,
    ])
    .join('\n');
}
