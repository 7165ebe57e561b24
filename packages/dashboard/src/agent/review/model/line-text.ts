import type { WordRanges } from './changed-words.ts';
import { codeClasses, type LineColours } from './highlight.ts';

export interface LinePart {
  readonly text: string;
  readonly className: string;
  readonly isChanged: boolean;
}

/** The parts of a line that look the same: by the colours of the code, and by the words that changed. */
export function partsOf(
  text: string,
  colours: LineColours | undefined,
  words: WordRanges | undefined,
): readonly LinePart[] {
  const parts: LinePart[] = [];
  let start = 0;
  const add = (end: number, kind: number) => {
    for (const [to, isChanged] of splitAt(start, Math.min(end, text.length), words)) {
      if (to > start)
        parts.push({ text: text.slice(start, to), className: codeClasses[kind] ?? '', isChanged });
      start = Math.max(start, to);
    }
  };
  for (let at = 0; colours && at < colours.length; at += 2)
    add(start + (colours[at] as number), colours[at + 1] as number);
  add(text.length, 0);
  return parts;
}

/** Where a part ends or a changed word begins or ends, and whether what is before it has changed. */
function splitAt(start: number, end: number, words: WordRanges = []): (readonly [number, boolean])[] {
  const cuts: [number, boolean][] = [];
  for (let at = 0; at < words.length; at += 2) {
    const [from = 0, to = 0] = [words[at], words[at + 1]];
    if (to <= start || from >= end) continue;
    cuts.push([Math.max(from, start), false], [Math.min(to, end), true]);
  }
  return [...cuts, [end, false]];
}
