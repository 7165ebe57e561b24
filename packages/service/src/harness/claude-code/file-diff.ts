import type { FileEditOutput, FileWriteOutput } from '@anthropic-ai/claude-agent-sdk/sdk-tools';

/** As JSON: the size of an item's data is limited. */
const mostDiffBytes = 48 * 1024;

type Hunk = FileEditOutput['structuredPatch'][number];

/** The change that a tool reports, as a unified diff; undefined when it reports none. */
export function fileDiff(result: unknown, path: string): string | undefined {
  if (typeof result !== 'object' || result === null) return undefined;
  const { type, content, structuredPatch } = result as Partial<FileWriteOutput>;
  const hunks = Array.isArray(structuredPatch) ? structuredPatch.filter(isHunk) : [];
  if (type === 'create' && typeof content === 'string' && content !== '')
    return cut(['--- /dev/null', `+++ ${path}`, ...addedLines(content)]);
  return hunks.length === 0 ? undefined : cut([`--- ${path}`, `+++ ${path}`, ...hunks.flatMap(hunkLines)]);
}

/** The value comes from the sandbox and may be anything. */
const isHunk = (value: unknown): value is Hunk =>
  Array.isArray((value as Partial<Hunk> | null)?.lines) &&
  (value as Hunk).lines.every((line) => typeof line === 'string');

const hunkLines = ({ oldStart, oldLines, newStart, newLines, lines }: Hunk): string[] => [
  `@@ -${oldStart},${oldLines} +${newStart},${newLines} @@`,
  ...lines,
];

function addedLines(content: string): string[] {
  const lines = content.replace(/\n$/, '').split('\n');
  return [`@@ -0,0 +1,${lines.length} @@`, ...lines.map((line) => `+${line}`)];
}

function cut(lines: readonly string[]): string {
  let bytes = 0;
  const end = lines.findIndex((line) => {
    bytes += Buffer.byteLength(JSON.stringify(line));
    return bytes > mostDiffBytes;
  });
  return end === -1
    ? lines.join('\n')
    : [...lines.slice(0, end), `… and ${lines.length - end} more lines`].join('\n');
}
