import type { DiffFile } from '../../panels/model/diff-files.ts';

/** The changed files of one folder. */
export interface FileGroup {
  /** The folder, after the repository if there are several; empty for the top. */
  readonly folder: string;
  /** Their indices in the diff. */
  readonly files: readonly number[];
}

/** The changed files by folder, in the order of the diff. `filter` is a text in the path. */
export function fileGroups(files: readonly DiffFile[], filter: string): readonly FileGroup[] {
  const wanted = filter.trim().toLowerCase();
  const groups = new Map<string, number[]>();
  for (const [index, { repo, path }] of files.entries()) {
    if (!path.toLowerCase().includes(wanted)) continue;
    const folder = [repo, folderOf(path)].filter(Boolean).join(' ');
    const group = groups.get(folder) ?? [];
    groups.set(folder, group);
    group.push(index);
  }
  return [...groups].map(([folder, indices]) => ({ folder, files: indices }));
}

const folderOf = (path: string): string => path.slice(0, Math.max(0, path.lastIndexOf('/')));
export const nameOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1);
