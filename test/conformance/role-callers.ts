import type { AgentId, Caller } from '@muster/sdk/contract';
import type { Answer, Api } from '../support/api.ts';
import { until } from '../support/async.ts';
import { createKey, uniqueName } from '../support/catalog.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { newTestTenant } from '../support/test-tenant.ts';

export type Role = 'viewer' | 'member' | 'admin' | 'operator';
export const roles: readonly Role[] = ['viewer', 'member', 'admin', 'operator'];

/** The account of each role. */
export const accountOf: Readonly<Record<Role, string>> = {
  viewer: 'vic',
  member: 'mia',
  admin: 'admin',
  operator: 'opal',
};
export const yes = 200;
export const no = 403;

export const expectCell = (answer: Answer<unknown>, cell: number): void => {
  if (cell === yes) expectOk(answer);
  else expectError(answer, 'PERMISSION_DENIED');
};

/** A tenant of a shared server, with a key of each role. Call it at the top of the file. */
export async function callersOfEachRole(given?: Awaited<ReturnType<typeof useSharedServer>>) {
  const server = given ?? (await useSharedServer({ runner: false }));
  const admin = server.api;
  const callers: Readonly<Record<Role, Api>> = {
    viewer: (await createKey(admin, { role: 'viewer', account: accountOf.viewer })).api,
    member: (await createKey(admin, { role: 'member', account: accountOf.member })).api,
    admin,
    operator: server.operator,
  };
  return { server, ...callers, callers, t: await newTestTenant(admin) };
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
