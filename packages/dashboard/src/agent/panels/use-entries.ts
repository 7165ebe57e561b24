import type { AgentStatus, EntryType, TimelineEntry } from '@muster/sdk';
import { agentPage } from '@muster/sdk/contract';
import { type UseQueryResult, useQuery } from '@tanstack/react-query';
import { useClient } from '../../session/session.ts';
import { isLiveRun } from './run-words.ts';

const liveMs = 5_000;
const mostEntries = 1000;

/** The newest entries of one type, newest first. */
export function useEntries(
  { agentId, run, runCount, branch, diffStat }: AgentStatus,
  type: EntryType,
  { isNeeded = true } = {},
): UseQueryResult<readonly TimelineEntry[]> {
  const client = useClient();
  const isLive = run !== null && isLiveRun(run);
  const isOfPushes = type === 'PUSH';
  return useQuery({
    queryKey: ['entries', agentPage(agentId), type, runCount, isLive, isOfPushes && { branch, diffStat }],
    queryFn: async ({ signal }) => {
      const entries = await client.timelineNewest(agentId, { types: [type], limit: mostEntries, signal });
      return entries.toReversed();
    },
    enabled: isNeeded,
    // What it was is shown until what it is has come.
    placeholderData: (previous) => previous,
    // A push that leaves the numbers of the diff as they were changes nothing else that would tell of it.
    refetchInterval: isLive && isOfPushes ? liveMs : false,
  });
}
