import { beforeAll, describe, expect, test } from 'vitest';
import type { Api } from '../support/api.ts';
import { createKey, postResource } from '../support/catalog.ts';
import type { SharedServer } from '../support/shared-server.ts';
import { newTenant } from '../support/tenants.ts';
import { inAnHour, newTestTenant, type TestTenant } from '../support/test-tenant.ts';
import { McpFixture, type ToolUser } from './client.ts';

/** The tools of a user, called as a chat client or an editor calls them: over MCP, with a key of the user. */
const mcp = McpFixture.use();
let server: SharedServer;
let admin: Api;
let t: TestTenant;
let tools: ToolUser;
beforeAll(async () => {
  ({ server, admin, tenant: t } = mcp);
  tools = await mcp.toolsOf(admin);
});

const readTools = [
  'agent_status',
  'diff',
  'list_agents',
  'list_change_requests',
  'list_queue',
  'list_resources',
  'list_runs',
  'list_tasks',
  'list_threads',
  'read_message',
  'read_resource',
  'read_transcript',
  'usage',
  'wait_for_agents',
  'wait_for_answer',
];
const commandTools = [
  'clear_queue',
  'create_review',
  'create_tasks',
  'kill_agent',
  'label_agent',
  'open_change_request',
  'order_queue',
  'remove_message',
  'reopen_agent',
  'reply_to_thread',
  'resolve_thread',
  'retry_agent',
  'retry_agents',
  'send_message',
  'spawn_agent',
  'stop_turn',
  'update_task',
];

describe('the endpoint', () => {
  test('lists every tool with its description and hints to users who may command', async () => {
    const operator = server.operator;
    for (const api of [admin, (await createKey(admin, { role: 'member' })).api, operator]) {
      const user = await mcp.toolsOf(api);
      const listed = await user.tools();
      expect(listed.map(({ name }) => name).sort()).toEqual([...readTools, ...commandTools].sort());
      for (const { name, description, annotations } of listed) {
        expect(description?.length, name).toBeGreaterThan(30);
        expect(annotations?.readOnlyHint, name).toBe(readTools.includes(name));
      }
    }
    expect(tools.instructions).toMatch(/You act for .+\/admin, as admin\./);
  });

  test('lists only the read tools to a viewer, and refuses the others', async () => {
    const path = mcp.newName();
    await t.spawn(path);
    const viewer = await mcp.toolsOf((await createKey(admin, { role: 'viewer' })).api);
    expect((await viewer.tools()).map(({ name }) => name).sort()).toEqual(readTools);
    const name = `${t.workspace}:${path}`;
    expect(await viewer.use('agent_status', { agent: name })).toContain(`${name}: PENDING`);
    for (const [tool, args] of [
      ['spawn_agent', { description: 'x' }],
      ['send_message', { agent: name, text: 'x' }],
      ['stop_turn', { agent: name }],
      ['kill_agent', { agent: name }],
      ['create_tasks', { agent: name, tasks: [{ subject: 'x' }] }],
      ['update_task', { agent: name, id: 'x' }],
      ['remove_message', { agent: name, id: 'x' }],
      ['clear_queue', { agent: name }],
      ['retry_agent', { agent: name }],
      ['reopen_agent', { agent: name }],
      ['label_agent', { agent: name, labels: { team: 'web' } }],
    ] as const) {
      expect(await viewer.refused(tool, args)).toBe('PERMISSION_DENIED: a viewer may only read');
    }
    expect(await t.phase(path)).toMatch(/^PENDING/);
  });

  test('answers invalid calls with an error', async () => {
    expect(await tools.refused('no_such_tool')).toContain('tool "no_such_tool" not found');
    expect(await tools.refused('agent_status')).toMatch(/^INVALID_ARGUMENT: agent/);
    expect(await tools.refused('agent_status', { agent: 'nobody' })).toMatch(/^NOT_FOUND/);
    expect(await tools.refused('agent_status', { agent: 'not a name' })).toMatch(
      /^INVALID_ARGUMENT: .*agent/,
    );
    expect(await tools.refused('agent_status', { agent: 'a:x', workspace: 'b' })).toMatch(
      /workspace.*differs/,
    );
    expect(await tools.refused('agent_status', { agent: 'x', account: '*' })).toMatch(/account/);
    expect(await tools.refused('agent_status', { agent: 'x', account: 'nowhere/x' })).toMatch(/provider/);
    expect(await tools.refused('kill_agent', { agent: '///' })).toMatch(/^INVALID_ARGUMENT/);
  });
});

