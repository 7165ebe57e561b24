import type { AgentId, MusterClient, TimelineEntry } from '@muster/sdk';
import { agentPage, needsAttention } from '@muster/sdk/contract';
import { queryOptions, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useCallback, useEffect, useRef } from 'react';
import { useFleetEntry } from '../../live/fleet.ts';
import { labelTexts } from '../../parts/model/text.ts';
import { useForgetOutage, useOutage } from '../../session/connection.ts';
import { useClient } from '../../session/session.ts';

/** Cost and current action change within a turn without a timeline entry, so a working agent is polled. */
const pollMs = 3_000;
/** What happens to a change request at its code host makes no timeline entry either. */
const pollRequestsMs = 10_000;
/** Groups a burst of entries into one request. */
const refreshDelayMs = 150;

/** Queries below this key are refreshed together with the status. */
export const statusKey = (page: string) => ['status', page] as const;
export const threadsKey = (page: string) => ['threads', page] as const;

export const statusQuery = (client: MusterClient, agentId: AgentId) =>
  queryOptions({
    queryKey: statusKey(agentPage(agentId)),
    queryFn: ({ signal }) => client.status(agentId, { signal }),
  });

/** The status of an agent, and a function that refreshes what new timeline entries report. */
export function useStatus(agentId: AgentId) {
  const client = useClient();
  const page = agentPage(agentId);
  const query = useQuery({
    ...statusQuery(client, agentId),
    refetchInterval: ({ state: { data } }) => {
      if (!data) return false;
      if (!needsAttention(data.phase)) return pollMs;
      return data.branch !== '' && data.phase === 'PHASE_WAITING_FOR_INPUT' ? pollRequestsMs : false;
    },
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

  const queryClient = useQueryClient();
  const onEntries = useCallback(
    (entries: readonly TimelineEntry[]) => {
      refreshSoon();
      if (entries.some(({ type }) => type === 'THREADS_CHANGED'))
        void queryClient.invalidateQueries({ queryKey: threadsKey(page) });
    },
    [refreshSoon, queryClient, page],
  );
  return { query, onEntries };
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
  const command = useMutation({
    mutationFn: (input: Input) => send(client, input),
    // Not awaited, so that the reply to the command is shown immediately.
    onSettled: () => void queryClient.invalidateQueries({ queryKey: statusKey(agentPage(agentId)) }),
  });
  useForgetOutage(command);
  return command;
}
