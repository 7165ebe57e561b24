import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { AgentStatus } from '@muster/sdk/contract';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Api, apiOf } from '../support/api.ts';
import { until } from '../support/async.ts';
import { postResource, uniqueName } from '../support/catalog.ts';
import { expectOk } from '../support/expect-reply.ts';
import { type GitRemote, makeGitRemote } from '../support/git-remote.ts';
import { type Server, startServer } from '../support/server.ts';
import { newTenant, operatorOf } from '../support/tenants.ts';

/** The service's own runner serves every tenant; what an agent may use of its machine depends on the tenant. */
let folder: string;
let remote: GitRemote;
let server: Server;
let operator: Api;
const allowedOrg = uniqueName('allowed');

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'muster-allow-'));
  remote = makeGitRemote(folder, 'app');
  remote.commit('main', { 'a.txt': 'one\n' });
  const allow = { [`codehost_app/${allowedOrg}`]: { fromRunner: ['NPM_TOKEN'], repos: [`${folder}/*`] } };
  server = await startServer({
    env: { NPM_TOKEN: 'npm-secret', MUSTER_SANDBOX: 'off', MUSTER_TENANT_ALLOW: JSON.stringify(allow) },
  });
  operator = await operatorOf(server);
});
afterAll(async () => {
  await server?.close();
  await rm(folder, { recursive: true, force: true });
});

/** How the first run of an agent in a workspace with these repositories and variables ended. */
async function ran(api: Api, repos: string[], variables: Record<string, unknown>): Promise<AgentStatus> {
  const name = uniqueName('place');
  expectOk(await postResource(api, 'environment', name, { variables }));
  expectOk(await postResource(api, 'workspace', name, { repos, environment: name }));
  const agentId = { workspace: name, agent: ['a'] };
  const description = '!run printenv X; cat a.txt\n!finish done';
  expectOk(await api.post('/v1/agent/spawn', { agentId, description, model: 'rehearsal-a' }));
  const { body } = await until(
    'the end of its run',
    () => api.post<AgentStatus>('/v1/agent/status', { agentId }),
    ({ body }) => body.run?.state === 'ENDED',
  );
  return body;
}

const fromRunner = { X: { fromRunner: 'NPM_TOKEN' } };

test('a tenant other than the first may use only what is listed, and the error says what to list', async () => {
  const { admin, tenant } = await newTenant(operator);
  expect((await ran(apiOf(server), [remote.url], fromRunner)).run?.outcome).toBe('COMPLETED');
  expect((await ran(admin, [], { X: 'plain' })).run?.outcome).toBe('COMPLETED');
  const listed = (field: string, item: string) =>
    `MUSTER_TENANT_ALLOW='{"codehost_app/${tenant.org}":{"${field}":["${item}"]}}'`;
  const variable = (await ran(admin, [], fromRunner)).error;
  expect(variable?.code).toBe('ENVIRONMENT_INVALID');
  expect(variable?.message).toContain(listed('fromRunner', 'NPM_TOKEN'));
  for (const url of [
    remote.url,
    'http://127.0.0.1:1/app.git',
    'http://localhost:1/app.git',
    'git@127.0.0.1:app',
  ]) {
    const { error } = await ran(admin, [url], {});
    expect(error?.code).toBe('WORKSPACE_NOT_PREPARED');
    expect(error?.message).toContain(listed('repos', url));
  }
});

test('a tenant may use what the operator lists for it', async () => {
  const { admin } = await newTenant(operator, 'chief', allowedOrg);
  const { run } = await ran(admin, [remote.url], fromRunner);
  expect(run?.outcome).toBe('COMPLETED');
});