describe('spawning', () => {
  test('takes every field of a spawn, and returns the name of the agent', async () => {
    const agent = mcp.newName();
    const spawned = await tools.data('spawn_agent', {
      agent,
      workspace: t.workspace,
      description: 'fix the login',
      tasks: [
        { id: 'a', subject: 'find it' },
        { subject: 'fix it', blockedBy: ['a'] },
      ],
      persona: 'reviewer',
      model: 'rehearsal-b',
      reasoningEffort: 'low',
      expectedOutput: 'a branch',
      outputSchema: { type: 'object' },
      labels: { team: 'web' },
    });
    expect(spawned).toMatchObject({ agent, workspace: t.workspace, phase: 'PHASE_PENDING' });
    expect(spawned.dashboardUrl).toContain(agent);
    expect(await t.status(agent)).toMatchObject({
      description: 'fix the login',
      persona: 'reviewer',
      model: 'rehearsal-b',
      reasoningEffort: 'low',
      expectedOutput: 'a branch',
      outputSchema: '{"type":"object"}',
      labels: { team: 'web' },
      tasks: [{ subject: 'find it' }, { subject: 'fix it', blockedBy: ['a'] }],
    });
    const text = await tools.use('spawn_agent', {
      agent: `${agent}/tests`,
      description: 'test it',
      account: 'admin',
    });
    expect(text).toContain(`${t.workspace}:${agent}/tests is spawned`);
    expect(await t.phase(`${agent}/tests`)).toMatch(/^PENDING/);
  });

  test('generates a different name for each spawn without one', async () => {
    const spawn = () => tools.data('spawn_agent', { description: 'work', workspace: t.workspace });
    const [one, two] = [await spawn(), await spawn()];
    expect(one.agent).not.toBe(two.agent);
    for (const { agent } of [one, two]) await tools.use('kill_agent', { agent });
  });

  test('returns the same agent when repeated, and refuses other arguments until the agent has ended', async () => {
    const spawn = { agent: `${t.workspace}:${mcp.newName()}`, description: 'work' };
    const first = await tools.data('spawn_agent', spawn);
    expect(await tools.data('spawn_agent', spawn)).toEqual(first);
    expect(await tools.refused('spawn_agent', { ...spawn, description: 'other' })).toMatch(
      /^ALREADY_EXISTS: .*send_message/,
    );
    await tools.use('kill_agent', { agent: spawn.agent });
    await tools.use('spawn_agent', spawn);
    expect(await tools.use('agent_status', { agent: spawn.agent })).toContain('PENDING');
  });

  test('refuses invalid spawns', async () => {
    expect(await tools.refused('spawn_agent', { description: 'x', persona: 'nobody' })).toMatch(
      /persona|agent/,
    );
    expect(await tools.refused('spawn_agent', { agent: 'no-parent/child', description: 'x' })).toMatch(
      /^NOT_FOUND/,
    );
    expect(await tools.refused('spawn_agent', { agent: mcp.newName() })).toMatch(
      /^INVALID_ARGUMENT: description/,
    );
  });
});

