import type { AgentId, MusterClient } from '@muster/sdk';
import { agentPage } from '@muster/sdk/contract';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useClient } from '../session/session.ts';
import { statusKey } from './use-status.ts';

/** Something done to an agent. Whether it was taken or refused, the page then looks how the agent stands. */
export function useCommand<Input, Reply>(
  agentId: AgentId,
  act: (client: MusterClient, input: Input) => Promise<Reply>,
) {
  const client = useClient();
  const queryClient = useQueryClient();
  return useMutation({
    mutationFn: (input: Input) => act(client, input),
    // Not waited for: what the service said of the command is shown at once.
    onSettled: () => void queryClient.invalidateQueries({ queryKey: statusKey(agentPage(agentId)) }),
  });
}
