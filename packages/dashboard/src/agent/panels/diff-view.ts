/** The two diffs of an agent; the working tree has what is not committed or not pushed, too. */
export const diffViews = [
  ['pushed', 'Pushed'],
  ['working-tree', 'Working tree'],
] as const;
export type DiffView = (typeof diffViews)[number][0];

/** The view that the address names; else the pushed diff, or the working tree when nothing was pushed. */
export function diffViewOf(named: string | null, hasPushed: boolean): DiffView {
  const found = diffViews.find(([view]) => view === named);
  return found?.[0] ?? (hasPushed ? 'pushed' : 'working-tree');
}
