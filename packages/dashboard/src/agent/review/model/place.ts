import type { DiffFile, DiffView } from '../../panels/model/diff-files.ts';
import { type DiffLine, type LineRange, numberIn } from './diff-lines.ts';
import { fileKey } from './viewed.ts';

/** What an address of the review leads to. Empty texts: nothing in particular. */
export interface ReviewPlace {
  readonly thread: string;
  readonly repo: string;
  readonly path: string;
  readonly side: LineRange['side'];
  /** 0: the whole file. */
  readonly line: number;
}

/** Reads `?thread=…`, or `?file=…&line=12`; `line=L12` is a line before the change. */
export function placeIn(parameters: URLSearchParams): ReviewPlace {
  const [, old = '', digits = '0'] = /^(L?)(\d{1,9})$/.exec(parameters.get('line') ?? '') ?? [];
  return {
    thread: parameters.get('thread') ?? '',
    repo: parameters.get('repo') ?? '',
    path: parameters.get('file') ?? '',
    side: old === '' ? 'NEW' : 'OLD',
    line: Number(digits),
  };
}

/** The query of the address of a place; empty for the beginning of the default view. */
export function placeQuery({
  changes,
  thread = '',
  repo = '',
  path = '',
  side = 'NEW',
  line = 0,
}: Partial<ReviewPlace> & { readonly changes?: DiffView | null | undefined }): string {
  const parameters = new URLSearchParams();
  if (changes) parameters.set('changes', changes);
  if (thread !== '') parameters.set('thread', thread);
  if (path !== '') parameters.set('file', path);
  if (repo !== '') parameters.set('repo', repo);
  if (line > 0) parameters.set('line', `${side === 'OLD' ? 'L' : ''}${line}`);
  const query = parameters.toString();
  return query === '' ? '' : `?${query}`;
}

/** The file that the place names; −1 if the diff does not have it. */
export const fileAt = (
  files: readonly DiffFile[],
  { repo, path }: Pick<ReviewPlace, 'repo' | 'path'>,
): number =>
  path === ''
    ? -1
    : files.findIndex(
        (file) => fileKey(file) === fileKey({ repo, path }) || (repo === '' && file.path === path),
      );

export const lineAt = (
  lines: readonly DiffLine[],
  { side, line }: Pick<ReviewPlace, 'side' | 'line'>,
): number => (line === 0 ? -1 : lines.findIndex((one) => numberIn(one, side) === line));
