import type { AgentStatus, EntryType, TimelineEntry } from '@muster/sdk';
import { agentPage } from '@muster/sdk/contract';
import { type UseQueryResult, useQuery } from '@tanstack/react-query';
import { useClient } from '../../../session/session.ts';
import { isLiveRun } from '../../model/run-text.ts';

const pollMs = 5_000;
const maxEntries = 1000;

/** The newest timeline entries of one type, newest first. */
export function useEntries(
  { agentId, run, runCount, branch, diffStat }: AgentStatus,
  type: EntryType,
  { isNeeded = true } = {},
): UseQueryResult<readonly TimelineEntry[]> {
  const client = useClient();
  const isLive = run !== null && isLiveRun(run);
  const isPush = type === 'PUSH';
  return useQuery({
    queryKey: ['entries', agentPage(agentId), type, runCount, isLive, isPush && { branch, diffStat }],
    queryFn: async ({ signal }) => {
      const entries = await client.timelineNewest(agentId, { types: [type], limit: maxEntries, signal });
      return entries.toReversed();
    },
    enabled: isNeeded,
    placeholderData: (previous) => previous,
    // A push that leaves the diff statistics unchanged is not visible in the status.
    refetchInterval: isLive && isPush ? pollMs : false,
  });
}
