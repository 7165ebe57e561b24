import type { AgentId, AgentStatus, Caller } from '@muster/sdk';
import { isTerminal, limits } from '@muster/sdk/contract';

export const isAdmin = ({ role }: Caller): boolean => role === 'admin' || role === 'operator';

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

export const canHaveChild = ({ phase, agentId }: AgentStatus): boolean =>
  !isTerminal(phase) && agentId.agent.length < limits.pathDepth;
