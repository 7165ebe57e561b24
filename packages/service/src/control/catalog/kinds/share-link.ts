import { type AgentIdInput, type ShareLinkDocument, type Tenant, tenantName } from '@muster/sdk/contract';
import { invalid, isRefusal, type Refusal } from '../../../domain/refusal.ts';
import { formatKey } from '../../../lib/token.ts';
import { findAgents } from '../../../store/statements/find-agents.ts';
import { readOpens } from '../../../store/statements/keys.ts';
import { wantedParameters } from '../../../store/statements/load-agents.ts';
import { refuseAgent, refuseCreator } from '../../access/permit.ts';
import type { Principal } from '../../access/principal.ts';
import { nameAgent, pickAgent } from '../../agents/identify.ts';
import type { Document } from '../document.ts';
import { deleteKey, type KeyOwner, saveKey } from './keys.ts';
import type { KindRules, WriteTransaction } from './rules.ts';

export const shareLinkRules: KindRules = {
  complete: withAgent,
  refuse: (caller, tenant, stored) => {
    if (!stored.agentId) return refuseCreator(caller, 'share-link', stored.createdBy);
    const link = withAgent(caller, tenant, stored);
    return isRefusal(link) ? link : null;
  },
  onWrite: async (transaction, document) => {
    const owner = await ownerOf(transaction, document);
    if (isRefusal(owner)) return owner;
    const { publicUrl } = transaction;
    return saveKey(transaction, document, owner, (key) => ({
      url: `${publicUrl()}/share#${formatKey(key)}`,
    }));
  },
  onDelete: deleteKey,
  state: async (database, tenant, found) => {
    const rows = await readOpens(database, tenant, [...found.keys()]);
    return new Map(rows.map(({ name, opens, opened_at: openedAt }) => [name, { opens, openedAt }]));
  },
};

/** Fills in whose agent a link shows; a member may only share its own agents. */
function withAgent(caller: Principal, tenant: Tenant, document: Document): Document | Refusal {
  const { agentId } = document as ShareLinkDocument;
  if (!agentId) return document;
  const inTenant = { ...caller, tenant: { ...caller.tenant, ...tenant } };
  const named = nameAgent(agentId as AgentIdInput, inTenant);
  if (named.tenant.provider !== tenant.provider || named.tenant.org !== tenant.org) {
    const expected = `must be the tenant of the share link, "${tenantName(tenant)}"`;
    return invalid('payload.agentId.tenant', `${expected}; got "${tenantName(named.tenant)}"`);
  }
  const refused = caller.role === 'member' ? refuseAgent(inTenant, 'command', named) : null;
  const { path, ...rest } = named;
  return refused ?? { ...document, agentId: { ...rest, agent: [...path] } };
}

/** A link is bound to the agent that has the name now; to the name if there is none yet. */
async function ownerOf(
  { connection, tenant }: WriteTransaction,
  document: Document,
): Promise<KeyOwner | Refusal> {
  const agentId = document.agentId as (AgentIdInput & { agent: string[] }) | undefined;
  const ownerProvider = agentId?.ownerProvider || 'PROVIDER_UNSPECIFIED';
  const { account = '', workspace = '', agent: path = [] } = agentId ?? {};
  const identity = { tenant, ownerProvider, account, workspace, path };
  const holders = await findAgents(connection, ...wantedParameters([{ identity }]));
  const states = holders.map((agent) => ({ agent }));
  const holder = states.length > 0 ? pickAgent(states, path, 'payload.agentId.workspace') : undefined;
  if (isRefusal(holder)) return holder;
  const bound = holder && { id: holder.agent.id, workspace: holder.agent.workspace };
  return {
    role: 'share',
    owner_provider: ownerProvider,
    account,
    pool: '',
    agent: agentId ? { ownerProvider, account, workspace, path, ...bound } : null,
  };
}
