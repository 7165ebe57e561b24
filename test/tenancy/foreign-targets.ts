import type { AgentId, RouteName, Tenant } from '@muster/sdk/contract';
import type { Answer, Api } from '../support/api.ts';
import { postResource, uniqueName } from '../support/catalog.ts';
import { expectOk } from '../support/expect-reply.ts';

export interface ForeignTenant {
  readonly tenant: Tenant;
  readonly admin: Api;
}

export interface Aim {
  readonly id: AgentId;
  /** The name of a persona. */
  readonly resource: string;
}

export const waits = (name: RouteName): boolean => name === 'wait' || name === 'waitMany';

export async function agentIn(chief: Api, id: Partial<AgentId>): Promise<AgentId> {
  const body = {
    agentId: { agent: [uniqueName('agent')], ...id },
    description: 'secret plans',
    tasks: [{ id: 't', subject: 'one' }],
  };
  return expectOk(await chief.post<{ agentId: AgentId }>('/v1/agent/spawn', body)).agentId;
}

/** A target in another tenant, for this route. */
export async function foreignAim(foreign: ForeignTenant, name: RouteName, exists: boolean): Promise<Aim> {
  const id: AgentId = {
    tenant: foreign.tenant,
    ownerProvider: 'PROVIDER_CODEHOST_OAUTH',
    account: 'chief',
    agent: [uniqueName('agent')],
    workspace: 'default',
  };
  const resource = uniqueName('persona');
  if (!exists) return { id, resource };
  await agentIn(foreign.admin, id);
  if (waits(name)) expectOk(await foreign.admin.post('/v1/agent/kill', { agentId: id }));
  expectOk(await postResource(foreign.admin, 'persona', resource, { instructions: 'secret plans' }));
  return { id, resource };
}

/** A reply without the names that the request contained. */
export const masked = (answer: Answer<unknown>, aim: Aim): string =>
  JSON.stringify([answer.status, answer.body])
    .replaceAll(aim.id.agent[0] ?? '', 'NAME')
    .replaceAll(aim.resource, 'NAME')
    .replaceAll(aim.id.tenant.org, 'ORG');
