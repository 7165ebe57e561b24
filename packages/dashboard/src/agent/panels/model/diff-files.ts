import type { parsePatch, StructuredPatch } from 'diff';

/** The working tree diff also has changes that are not committed or not pushed. */
export const diffViews = [
  ['pushed', 'Pushed'],
  ['working-tree', 'Working tree'],
] as const;
export type DiffView = (typeof diffViews)[number][0];

/** The view in the address; by default the pushed diff, or the working tree if nothing was pushed. */
export function diffViewOf(name: string | null, hasPushed: boolean): DiffView {
  const found = diffViews.find(([view]) => view === name);
  return found?.[0] ?? (hasPushed ? 'pushed' : 'working-tree');
}

export interface DiffFile {
  /** Empty if the diff has only one repository. */
  readonly repo: string;
  readonly path: string;
  /** The path before a rename; empty otherwise. */
  readonly oldPath: string;
  readonly change: 'changed' | 'added' | 'deleted' | 'renamed' | 'binary';
  readonly insertions: number;
  readonly deletions: number;
  /** The hunks, without the header. */
  readonly text: string;
}

export interface ParsedDiff {
  readonly files: readonly DiffFile[];
  /** The service cuts off a diff that is too long. */
  readonly isCut: boolean;
}

/** The last line of a cut diff, written by the runner. */
const cutLine = '[The diff is longer than this.]';

/**
 * The files of a diff by git. With several repositories, each one starts with `# <address>`. Lines of a hunk start with
 * a sign, so a line that starts a section is never content. The library reads only the headers: it would reject a
 * hunk that is cut off.
 */
export async function parseDiff(diff: string): Promise<ParsedDiff> {
  const diffLibrary = await import('diff');
  const files: DiffFile[] = [];
  let repo = '';
  let isCut = false;
  for (const section of diff.split(/^(?=diff --git |# |\[The diff is longer)/m)) {
    if (section.startsWith('# ')) repo = section.slice(2).split('\n', 1)[0] ?? '';
    else if (section.startsWith(cutLine)) isCut = true;
    else if (section.startsWith('diff --git ')) files.push(fileOf(section, repo, diffLibrary.parsePatch));
  }
  return { files, isCut };
}

function fileOf(section: string, repo: string, parse: typeof parsePatch): DiffFile {
  const hunksAt = section.search(/^@@/m);
  const header = hunksAt === -1 ? section : section.slice(0, hunksAt);
  const text = hunksAt === -1 ? '' : section.slice(hunksAt).replace(/\n+$/, '');
  const [patch] = parse(header);
  const { oldFileName = '', newFileName = '', isRename = false, isDelete = false } = patch ?? {};
  const firstLine = header.slice('diff --git '.length).split('\n', 1)[0] ?? '';
  return {
    repo,
    path: withoutPrefix(isDelete ? oldFileName : newFileName) || firstLine,
    oldPath: isRename ? withoutPrefix(oldFileName) : '',
    change: changeOf(patch, header),
    insertions: text.match(/^\+/gm)?.length ?? 0,
    deletions: text.match(/^-/gm)?.length ?? 0,
    text,
  };
}

function changeOf(patch: StructuredPatch | undefined, header: string): DiffFile['change'] {
  if (patch?.isBinary || header.includes('\nGIT binary patch')) return 'binary';
  if (patch?.isRename) return 'renamed';
  if (patch?.isDelete) return 'deleted';
  return patch?.isCreate ? 'added' : 'changed';
}

const withoutPrefix = (name: string): string => name.replace(/^[ab]\//, '');
