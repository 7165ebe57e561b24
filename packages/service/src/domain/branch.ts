import type { Agent } from './agent.ts';

/** A ref is a file, and a file's name has at most 255 bytes. */
const maxPathLength = 200;

/**
 * The agent's own branch: `muster/<path joined by ->-<the end of its id>`, with what git forbids in a ref replaced.
 * The id keeps it apart from the branch of an agent that held the same path before.
 */
export function branchOf(path: readonly string[], id: string): string {
  const name = path.join('-').slice(0, maxPathLength).replace(/^\./, '_').replaceAll('..', '__');
  return `muster/${name}-${id.slice(-6)}`;
}

/** The branches of its ancestors, nearest first. */
export const branchesAbove = ({ path, ancestors }: Pick<Agent, 'path' | 'ancestors'>): string[] =>
  ancestors.map((id, i) => branchOf(path.slice(0, i + 1), id)).reverse();
