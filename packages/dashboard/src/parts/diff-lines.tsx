import { visibleControls } from './visible-controls.ts';
import './diff-lines.css';

/** Behind these a diff has no colours: each line of them is an element. */
const colouredLines = 5_000;

type Side = 'added' | 'removed' | 'hunk' | 'file' | 'same';

const ofFile = /^(diff --git|index |--- |\+\+\+ |new file|deleted file|rename |similarity )/;

/** Inside a hunk every line has a sign of its own, also one whose words look like the head of a file. */
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
    if (!isInHunk && ofFile.test(line)) return 'file';
    if (line.startsWith('+')) return 'added';
    return line.startsWith('-') ? 'removed' : 'same';
  });
}

/** Whether a text reads like a unified diff. */
export const looksLikeDiff = (text: string): boolean => /^(diff --git |@@ -\d+(,\d+)? \+\d+)/m.test(text);

/** A unified diff, coloured; the signs stay, so that colour is not the only thing that tells. */
export function DiffLines({ diff }: { readonly diff: string }) {
  const all = visibleControls(diff.replace(/\n$/, '')).split('\n');
  const lines = all.slice(0, colouredLines);
  const sides = sidesOf(lines);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached from the keyboard.
    <pre className="diff-lines" tabIndex={0}>
      {lines.map((line, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a line of a diff has no other name than its place.
        <span key={at} data-side={sides[at]}>
          {`${line}\n`}
        </span>
      ))}
      {all.length > lines.length && all.slice(colouredLines).join('\n')}
    </pre>
  );
}
