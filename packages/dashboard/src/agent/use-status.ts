import type { AgentId, AgentStatus } from '@muster/sdk';
import { agentPage, needsAttention } from '@muster/sdk/contract';
import { type UseQueryResult, useQuery, useQueryClient } from '@tanstack/react-query';
import { useCallback, useEffect, useRef } from 'react';
import { useFleetEntry } from '../live/fleet.ts';
import { labelTexts } from '../parts/model/text.ts';
import { useOutage } from '../session/connection.ts';
import { useClient } from '../session/session.ts';

/** What an agent spends and does within a turn makes no entry of its own. */
const workingMs = 3_000;
/** A burst of entries is one look at the status. */
const settleMs = 150;

/** What is kept below this key is looked at again together with the status. */
export const statusKey = (page: string) => ['status', page] as const;

/** The status of an agent, and a function that has it looked at again soon. */
export function useStatus(agentId: AgentId): {
  readonly query: UseQueryResult<AgentStatus>;
  readonly refreshSoon: () => void;
} {
  const client = useClient();
  const page = agentPage(agentId);
  const query = useQuery({
    queryKey: statusKey(page),
    queryFn: ({ signal }) => client.status(agentId, { signal }),
    refetchInterval: ({ state }) => (state.data && !needsAttention(state.data.phase) ? workingMs : false),
  });
  const refreshSoon = useRefreshSoon(page);

  // The list stream knows of every change too, also while the reader is far up in the transcript.
  const entry = useFleetEntry(page);
  const sequence = entry?.sequence;
  // A change of labels, and work that is saved, make no entry in the timeline.
  const labels = entry && labelTexts(entry.labels).join('\n');
  const work = entry && JSON.stringify([entry.unpushed, entry.checkpointAt]);
  const isAway = useOutage() !== null;
  // biome-ignore lint/correctness/useExhaustiveDependencies: they are the reasons to look again.
  useEffect(refreshSoon, [refreshSoon, sequence, labels, work, isAway]);
  return { query, refreshSoon };
}

function useRefreshSoon(page: string): () => void {
  const queryClient = useQueryClient();
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  return useCallback(() => {
    const queryKey = statusKey(page);
    const look = () => {
      timer.current = undefined;
      // An answer that is under way may be older than the reason to look; it is let through, and asked for again.
      if (queryClient.isFetching({ queryKey }) > 0) timer.current = setTimeout(look, settleMs);
      else void queryClient.invalidateQueries({ queryKey });
    };
    timer.current ??= setTimeout(look, settleMs);
  }, [queryClient, page]);
}
