import { type AgentIdInput, type Kind, kindTable, type Tenant, tenantName } from '@muster/sdk/contract';
import { invalid, type Refusal } from '../../../domain/refusal.ts';
import { refuseAgent } from '../../access/permit.ts';
import type { Principal } from '../../access/principal.ts';
import { nameAgent } from '../../agents/identify.ts';
import type { Document } from '../document.ts';

/** A document that acts does so in its own tenant, and that of a member on the member's own agents. */
export function refuseOtherAgents(
  caller: Principal,
  tenant: Tenant,
  kind: Kind,
  document: Document,
): Refusal | null {
  const { agentId, spawn } = document as {
    agentId?: AgentIdInput | null;
    spawn?: { agentId?: AgentIdInput } | null;
  };
  const inTenant = { ...caller, tenant: { ...caller.tenant, ...tenant } };
  const named = [
    ['agentId', agentId, 'command'],
    ['spawn.agentId', spawn?.agentId, 'spawn'],
  ] as const;
  for (const [field, input, access] of named) {
    if (!input) continue;
    const agent = nameAgent(input, inTenant);
    const other = agent.tenant;
    if (other.provider !== tenant.provider || other.org !== tenant.org)
      return invalid(
        `payload.${field}.tenant`,
        `must be the tenant of the ${kindTable[kind].one}, "${tenantName(tenant)}"; got "${tenantName(other)}"`,
      );
    const refused = caller.role === 'member' ? refuseAgent(inTenant, access, agent) : null;
    if (refused) return refused;
  }
  return null;
}
