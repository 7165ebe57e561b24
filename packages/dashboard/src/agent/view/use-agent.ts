import type { AgentId, MusterClient } from '@muster/sdk';
import { agentPage, needsAttention } from '@muster/sdk/contract';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useCallback, useEffect, useRef } from 'react';
import { useFleetEntry } from '../../live/fleet.ts';
import { labelTexts } from '../../parts/model/text.ts';
import { useOutage } from '../../session/connection.ts';
import { useClient } from '../../session/session.ts';

/** Cost and current action change within a turn without a timeline entry, so a working agent is polled. */
const pollMs = 3_000;
/** Groups a burst of entries into one request. */
const refreshDelayMs = 150;

/** Queries below this key are refreshed together with the status. */
export const statusKey = (page: string) => ['status', page] as const;

/** The status of an agent, and a function that refreshes it soon. */
export function useStatus(agentId: AgentId) {
  const client = useClient();
  const page = agentPage(agentId);
  const query = useQuery({
    queryKey: statusKey(page),
    queryFn: ({ signal }) => client.status(agentId, { signal }),
    refetchInterval: ({ state }) => (state.data && !needsAttention(state.data.phase) ? pollMs : false),
  });
  const refreshSoon = useRefreshSoon(page);

  // The list stream reports every change, also while the transcript shows older entries.
  const entry = useFleetEntry(page);
  const sequence = entry?.sequence;
  // Changed labels and saved work make no timeline entry.
  const labels = entry && labelTexts(entry.labels).join('\n');
  const work = entry && JSON.stringify([entry.unpushed, entry.checkpointAt]);
  const isOffline = useOutage() !== null;
  // biome-ignore lint/correctness/useExhaustiveDependencies: a change of any of these is a reason to refresh.
  useEffect(refreshSoon, [refreshSoon, sequence, labels, work, isOffline]);
  return { query, refreshSoon };
}

function useRefreshSoon(page: string): () => void {
  const queryClient = useQueryClient();
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  return useCallback(() => {
    const queryKey = statusKey(page);
    const refresh = () => {
      timer.current = undefined;
      // The reply to a request in flight may be older than the change, so another request follows it.
      if (queryClient.isFetching({ queryKey }) > 0) timer.current = setTimeout(refresh, refreshDelayMs);
      else void queryClient.invalidateQueries({ queryKey });
    };
    timer.current ??= setTimeout(refresh, refreshDelayMs);
  }, [queryClient, page]);
}

/** A command to an agent. Whether it succeeds or fails, the status is refreshed. */
export function useCommand<Input, Reply>(
  agentId: AgentId,
  send: (client: MusterClient, input: Input) => Promise<Reply>,
) {
  const client = useClient();
  const queryClient = useQueryClient();
  return useMutation({
    mutationFn: (input: Input) => send(client, input),
    // Not awaited, so that the reply to the command is shown immediately.
    onSettled: () => void queryClient.invalidateQueries({ queryKey: statusKey(agentPage(agentId)) }),
  });
}
