import { visibleControls } from './model/text.ts';

/** Each coloured line is an element; the rest of a longer diff is plain text. */
const colouredLines = 5_000;

type Side = 'added' | 'removed' | 'hunk' | 'file' | 'same';

const fileHeader = /^(diff --git|index |--- |\+\+\+ |new file|deleted file|rename |similarity )/;

/** Inside a hunk a line's first character is its side, even if the line looks like a file header. */
function sidesOf(lines: readonly string[]): Side[] {
  let isInHunk = false;
  return lines.map((line, at) => {
    const isHead =
      line.startsWith('--- ') && lines[at + 1]?.startsWith('+++ ') && lines[at + 2]?.startsWith('@@');
    if (line.startsWith('diff --git ') || isHead) isInHunk = false;
    if (line.startsWith('@@')) {
      isInHunk = true;
      return 'hunk';
    }
    if (!isInHunk && fileHeader.test(line)) return 'file';
    if (line.startsWith('+')) return 'added';
    return line.startsWith('-') ? 'removed' : 'same';
  });
}

export const looksLikeDiff = (text: string): boolean => /^(diff --git |@@ -\d+(,\d+)? \+\d+)/m.test(text);

/** A unified diff in colour. The + and - stay, for people who can't tell the colours apart. */
export function DiffLines({ diff }: { readonly diff: string }) {
  const all = visibleControls(diff.replace(/\n$/, '')).split('\n');
  const lines = all.slice(0, colouredLines);
  const sides = sidesOf(lines);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable element must be reachable by keyboard.
    <pre className="diff-lines" tabIndex={0}>
      {lines.map((line, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a diff line has no other identity than its index.
        <span key={at} data-side={sides[at]}>
          {`${line}\n`}
        </span>
      ))}
      {all.length > lines.length && all.slice(colouredLines).join('\n')}
    </pre>
  );
}
