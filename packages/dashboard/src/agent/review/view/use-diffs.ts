import type { AgentStatus } from '@muster/sdk';
import { agentPage, limits } from '@muster/sdk/contract';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';
import { useSearchParams } from 'wouter';
import { useClient } from '../../../session/session.ts';
import { reviewOfPage } from '../../model/review-address.ts';
import {
  type DiffView,
  diffViewOf,
  diffViews,
  type ParsedDiff,
  parseDiff,
} from '../../panels/model/diff-files.ts';
import { useEntries } from '../../panels/view/panel.tsx';
import { placeQuery } from '../model/place.ts';

/** The diffs of an agent, loaded again after each push and each change of the working tree, and its pushes. */
export function useDiffs(status: AgentStatus) {
  const { agentId, branch, diffStat, unpushed, checkpointAt } = status;
  const client = useClient();
  const queryClient = useQueryClient();
  const queryKey = ['diff', agentPage(agentId)];
  const hasPushed = branch !== '';
  const pushes = useEntries(status, 'PUSH', { isNeeded: hasPushed });
  const lastPush = pushes.data?.[0]?.sequence;
  const { files = 0, insertions = 0, deletions = 0 } = diffStat ?? {};
  // biome-ignore lint/correctness/useExhaustiveDependencies: a change of any of these means a newer diff.
  useEffect(() => {
    void queryClient.invalidateQueries({ queryKey });
  }, [files, insertions, deletions, lastPush, unpushed?.commits, unpushed?.files, checkpointAt]);
  const { data, error } = useQuery({
    queryKey,
    queryFn: async ({ signal }) => {
      const { diff, workingTree } = await client.diff(agentId, { context: limits.diffContextLines, signal });
      return {
        pushed: await parseDiff(diff),
        workingTree: workingTree && (await parseDiff(workingTree.diff)),
      };
    },
    enabled: hasPushed || unpushed !== null,
  });
  return { data, error, pushes };
}

export interface ShownDiff {
  readonly view: DiffView;
  readonly diff: ParsedDiff;
  /** Whether there are two to choose from. */
  readonly hasChoice: boolean;
}

/** The diff that the address selects; null if there is none. */
export function shownDiff(
  { branch }: AgentStatus,
  data: ReturnType<typeof useDiffs>['data'],
  changes: string | null,
): ShownDiff | null {
  const hasPushed = branch !== '';
  if (!data || (!hasPushed && data.workingTree === null)) return null;
  const view = data.workingTree ? diffViewOf(changes, hasPushed) : 'pushed';
  const diff = (view === 'working-tree' && data.workingTree) || data.pushed;
  return { view, diff, hasChoice: data.workingTree !== null };
}

export function emptyText(view: DiffView, hasPushed: boolean): string {
  if (view === 'working-tree') return 'The working tree has no changes against the base branch.';
  return hasPushed ? 'The branch has no changes.' : 'Nothing pushed yet.';
}

/** The page of the agent that is open, which may be that of a share link; without `/review`. */
export const pageAddress = ({ agentId }: Pick<AgentStatus, 'agentId'>): string =>
  /^\/share\/[^/]+/.exec(location.pathname)?.[0] ?? agentPage(agentId);

type Place = Parameters<typeof placeQuery>[0];

/** The addresses of places in the review, in the view of the diff that is open. */
export function useReviewHref(status: Pick<AgentStatus, 'agentId'>): (place: Place) => string {
  const [parameters] = useSearchParams();
  const changes = diffViews.find(([view]) => view === parameters.get('changes'))?.[0];
  return (place) => reviewOfPage(pageAddress(status)) + placeQuery({ changes, ...place });
}