describe('reading', () => {
  test('lists agents with filters, page by page, and the children of one', async () => {
    const tenant = await newTestTenant(admin);
    const { workspace } = tenant;
    expect(await tools.use('list_agents', { workspace })).toBe('No agents found.');
    for (const path of ['one', 'two', 'three', 'one/kid']) await tenant.spawn(path);
    await tenant.turn('two', { question: 'Red or blue?' });
    await tenant.kill('three');
    expect(await tools.use('list_agents', { workspace })).toBe(
      [
        `- ${workspace}:two: WAITING_FOR_INPUT (QUESTION), question: Red or blue? [$0.00]`,
        `- ${workspace}:one: RUNNING (STARTING) [1 child, $0.00]`,
      ].join('\n'),
    );
    const namesOf = async (args: Record<string, unknown>) =>
      ((await tools.data('list_agents', { workspace, ...args })).agents as { agent: string }[]).map(
        ({ agent }) => agent,
      );
    expect(await namesOf({ includeEnded: true })).toEqual(['three', 'two', 'one']);
    expect(await namesOf({ phases: ['waiting_for_input'] })).toEqual(['two']);
    expect(await namesOf({ phases: ['canceled'] })).toEqual(['three']);
    expect(await namesOf({ text: 'on' })).toEqual(['one']);
    expect(await namesOf({ parent: 'one' })).toEqual(['one/kid']);
    expect(await namesOf({ allDepths: true })).toEqual(['one/kid', 'two', 'one']);
    expect(await namesOf({ account: '*' })).toEqual(['two', 'one']);
    const first = await tools.data('list_agents', { workspace, limit: 1 });
    expect(await namesOf({ limit: 1, pageToken: first.nextPageToken })).toEqual(['one']);
    const listed = await tools.use('list_agents', { workspace, limit: 1 });
    const [, pageToken] = /pageToken (\S+)/.exec(listed) ?? [];
    expect(await namesOf({ limit: 1, pageToken })).toEqual(['one']);
  });

  test('shows the whole status of one agent', async () => {
    const path = mcp.newName();
    await t.spawn(path, { tasks: [{ id: 't', subject: 'fix it' }] });
    const claim = await t.start(path);
    await t.queue(path, { description: 'much later', deliverAt: inAnHour() });
    await t.report(claim, { items: [{ type: 'MESSAGE', text: 'On it.' }] });
    await t.report(claim, { unpushed: { commits: 2, files: 1, isSaved: false } });
    await t.end(claim, 'COMPLETED', { question: 'Which?', response: 'I need to know.' });
    const text = await tools.use('agent_status', { agent: path, workspace: t.workspace });
    expect(text).toContain(`${t.workspace}:${path}: WAITING_FOR_INPUT (QUESTION)`);
    for (const part of [
      'Question: Which?',
      'Response: I need to know.',
      'Unpushed: 2 commits, 1 changed file; not saved',
      '- [ ] t: fix it',
      'much later',
      'Dashboard: http',
    ])
      expect(text).toContain(part);
    expect(await tools.data('agent_status', { agent: path })).toMatchObject({
      agent: path,
      workspace: t.workspace,
      phase: 'PHASE_WAITING_FOR_INPUT',
      reason: 'QUESTION',
      question: 'Which?',
      openTasks: [{ id: 't', subject: 'fix it' }],
      queue: [{ text: 'much later' }],
      unpushed: { commits: 2, files: 1 },
      checkpointAt: null,
      run: '1',
    });
  });

  test('shows what an agent has pushed, and its working tree', async () => {
    const agent = mcp.newName();
    await t.spawn(agent);
    const claim = await t.start(agent);
    expect(await tools.use('diff', { agent })).toBe(`${agent} has pushed nothing.`);
    const repo = 'https://git.example.com/a.git';
    const diff = { repo, files: 1, insertions: 1, deletions: 0, text: 'diff --git a/x b/x\n+one\n' };
    const push = { repo, ref: 'muster/a', commits: ['c1'], files: ['x'] };
    await t.report(claim, { pushes: [push], diff });
    await t.report(claim, { diff: { ...diff, insertions: 2, workingTree: true, text: '+one\n+two\n' } });
    const pushed = await tools.use('diff', { agent });
    expect(pushed).toMatch(/^\S+ on \S+: 1 file, \+1 -0\n/);
    expect(pushed).toContain('diff --git a/x b/x\n+one');
    expect(await tools.data('diff', { agent, workingTree: true, from: 5 })).toMatchObject({
      diffStat: { files: 1, insertions: 2, deletions: 0 },
      diff: '+two\n',
      next: null,
    });
    expect(await tools.refused('diff', { agent, from: 1000 })).toMatch(/^INVALID_ARGUMENT: from.*got 1000/);
    expect(await tools.refused('diff', { agent: 'nobody' })).toMatch(/^NOT_FOUND/);
  });

  test('lists the agents that have all given labels', async () => {
    const tenant = await newTestTenant(admin);
    const { workspace } = tenant;
    await tenant.spawn('one', { labels: { team: 'web', tier: '1' } });
    await tenant.spawn('two', { labels: { team: 'web' } });
    expect(await tools.use('list_agents', { workspace, labels: { team: 'web', tier: '1' } })).toBe(
      `- ${workspace}:one: PENDING (NO_RUNNER) [$0.00, team=web, tier=1]`,
    );
    const { agents } = await tools.data('list_agents', { workspace, labels: { team: 'web' } });
    expect(agents).toMatchObject([{ agent: 'two', labels: { team: 'web' } }, { agent: 'one' }]);
    expect(await tools.use('list_agents', { workspace, labels: { team: 'api' } })).toBe('No agents found.');
    expect(await tools.refused('list_agents', { labels: { 'a b': 'x' } })).toMatch(
      /^INVALID_ARGUMENT: labels/,
    );
  });

  test('lists runs with truncated responses, and one run with its whole response', async () => {
    const agent = mcp.newName();
    await t.spawn(agent);
    expect(await tools.use('list_runs', { agent })).toBe('The agent has not run yet.');
    const long = 'word '.repeat(2000);
    await t.turn(agent, { response: 'First answer.' });
    await t.queue(agent, { followUpId: 'more', description: 'more' });
    await t.turn(agent, { response: long });
    const listed = await tools.use('list_runs', { agent });
    expect(listed).toMatch(/^Run 2: COMPLETED, from .*\nMessages: more\nResponse: word /);
    expect(listed).toContain('… (truncated: pass run 2 to read all)\n\nRun 1: COMPLETED');
    expect(listed).toContain('Response: First answer.');
    const { runs } = await tools.data('list_runs', { agent, before: 2 });
    expect(runs).toMatchObject([{ runId: '1', response: 'First answer.', truncated: false }]);
    expect((await tools.data('list_runs', { agent, limit: 1 })).runs).toHaveLength(1);
    expect(await tools.use('list_runs', { agent, run: 2 })).toContain(`Response: ${long}`);
    expect(await tools.refused('list_runs', { agent, run: 3 })).toMatch(/^INVALID_ARGUMENT: runId/);
    expect(await tools.refused('list_runs', { agent: 'nobody' })).toMatch(/^NOT_FOUND/);
  });

  test('reads the agents of other accounts, and commands them only if HTTP would allow it', async () => {
    const member = await createKey(admin, { role: 'member', account: 'bob' });
    const bob = await mcp.toolsOf(member.api);
    const agent = mcp.newName();
    await bob.use('spawn_agent', { agent, description: 'work', workspace: t.workspace });
    expect(await tools.refused('agent_status', { agent })).toMatch(/^NOT_FOUND/);
    expect(await tools.use('agent_status', { agent, account: 'bob' })).toContain(`${agent}: PENDING`);
    expect(await tools.use('list_agents', { account: '*', text: agent })).toMatch(/\[of [a-z_]+\/bob, /);
    const mine = mcp.newName();
    await t.spawn(mine);
    expect(await bob.use('agent_status', { agent: mine, account: 'admin' })).toContain('PENDING');
    expect(await bob.refused('kill_agent', { agent: mine, account: 'admin' })).toMatch(/^PERMISSION_DENIED/);
    await tools.use('kill_agent', { agent, account: 'bob' });
  });

  test('sees nothing of another tenant', async () => {
    const agent = mcp.newName();
    await t.spawn(agent);
    const stranger = await mcp.toolsOf((await newTenant(server.operator, 'admin')).admin);
    expect(await stranger.use('list_agents', { account: '*' })).toBe('No agents found.');
    expect(await stranger.refused('agent_status', { agent: `${t.workspace}:${agent}` })).toMatch(
      /^NOT_FOUND/,
    );
    expect(await stranger.resources()).toEqual([]);
    await expect(stranger.read(`muster://agents/${t.workspace}/${agent}/transcript`)).rejects.toThrow(
      /NOT_FOUND/,
    );
  });

  test('reads catalog resources as JSON', async () => {
    await postResource(admin, 'persona', 'terse', { instructions: 'Be terse.' });
    expect(await tools.use('list_resources', { kind: 'personas' })).toMatch(
      /- default \(built in\)[\s\S]*- terse/,
    );
    expect(await tools.data('read_resource', { kind: 'persona', name: 'terse' })).toMatchObject({
      kind: 'persona',
      generation: '1',
      document: { instructions: 'Be terse.' },
    });
    const first = await tools.data('list_resources', { kind: 'persona', limit: 1 });
    const rest = await tools.data('list_resources', { kind: 'persona', pageToken: first.nextPageToken });
    expect(JSON.stringify(rest)).toContain('terse');
    expect(await tools.refused('read_resource', { kind: 'persona', name: 'nobody' })).toMatch(/^NOT_FOUND/);
    expect(await tools.refused('list_resources', { kind: 'nothing' })).toMatch(/^NOT_FOUND/);
  });
});
