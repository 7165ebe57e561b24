import type { AgentStatus } from '@muster/sdk';
import { Button } from '../parts/button.tsx';
import { Problem } from '../parts/problem.tsx';
import { useCommand } from './use-command.ts';

/** Runs the messages of a blocked agent again, or those of a retrying one without waiting any longer. */
export function RetryControl({ status }: { readonly status: AgentStatus }) {
  const { agentId, phaseReason, wakesAt } = status;
  const retry = useCommand(agentId, (client) => client.retry(agentId));
  const mayRetry = phaseReason === 'BLOCKED' || (phaseReason === 'RETRYING' && wakesAt !== null);
  if (!mayRetry && !retry.isError) return null;
  return (
    <>
      {retry.isError && <Problem error={retry.error} />}
      <Button disabled={retry.isPending} onClick={() => retry.mutate(undefined)}>
        {phaseReason === 'BLOCKED' ? 'Retry' : 'Retry now'}
      </Button>
    </>
  );
}

/** Reopens an agent that finished or failed; one that was killed stays ended. */
export function ReopenControl({ status }: { readonly status: AgentStatus }) {
  const { agentId, phase } = status;
  const reopen = useCommand(agentId, (client) => client.reopen(agentId));
  if (phase !== 'PHASE_COMPLETED' && phase !== 'PHASE_FAILED') return null;
  return (
    <>
      {reopen.isError && <Problem error={reopen.error} />}
      <Button disabled={reopen.isPending} onClick={() => reopen.mutate(undefined)}>
        Reopen
      </Button>
    </>
  );
}
