import type { DiffFile } from '../model/diff-files.ts';

/** `+12 −4`. */
export const LineStat = ({ insertions, deletions }: Pick<DiffFile, 'insertions' | 'deletions'>) => (
  <span className="line-stat">
    <span data-side="added">+{insertions}</span> <span data-side="removed">−{deletions}</span>
  </span>
);
