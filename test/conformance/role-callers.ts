import type { AgentId, Caller } from '@muster/sdk/contract';
import { type Api, apiOf } from '../support/api.ts';
import { until } from '../support/async.ts';
import { createKey, uniqueName } from '../support/catalog.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { sharedServer } from '../support/shared-server.ts';
import { newTestTenant } from '../support/test-tenant.ts';

/** A tenant of the shared server, with a key of each role. */
export async function callersOfEachRole() {
  const server = await sharedServer({ runner: false });
  const admin = apiOf(server);
  return {
    server,
    admin,
    operator: server.operator,
    member: (await createKey(admin, { role: 'member', account: 'mia' })).api,
    viewer: (await createKey(admin, { role: 'viewer', account: 'vic' })).api,
    t: await newTestTenant(admin),
  };
}

export const whoami = async (caller: Api): Promise<Caller> =>
  expectOk(await caller.get<Caller>('/v1/whoami'));

/** A pending agent of this account, with one task. */
export async function agentOf(
  admin: Api,
  account: string,
  ownerProvider = 'PROVIDER_CODEHOST_OAUTH',
): Promise<AgentId> {
  const body = {
    agentId: { ownerProvider, account, agent: [uniqueName('agent')] },
    description: 'work',
    tasks: [{ id: 't', subject: 'one' }],
  };
  return expectOk(await admin.post<{ agentId: AgentId }>('/v1/agent/spawn', body)).agentId;
}

export async function untilRefused(caller: Api): Promise<void> {
  const refused = await until(
    'the key refused',
    () => caller.get('/v1/whoami'),
    ({ status }) => status !== 200,
  );
  expectError(refused, 'UNAUTHENTICATED');
}
