import { changedWords, type WordRanges } from '../model/changed-words.ts';
import type { DiffLine } from '../model/diff-lines.ts';
import type { LineColours } from '../model/highlight.ts';
import { highlightFile } from '../model/highlight-file.ts';

export interface HighlightRequest {
  readonly lines: readonly DiffLine[];
  readonly language: string;
}

/** The words come first: a highlighter that takes too long does not delay them. */
export type HighlightReply =
  | { readonly words: ReadonlyMap<number, WordRanges> }
  | { readonly colours: readonly (LineColours | undefined)[] };

interface WorkerScope {
  onmessage: (event: MessageEvent<HighlightRequest>) => void;
  postMessage(reply: HighlightReply): void;
}
const scope = self as unknown as WorkerScope;

scope.onmessage = ({ data: { lines, language } }) => {
  scope.postMessage({ words: changedWords(lines) });
  scope.postMessage({ colours: language === '' ? [] : highlightFile(lines, language) });
};
