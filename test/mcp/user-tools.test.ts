import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Agents } from '../support/agents.ts';
import { type Api, apiOf } from '../support/api.ts';
import { until } from '../support/async.ts';
import { createKey, postResource } from '../support/catalog.ts';
import { sendRaw } from '../support/raw-requests.ts';
import { type Server, startServer } from '../support/server.ts';
import { newTenant, operatorOf } from '../support/tenants.ts';
import { inAnHour, newTestTenant, type TestTenant } from '../support/test-tenant.ts';
import { ToolUser } from './client.ts';

/** A user's tools, used as a chat client or an editor uses them: over MCP, with a key of the user. */
let server: Server;
let admin: Api;
let t: TestTenant;
let tools: ToolUser;
const open: ToolUser[] = [];

beforeAll(async () => {
  server = await startServer({ runner: false });
  admin = apiOf(server);
  t = await newTestTenant(admin);
  tools = await toolsOf(admin);
});
afterAll(async () => {
  for (const user of open) await user.close();
  await server?.close();
});

async function toolsOf({ key }: Api): Promise<ToolUser> {
  const user = await ToolUser.open(server.url, key);
  open.push(user);
  return user;
}

let count = 0;
const fresh = (): string => {
  count += 1;
  return `agent-${count}`;
};

const readers = [
  'agent_status',
  'list_agents',
  'list_queue',
  'list_resources',
  'list_runs',
  'list_tasks',
  'read_message',
  'read_resource',
  'read_transcript',
  'wait_for_agents',
  'wait_for_answer',
];
const commanders = [
  'clear_queue',
  'create_tasks',
  'kill_agent',
  'label_agent',
  'remove_message',
  'reopen_agent',
  'retry_agent',
  'send_message',
  'spawn_agent',
  'stop_turn',
  'update_task',
];

