import type { AgentId, AgentStatus, Caller } from '@muster/sdk';
import { isTerminal, limits } from '@muster/sdk/contract';

/** The same rule as in the service: viewers and share links only read, members control their own agents. */
export function mayCommand(caller: Caller, agentId: AgentId): boolean {
  switch (caller.role) {
    case 'admin':
    case 'operator':
      return true;
    case 'member':
      return caller.account === agentId.account && caller.ownerProvider === agentId.ownerProvider;
    default:
      return false;
  }
}

/** A blocked agent can retry, and so can one that waits for its next attempt. */
export const canRetry = ({ phaseReason, wakesAt }: AgentStatus): boolean =>
  phaseReason === 'BLOCKED' || (phaseReason === 'RETRYING' && wakesAt !== null);

/** A killed agent stays ended. */
export const canReopen = ({ phase }: AgentStatus): boolean =>
  phase === 'PHASE_COMPLETED' || phase === 'PHASE_FAILED';

export const canHaveChild = ({ phase, agentId }: AgentStatus): boolean =>
  !isTerminal(phase) && agentId.agent.length < limits.pathDepth;
