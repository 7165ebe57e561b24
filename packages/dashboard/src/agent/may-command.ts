import type { AgentId, Caller } from '@muster/sdk';

/** Who may do more than look, as the service decides it: a viewer never, a member with its own agents. */
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