describe('the door', () => {
  test('shows every tool to who may use it, with words for a model and hints for its client', async () => {
    const operator = await operatorOf(server);
    for (const api of [admin, (await createKey(admin, { role: 'member' })).api, operator]) {
      const user = await toolsOf(api);
      const listed = await user.tools();
      expect(listed.map(({ name }) => name).sort()).toEqual([...readers, ...commanders].sort());
      for (const { name, description, annotations } of listed) {
        expect(description?.length, name).toBeGreaterThan(30);
        expect(annotations?.readOnlyHint, name).toBe(readers.includes(name));
      }
    }
    expect(tools.instructions).toMatch(/You act for .+\/admin, as admin\./);
  });

  test('shows a viewer what it may use, and refuses it the rest', async () => {
    const path = fresh();
    await t.spawn(path);
    const viewer = await toolsOf((await createKey(admin, { role: 'viewer' })).api);
    expect((await viewer.tools()).map(({ name }) => name).sort()).toEqual(readers);
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

  test('says what is wrong with a call, and does nothing', async () => {
    expect(await tools.refused('no_such_tool')).toContain('there is no tool "no_such_tool"');
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
  test('takes everything that a spawn takes, and answers with the name to use from then on', async () => {
    const agent = fresh();
    const spawned = await tools.data('spawn_agent', {
      agent,
      workspace: t.workspace,
      description: 'fix the login',
      tasks: [
        { id: 'a', subject: 'find it' },
        { subject: 'mend it', blockedBy: ['a'] },
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
      tasks: [{ subject: 'find it' }, { subject: 'mend it', blockedBy: ['a'] }],
    });
    const text = await tools.use('spawn_agent', {
      agent: `${agent}/tests`,
      description: 'test it',
      account: 'admin',
    });
    expect(text).toContain(`${t.workspace}:${agent}/tests is spawned`);
    expect(await t.phase(`${agent}/tests`)).toMatch(/^PENDING/);
  });

  test('makes a name where none is given, and never the same agent twice', async () => {
    const spawn = () => tools.data('spawn_agent', { description: 'work', workspace: t.workspace });
    const [one, two] = [await spawn(), await spawn()];
    expect(one.agent).not.toBe(two.agent);
    for (const { agent } of [one, two]) await tools.use('kill_agent', { agent });
  });

  test('repeated it is the same one; another of a living name is refused; of a dead one it is new', async () => {
    const spawn = { agent: `${t.workspace}:${fresh()}`, description: 'work' };
    const first = await tools.data('spawn_agent', spawn);
    expect(await tools.data('spawn_agent', spawn)).toEqual(first);
    expect(await tools.refused('spawn_agent', { ...spawn, description: 'other' })).toMatch(
      /^ALREADY_EXISTS: .*send_message/,
    );
    await tools.use('kill_agent', { agent: spawn.agent });
    await tools.use('spawn_agent', spawn);
    expect(await tools.use('agent_status', { agent: spawn.agent })).toContain('PENDING');
  });

  test('refuses what a spawn refuses', async () => {
    expect(await tools.refused('spawn_agent', { description: 'x', persona: 'nobody' })).toMatch(
      /persona|agent/,
    );
    expect(await tools.refused('spawn_agent', { agent: 'no-parent/child', description: 'x' })).toMatch(
      /^NOT_FOUND/,
    );
    expect(await tools.refused('spawn_agent', { agent: fresh() })).toMatch(/^INVALID_ARGUMENT: description/);
  });
});

describe('looking', () => {
  test('lists agents with filters, page by page, and the children of one', async () => {
    const tenant = await newTestTenant(admin);
    const { workspace } = tenant;
    expect(await tools.use('list_agents', { workspace })).toBe('There are none.');
    for (const path of ['one', 'two', 'three', 'one/kid']) await tenant.spawn(path);
    await tenant.turn('two', { question: 'Red or blue?' });
    await tenant.kill('three');
    expect(await tools.use('list_agents', { workspace })).toBe(
      [
        `- ${workspace}:two: WAITING_FOR_INPUT (QUESTION), asks: Red or blue? [$0.00]`,
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

  test('tells everything about one agent', async () => {
    const path = fresh();
    await t.spawn(path, { tasks: [{ id: 't', subject: 'mend it' }] });
    const claim = await t.start(path);
    await t.queue(path, { description: 'much later', deliverAt: inAnHour() });
    await t.report(claim, { items: [{ type: 'MESSAGE', text: 'On it.' }] });
    await t.report(claim, { unpushed: { commits: 2, files: 1, isSaved: false } });
    await t.end(claim, 'COMPLETED', { question: 'Which?', response: 'I need to know.' });
    const text = await tools.use('agent_status', { agent: path, workspace: t.workspace });
    expect(text).toContain(`${t.workspace}:${path}: WAITING_FOR_INPUT (QUESTION)`);
    for (const part of [
      'It asks: Which?',
      'It said: I need to know.',
      'Unpushed: 2 commits, 1 changed file; not saved',
      '- [ ] t: mend it',
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
      openTasks: [{ id: 't', subject: 'mend it' }],
      queue: [{ text: 'much later' }],
      unpushed: { commits: 2, files: 1 },
      checkpointAt: null,
      run: '1',
    });
  });

  test('lists agents by all of the labels it is given', async () => {
    const tenant = await newTestTenant(admin);
    const { workspace } = tenant;
    await tenant.spawn('one', { labels: { team: 'web', tier: '1' } });
    await tenant.spawn('two', { labels: { team: 'web' } });
    expect(await tools.use('list_agents', { workspace, labels: { team: 'web', tier: '1' } })).toBe(
      `- ${workspace}:one: PENDING (NO_RUNNER) [$0.00, team=web, tier=1]`,
    );
    const { agents } = await tools.data('list_agents', { workspace, labels: { team: 'web' } });
    expect(agents).toMatchObject([{ agent: 'two', labels: { team: 'web' } }, { agent: 'one' }]);
    expect(await tools.use('list_agents', { workspace, labels: { team: 'api' } })).toBe('There are none.');
    expect(await tools.refused('list_agents', { labels: { 'a b': 'x' } })).toMatch(
      /^INVALID_ARGUMENT: labels/,
    );
  });

  test('reads runs with their answers, and one with its whole answer', async () => {
    const agent = fresh();
    await t.spawn(agent);
    expect(await tools.use('list_runs', { agent })).toBe('The agent has not run yet.');
    const long = 'word '.repeat(2000);
    await t.turn(agent, { response: 'First answer.' });
    await t.queue(agent, { followUpId: 'more', description: 'more' });
    await t.turn(agent, { response: long });
    const listed = await tools.use('list_runs', { agent });
    expect(listed).toMatch(/^Run 2: COMPLETED, from .*\nIts messages: more\nIt said: word /);
    expect(listed).toContain('… (cut: name run 2 to read all)\n\nRun 1: COMPLETED');
    expect(listed).toContain('It said: First answer.');
    const { runs } = await tools.data('list_runs', { agent, before: 2 });
    expect(runs).toMatchObject([{ runId: '1', response: 'First answer.', truncated: false }]);
    expect((await tools.data('list_runs', { agent, limit: 1 })).runs).toHaveLength(1);
    expect(await tools.use('list_runs', { agent, run: 2 })).toContain(`It said: ${long}`);
    expect(await tools.refused('list_runs', { agent, run: 3 })).toMatch(/^INVALID_ARGUMENT: runId/);
    expect(await tools.refused('list_runs', { agent: 'nobody' })).toMatch(/^NOT_FOUND/);
  });

  test("reads others' agents by their account, and commands them only where HTTP would", async () => {
    const member = await createKey(admin, { role: 'member', account: 'bob' });
    const bob = await toolsOf(member.api);
    const agent = fresh();
    await bob.use('spawn_agent', { agent, description: 'work', workspace: t.workspace });
    expect(await tools.refused('agent_status', { agent })).toMatch(/^NOT_FOUND/);
    expect(await tools.use('agent_status', { agent, account: 'bob' })).toContain(`${agent}: PENDING`);
    expect(await tools.use('list_agents', { account: '*', text: agent })).toMatch(/\[of [a-z_]+\/bob, /);
    const mine = fresh();
    await t.spawn(mine);
    expect(await bob.use('agent_status', { agent: mine, account: 'admin' })).toContain('PENDING');
    expect(await bob.refused('kill_agent', { agent: mine, account: 'admin' })).toMatch(/^PERMISSION_DENIED/);
    await tools.use('kill_agent', { agent, account: 'bob' });
  });

  test('sees nothing of another tenant', async () => {
    const agent = fresh();
    await t.spawn(agent);
    const stranger = await toolsOf((await newTenant(await operatorOf(server), 'admin')).admin);
    expect(await stranger.use('list_agents', { account: '*' })).toBe('There are none.');
    expect(await stranger.refused('agent_status', { agent: `${t.workspace}:${agent}` })).toMatch(
      /^NOT_FOUND/,
    );
    expect(await stranger.resources()).toEqual([]);
    await expect(stranger.read(`muster://agents/${t.workspace}/${agent}/transcript`)).rejects.toThrow(
      /NOT_FOUND/,
    );
  });

  test('reads the catalog as documents', async () => {
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

describe('waiting', () => {
  test('for one of many, and for all of them', async () => {
    const [a, b] = [fresh(), fresh()];
    for (const path of [a, b]) await t.spawn(path);
    const [claimA, claimB] = [await t.start(a), await t.start(b)];
    const agents = [a, b];
    const any = tools.call('wait_for_agents', { agents, timeoutSeconds: 600 });
    const all = tools.call('wait_for_agents', { agents, waitFor: 'all', timeoutSeconds: 600 });
    await t.end(claimA, 'COMPLETED', { question: 'Red or blue?' });
    const first = await any;
    expect(first.text).toBe(
      `${t.workspace}:${a}: WAITING_FOR_INPUT (QUESTION)\nIt asks: Red or blue?\n\nStill at work:\n- ${t.workspace}:${b}: RUNNING (WORKING)`,
    );
    expect(first.data).toMatchObject({
      settled: [{ agent: a, question: 'Red or blue?' }],
      working: [`${t.workspace}:${b}`],
    });
    await t.end(claimB, 'FAILED', { error: { code: 'REHEARSED_FAILURE', message: 'it broke' } });
    expect((await all).data).toMatchObject({
      settled: [{ agent: a }, { agent: b, error: { code: 'REHEARSED_FAILURE' } }],
      working: [],
    });
    expect(await tools.use('wait_for_agents', { agents })).toContain(
      'It failed: REHEARSED_FAILURE: it broke',
    );
    expect(await tools.refused('wait_for_agents', { agents: [a, 'nobody'] })).toMatch(/^NOT_FOUND/);
  });

  test('for the agents below one', async () => {
    const root = fresh();
    for (const path of [root, `${root}/kid`, `${root}/kid/grandkid`]) await t.spawn(path);
    const claims = [await t.start(`${root}/kid`), await t.start(`${root}/kid/grandkid`)] as const;
    const any = tools.call('wait_for_agents', { below: root, timeoutSeconds: 600 });
    const all = tools.call('wait_for_agents', { below: root, waitFor: 'all', timeoutSeconds: 600 });
    await t.end(claims[1], 'COMPLETED', { question: 'Red or blue?' });
    expect((await any).data).toMatchObject({
      settled: [{ agent: `${root}/kid/grandkid`, question: 'Red or blue?' }],
      working: [`${t.workspace}:${root}/kid`],
    });
    const name = `${t.workspace}:${root}/kid`;
    expect(await tools.use('wait_for_agents', { below: root, waitFor: 'all', timeoutSeconds: 0 })).toBe(
      [
        'The time is over.',
        `Still at work:\n- ${name}: RUNNING (WORKING)`,
        `The others:\n- ${name}/grandkid: WAITING_FOR_INPUT (QUESTION), asks: Red or blue?`,
      ].join('\n\n'),
    );
    await t.end(claims[0], 'FAILED', { error: { code: 'REHEARSED_FAILURE', message: 'it broke' } });
    expect((await all).data).toMatchObject({
      settled: [{ agent: `${root}/kid/grandkid` }, { agent: `${root}/kid`, error: 'it broke' }],
      working: [],
    });
    const leaf = `${root}/kid/grandkid`;
    expect(await tools.use('wait_for_agents', { below: leaf, waitFor: 'all' })).toBe(
      `There are no agents below ${t.workspace}:${leaf}.`,
    );
    for (const args of [{}, { agents: [root], below: root }])
      expect(await tools.refused('wait_for_agents', args)).toBe(
        'INVALID_ARGUMENT: agents: give agents or below',
      );
    expect(await tools.refused('wait_for_agents', { below: 'nobody' })).toMatch(/^NOT_FOUND/);
  });

  test('for the answer to one message, and for the end of one run', async () => {
    const agent = fresh();
    await t.spawn(agent);
    const first = await t.start(agent);
    const { id } = await tools.data('send_message', { agent, text: 'Which color?' });
    const answer = tools.call('wait_for_answer', { agent, id, timeoutSeconds: 600 });
    const run = tools.call('wait_for_answer', { agent, run: 1, timeoutSeconds: 600 });
    await t.end(first, 'COMPLETED', { response: 'Started.' });
    expect((await run).text).toMatch(/^Run 1: COMPLETED, .*\nIt said: Started\.$/);
    const over = await tools.call('wait_for_answer', { agent, id, timeoutSeconds: 0 });
    expect(over.text).toMatch(/^The time is over\.\n\n.*not answered yet/);
    expect(over.data).toMatchObject({ timedOut: true });
    await t.turn(agent, { response: 'Blue.' });
    expect((await answer).text).toBe(
      `${id}: DELIVERED, run 2, answered\nIts text: Which color?\nThe answer: Blue.`,
    );
    for (const args of [{}, { id, run: 1 }])
      expect(await tools.refused('wait_for_answer', { agent, ...args })).toBe(
        'INVALID_ARGUMENT: id: give id or run',
      );
    expect(await tools.refused('wait_for_answer', { agent, id: 'none' })).toMatch(/^NOT_FOUND/);
    expect(await tools.refused('wait_for_answer', { agent, run: 9 })).toMatch(/^INVALID_ARGUMENT: runId/);
  });

  test('no longer than it is told to', async () => {
    const path = fresh();
    await t.spawn(path);
    const { text, data } = await tools.call('wait_for_agents', { agents: [path], timeoutSeconds: 0 });
    expect(text).toMatch(/^The time is over, and none needs attention yet\.\n\nStill at work:/);
    expect(data).toEqual({ settled: [], working: [`${t.workspace}:${path}`] });
  });

  test('lets go when the client goes away, and when its key is revoked', async () => {
    const path = fresh();
    await t.spawn(path);
    const wait = { agents: [path], timeoutSeconds: 600 };
    const leaving = await ToolUser.open(server.url, admin.key);
    const left = leaving.call('wait_for_agents', wait).catch(() => null);
    await untilOpenWaits(1);
    await leaving.close();
    await left;
    await untilOpenWaits(0);
    const { name, api } = await createKey(admin, { role: 'admin' });
    const revoked = (await toolsOf(api)).call('wait_for_agents', { ...wait, account: 'admin' });
    await untilOpenWaits(1);
    await admin.del(`/v1/catalog/token/${name}`);
    expect(await revoked).toMatchObject({ failed: true });
    await untilOpenWaits(0);
  });

  const untilOpenWaits = (wanted: number) =>
    until(
      `${wanted} open waits`,
      async () => (await sendRaw(server.url, { method: 'GET', path: '/metrics' })).text,
      (text) => new RegExp(`^muster_long_replies_open\\{kind="wait"\\} ${wanted}$`, 'm').test(text),
    );
});

describe('commanding', () => {
  test('messages, now, later, and before everything else', async () => {
    const agent = fresh();
    await t.spawn(agent);
    await t.start(agent);
    const sent = await tools.data('send_message', { agent, text: 'also this' });
    const at = inAnHour();
    await tools.use('send_message', { agent, text: 'at nine', deliverAt: at });
    await tools.use('send_message', { agent, text: 'in a while', delaySeconds: 7200 });
    const queue = (await tools.data('list_queue', { agent })).messages as { followUpId: string }[];
    expect(queue).toMatchObject([
      { followUpId: sent.id, description: 'also this', deliverAt: null },
      { description: 'at nine', deliverAt: at },
      { description: 'in a while' },
    ]);
    expect(await tools.use('list_queue', { agent })).toContain(`- ${sent.id}: also this\n`);
    expect(await tools.use('remove_message', { agent, id: sent.id })).toBe('Removed.');
    expect(await tools.use('clear_queue', { agent })).toBe('Messages taken back: 0.');
    await tools.use('send_message', { agent, text: 'and this' });
    expect(await tools.use('clear_queue', { agent })).toBe('Messages taken back: 1.');
    for (const { followUpId } of queue.slice(1)) await tools.use('remove_message', { agent, id: followUpId });
    expect(await tools.use('list_queue', { agent })).toBe('No message waits.');
    await tools.use('send_message', {
      agent,
      text: 'drop everything',
      preempt: true,
      model: 'claude-sonnet-5',
    });
    expect(await t.status(agent)).toMatchObject({
      phaseReason: 'STOPPING',
      followUps: [{ description: 'drop everything', model: 'claude-sonnet-5' }],
    });
    for (const [more, blamed] of [
      [{ deliverAt: at, preempt: true }, 'deliverAt'],
      [{ deliverAt: 'tomorrow' }, 'deliverAt'],
      [{ deliverAt: at, delaySeconds: 1 }, 'delaySeconds'],
    ] as const)
      expect(await tools.refused('send_message', { agent, text: 'x', ...more })).toContain(blamed);
  });

  test('reads long messages whole, page by page', async () => {
    const agent = fresh();
    await t.spawn(agent);
    await t.start(agent);
    const long = 'word '.repeat(2000);
    const { id } = await tools.data('send_message', { agent, text: long });
    await tools.use('send_message', { agent, text: 'and this' });
    expect(await tools.use('agent_status', { agent })).toContain('word … (cut)\n- and this');
    const first = await tools.data('list_queue', { agent, limit: 1 });
    expect(first.messages).toMatchObject([{ followUpId: id, description: long }]);
    const { messages } = await tools.data('list_queue', { agent, pageToken: first.nextPageToken });
    expect(messages).toMatchObject([{ description: 'and this' }]);
    expect(await tools.use('read_message', { agent, id })).toBe(
      `${id}: QUEUED, not answered yet\nIts text: ${long}`,
    );
    expect(await tools.data('read_message', { agent, id })).toMatchObject({
      message: { state: 'QUEUED', description: long, answered: false, run: null },
    });
    expect(await tools.refused('read_message', { agent, id: 'none' })).toMatch(/^NOT_FOUND/);
  });

  test('sets labels and removes them', async () => {
    const agent = fresh();
    await t.spawn(agent, { labels: { team: 'web' } });
    expect(await tools.use('label_agent', { agent, labels: { tier: '1' } })).toBe('team=web, tier=1');
    expect(await tools.use('agent_status', { agent })).toContain('Its labels: team=web, tier=1');
    expect(await tools.data('label_agent', { agent, labels: { team: '', tier: '2' } })).toEqual({
      labels: { tier: '2' },
    });
    expect(await t.status(agent)).toMatchObject({ labels: { tier: '2' } });
    expect(await tools.use('label_agent', { agent, labels: { tier: '' } })).toBe(`${agent} has no labels.`);
    expect(await tools.refused('label_agent', { agent, labels: { 'a b': 'x' } })).toMatch(
      /^INVALID_ARGUMENT: labels/,
    );
  });

  test('retries a blocked agent and reopens one that finished', async () => {
    const path = fresh();
    const agent = `${t.workspace}:${path}`;
    await t.spawn(path);
    const error = { code: 'PROVIDER_KEY_REFUSED', message: 'anthropic answered 401' };
    await t.end(await t.start(path), 'FAILED', { error });
    expect(await tools.use('agent_status', { agent })).toContain(
      'It is blocked: The provider refused the key.',
    );
    expect(await tools.use('retry_agent', { agent })).toBe(`${agent} runs its messages again.`);
    expect(await tools.refused('retry_agent', { agent })).toMatch(/^FAILED_PRECONDITION/);
    await t.end(await t.start(path), 'COMPLETED', { finished: true });
    expect(await tools.use('reopen_agent', { agent })).toBe(`${agent} is open again. Send it a message.`);
    expect(await t.phase(path)).toBe('WAITING_FOR_INPUT/RESTING');
  });

  test('stops a turn and kills a tree', async () => {
    const agent = fresh();
    await t.spawn(agent);
    await t.spawn(`${agent}/kid`);
    expect(await tools.refused('stop_turn', { agent })).toContain('no turn is running');
    await t.start(agent);
    await tools.use('stop_turn', { agent });
    expect(await t.stops()).toContain('1 INTERRUPT');
    await tools.use('stop_turn', { agent, force: true });
    expect(await t.phase(agent)).toBe('WAITING_FOR_INPUT/INTERRUPTED');
    await tools.use('kill_agent', { agent });
    expect(await t.phase(agent)).toBe('CANCELED/KILLED');
    expect(await t.phase(`${agent}/kid`)).toBe('CANCELED/PARENT_KILLED');
  });

  test('keeps the checklist', async () => {
    const agent = fresh();
    await t.spawn(agent);
    expect(await tools.use('list_tasks', { agent })).toBe('The checklist is empty.');
    await tools.use('create_tasks', {
      agent,
      tasks: [
        { id: 'a', subject: 'find it' },
        { id: 'b', subject: 'mend it' },
      ],
    });
    expect(await tools.use('update_task', { agent, id: 'a', status: 'completed' })).toBe('- [x] a: find it');
    await tools.use('update_task', { agent, id: 'b', subject: 'mend it well', description: 'With care.' });
    expect(await tools.use('list_tasks', { agent })).toMatch(
      /- \[x\] a: find it\n- \[ \] b: mend it well\n {2}With care\./,
    );
    expect(await tools.refused('update_task', { agent, id: 'z', status: 'completed' })).toMatch(/^NOT_FOUND/);
  });
});

describe('transcripts', () => {
  async function talked(): Promise<string> {
    const path = fresh();
    await t.spawn(path, { description: 'fix the login' });
    const claim = await t.start(path);
    await t.report(claim, {
      items: [
        { type: 'THINKING', text: 'Where is it?' },
        { type: 'TOOL_CALL', text: 'grep -r login', data: { tool: 'shell' } },
        { type: 'TOOL_RESULT', text: '```\n# not a heading\n```', data: { tool: 'shell' } },
        { type: 'MESSAGE', text: 'Found it.' },
      ],
    });
    await t.end(claim, 'COMPLETED', { question: 'Shall I mend it?' });
    return path;
  }

  test('are read as Markdown, as a resource and by a tool', async () => {
    const path = await talked();
    const { text, mimeType } = await tools.read(`muster://agents/${t.workspace}/${path}/transcript`);
    expect(mimeType).toBe('text/markdown');
    expect(text).toMatch(new RegExp(`^# ${t.workspace}:${path}\n\nWAITING_FOR_INPUT \\(QUESTION\\) since `));
    const order = [
      '> fix the login',
      '> Where is it?',
      '```\ngrep -r login\n```',
      '> Found it.',
      '> Shall I mend it?',
    ];
    const places = order.map((part) => text.indexOf(part));
    expect(places).toEqual(places.toSorted((a, b) => a - b));
    expect(places).not.toContain(-1);
    expect(text).toContain('**Tool** shell · ');
    expect(text, 'a longer fence around what has fences').toContain('````\n```\n# not a heading\n```\n````');
    expect(await tools.use('read_transcript', { agent: path, workspace: t.workspace })).toBe(text);
  });

  test('show the newest, and older ones before a number', async () => {
    const path = await talked();
    const newest = await tools.use('read_transcript', { agent: path, entries: 4 });
    expect(newest).toContain('Shall I mend it?');
    expect(newest).not.toContain('fix the login');
    const [, before = ''] = /Entries before (\d+) are not shown/.exec(newest) ?? [];
    const older = await tools.use('read_transcript', { agent: path, before });
    expect(older).toContain('fix the login');
    expect(older).not.toContain('Shall I mend it?');
  });

  test('stay within bounds', async () => {
    const path = fresh();
    await t.spawn(path);
    const claim = await t.start(path);
    for (let batch = 0; batch < 4; batch += 1)
      await t.report(claim, {
        items: Array.from({ length: 20 }, () => ({ type: 'MESSAGE', text: 'x'.repeat(6000) })),
      });
    const { text } = await tools.read(`muster://agents/${t.workspace}/${path}/transcript`);
    expect(text.length).toBeLessThan(110_000);
    expect(text).toMatch(/are not shown/);
    expect(text).toContain('… (cut: 6000 characters in all)');
  });

  test("are listed for the caller's live agents, children included", async () => {
    const tenant = await newTestTenant(admin);
    const user = await toolsOf((await createKey(admin, { role: 'member', account: 'carol' })).api);
    expect(await user.resources()).toEqual([]);
    for (const agent of ['root', 'root/kid', 'root/kid/grandkid', 'dead'])
      await user.use('spawn_agent', { agent: `${tenant.workspace}:${agent}`, description: 'work' });
    await user.use('kill_agent', { agent: 'dead' });
    const resources = await user.resources();
    const uriOf = (path: string) => `muster://agents/${tenant.workspace}/${path}/transcript`;
    expect(resources.map(({ uri }) => uri)).toEqual(['root', 'root/kid', 'root/kid/grandkid'].map(uriOf));
    for (const { uri, name } of resources) expect((await user.read(uri)).text).toContain(`# ${name}`);
    expect(await user.resourceTemplates()).toEqual([
      'muster://agents/{workspace}/{+path}/transcript{?account}',
    ]);
    expect((await tools.read(`${uriOf('root')}?account=carol`)).text).toContain(`# ${tenant.workspace}:root`);
    await expect(tools.read(uriOf('root'))).rejects.toThrow(/NOT_FOUND/);
  });

  test('of what is no agent are refused', async () => {
    for (const uri of [
      'muster://agents',
      'muster://agents/w/transcript',
      'file:///etc/passwd',
      'muster://agents/w/a',
    ])
      await expect(tools.read(uri), uri).rejects.toThrow(/INVALID_ARGUMENT: uri/);
    await expect(tools.read('muster://agents/w/a%20b/transcript')).rejects.toThrow(/INVALID_ARGUMENT/);
  });

  test('of the agents themselves are not among the tools of a run', async () => {
    const path = fresh();
    await t.spawn(path);
    const claim = await t.start(path);
    const own = await toolsOf(admin.as(claim.token));
    await expect(own.resources()).rejects.toThrow();
  });
});

test('agents can be run from a chat: spawn, wait, answer, wait', async () => {
  const other = await startServer();
  try {
    const user = await ToolUser.open(other.url, other.key);
    open.push(user);
    await user.use('spawn_agent', { agent: 'helper', description: 'Think.\n!ask Red or blue?' });
    const wait = { agents: ['helper'], timeoutSeconds: 30 };
    expect(await user.use('wait_for_agents', wait)).toContain('It asks: Red or blue?');
    await user.use('send_message', { agent: 'helper', text: 'Blue.\n!say Painted blue.\n!finish' });
    expect(await user.use('wait_for_agents', wait)).toMatch(
      /COMPLETED \(FINISHED\)\nIt said: Painted blue\./,
    );
    expect(await new Agents(apiOf(other), 'default').phase('helper')).toBe('COMPLETED/FINISHED');
  } finally {
    await other.close();
  }
});
