/** `+12 −4`; the signs tell, and the colours only help. */
export const FileStat = ({
  insertions,
  deletions,
}: {
  readonly insertions: number;
  readonly deletions: number;
}) => (
  <span className="file-stat">
    <span data-side="added">+{insertions}</span> <span data-side="removed">−{deletions}</span>
  </span>
);
