import type { ChangeRequest } from '@muster/sdk/contract';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { FakeGithub } from '../codehost/github.ts';
import { Scenario } from '../codehost/scenario.ts';
import { Agents } from '../support/agents.ts';
import { createKey } from '../support/catalog.ts';
import { McpFixture, ToolUser } from './client.ts';

/** The tools that open and list change requests: a real one at a fake code host, and refusals without one. */
const mcp = McpFixture.use();
let scenario: Scenario;
let tools: ToolUser;
beforeAll(async () => {
  scenario = await Scenario.start(await FakeGithub.start(), { changeRequests: 'manual' });
  tools = await ToolUser.open(scenario.server.url, scenario.server.key);
});
afterAll(async () => {
  await tools?.close();
  await scenario?.close();
});

test('a user opens the change request of an agent, and lists those of all agents', async () => {
  const agents = new Agents(scenario.api, 'project');
  await agents.spawn('greet', { description: '!write a.txt hello\n!push Greet\n!say Greets people.' });
  await agents.wait('greet');
  expect(await tools.use('list_change_requests')).toBe('No change requests found.');
  const agent = 'project:greet';
  const { text, data } = await tools.call('open_change_request', { agent, title: 'Greet people' });
  const { name, number, url } = (data as { changeRequest: ChangeRequest }).changeRequest;
  expect(text).toBe(`- ${name}: team/project#${number}, open: ${url}`);
  expect(await tools.use('open_change_request', { agent, title: 'Another' })).toBe(text);
  expect(await tools.use('list_change_requests')).toBe(`${text} [agent project:greet]`);
  expect(await tools.data('list_change_requests', { states: ['MERGED'] })).toEqual({
    changeRequests: [],
    nextPageToken: '',
  });
  expect(await tools.use('agent_status', { agent })).toContain(`Change requests:\n${text}`);
  const viewer = await ToolUser.open(
    scenario.server.url,
    (await createKey(scenario.api, { role: 'viewer' })).api.key,
  );
  expect(await viewer.data('list_change_requests')).toMatchObject({ changeRequests: [{ name }] });
  expect(await viewer.refused('open_change_request', { agent })).toMatch(/^(NOT_FOUND|PERMISSION_DENIED)/);
  await viewer.close();
});

test('an agent opens one for itself, once it has pushed to a repository with an integration', async () => {
  const { path, claim, tools: own } = await mcp.working();
  expect(await own.refused('open_change_request')).toBe(
    `FAILED_PRECONDITION: the agent ${path} has not pushed a branch`,
  );
  const repo = 'https://git.example.com/team/project';
  await mcp.tenant.report(claim, {
    pushes: [{ repo, ref: `muster/${path}`, commits: ['a'.repeat(40)], files: ['a.txt'] }],
  });
  expect(await own.refused('open_change_request', { title: 'Mine' })).toContain(
    `no integration covers ${repo}; add one, or the repository to its \`repos\``,
  );
});
