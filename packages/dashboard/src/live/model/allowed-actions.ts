import type { AgentId, AgentStatus, Caller } from '@muster/sdk';
import { isTerminal, limits } from '@muster/sdk/contract';

export type Owner = Pick<Caller, 'ownerProvider' | 'account'>;

export const isOwn = ({ agentId }: { readonly agentId: AgentId }, owner: Owner): boolean =>
  agentId.account === owner.account && agentId.ownerProvider === owner.ownerProvider;

export const isAdmin = ({ role }: Caller): boolean => role === 'admin' || role === 'operator';

/** The same rule as in the service: viewers and share links only read, members control their own agents. */
export function mayCommand(caller: Caller, agentId: AgentId): boolean {
  return isAdmin(caller) || (caller.role === 'member' && isOwn({ agentId }, caller));
}

export const canHaveChild = ({ phase, agentId }: AgentStatus): boolean =>
  !isTerminal(phase) && agentId.agent.length < limits.pathDepth;
