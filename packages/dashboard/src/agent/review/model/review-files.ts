import type { Thread } from '@muster/sdk/contract';
import type { DiffFile } from '../../panels/model/diff-files.ts';
import { type DiffLine, diffLinesOf, indexOfRange } from './diff-lines.ts';
import { changesIn } from './diff-rows.ts';
import type { DraftComment } from './review-draft.ts';
import { isInFile } from './threads.ts';
import { fileKey } from './viewed.ts';
import { withoutWhitespace } from './whitespace.ts';

/** A file of the review with its lines. */
export interface ReviewFile {
  readonly key: string;
  readonly file: DiffFile;
  readonly lines: readonly DiffLine[];
}

const noLines: readonly DiffLine[] = [];

export function reviewFiles(files: readonly DiffFile[], ignoresWhitespace: boolean): readonly ReviewFile[] {
  return files.map((file) => {
    const lines = file.text === '' ? noLines : diffLinesOf(file.text);
    return { key: fileKey(file), file, lines: ignoresWhitespace ? withoutWhitespace(lines) : lines };
  });
}

/** A line of a file, both by index; line −1 is the file itself. */
export interface Stop {
  readonly file: number;
  readonly line: number;
  /** Empty for a change. */
  readonly thread: string;
}

export const changeStops = (files: readonly ReviewFile[]): readonly Stop[] =>
  files.flatMap(({ lines }, file) => changesIn(lines).map((line) => ({ file, line, thread: '' })));

/** The threads and draft comments in the order of the diff. */
export function threadStops(
  files: readonly ReviewFile[],
  threads: readonly Thread[],
  comments: readonly DraftComment[],
): readonly Stop[] {
  const places = [
    ...threads.map((thread) => [thread, thread.threadId] as const),
    ...comments.map((comment) => [comment, comment.id] as const),
  ];
  const stops = places.flatMap(([place, thread]) => {
    const file = files.findIndex((each) => isInFile(place, each.file));
    return file === -1
      ? []
      : [{ file, line: indexOfRange((files[file] as ReviewFile).lines, place), thread }];
  });
  return stops.sort(compareStops);
}

export const fileStops = (files: readonly ReviewFile[]): readonly Stop[] =>
  files.map((_, file) => ({ file, line: -1, thread: '' }));

const compareStops = (one: Pick<Stop, 'file' | 'line'>, other: Pick<Stop, 'file' | 'line'>): number =>
  one.file - other.file || one.line - other.line;

/** The stop after the current one, or before it; the first one after the last. */
export function nextStop(stops: readonly Stop[], current: Stop | null, direction: 1 | -1): Stop | undefined {
  const at = stops.findIndex(
    (stop) => current !== null && compareStops(stop, current) === 0 && stop.thread === current.thread,
  );
  if (at !== -1) return stops[(at + direction + stops.length) % stops.length];
  if (current === null) return direction === 1 ? stops[0] : stops.at(-1);
  return direction === 1
    ? (stops.find((stop) => compareStops(stop, current) > 0) ?? stops[0])
    : (stops.findLast((stop) => compareStops(stop, current) < 0) ?? stops.at(-1));
}
