import type { ReplyOf } from '@muster/sdk/contract';
import { beforeAll, describe, expect, test } from 'vitest';
import { Agents } from '../support/agents.ts';
import { type Api, apiOf } from '../support/api.ts';
import { createKey } from '../support/catalog.ts';
import { expectOk } from '../support/expect-reply.ts';
import { png, uploadTo } from '../support/images.ts';
import { type SharedServer, sharedServer } from '../support/shared-server.ts';
import { inAnHour, type TestTenant } from '../support/test-tenant.ts';
import { McpFixture, ToolUser } from './client.ts';

/** The tools by which a user waits for agents and commands them. */
const mcp = McpFixture.use();
let server: SharedServer;
let admin: Api;
let t: TestTenant;
let tools: ToolUser;
beforeAll(async () => {
  ({ server, admin, tenant: t } = mcp);
  tools = await mcp.toolsOf(admin);
});

describe('waiting', () => {
  test('ends when one agent, or all of them, need attention', async () => {
    const [a, b] = [mcp.newName(), mcp.newName()];
    for (const path of [a, b]) await t.spawn(path);
    const [claimA, claimB] = [await t.start(a), await t.start(b)];
    const agents = [a, b];
    const any = tools.call('wait_for_agents', { agents, timeoutSeconds: 600 });
    const all = tools.call('wait_for_agents', { agents, waitFor: 'all', timeoutSeconds: 600 });
    await t.end(claimA, 'COMPLETED', { question: 'Red or blue?' });
    const first = await any;
    expect(first.text).toBe(
      `${t.workspace}:${a}: WAITING_FOR_INPUT (QUESTION)\nQuestion: Red or blue?\n\nStill working:\n- ${t.workspace}:${b}: RUNNING (WORKING)`,
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
    expect(await tools.use('wait_for_agents', { agents })).toContain('Error: REHEARSED_FAILURE: it broke');
    expect(await tools.refused('wait_for_agents', { agents: [a, 'nobody'] })).toMatch(/^NOT_FOUND/);
  });

  test('ends when the agents below one need attention', async () => {
    const root = mcp.newName();
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
        'Timed out.',
        `Still working:\n- ${name}: RUNNING (WORKING)`,
        `Other agents:\n- ${name}/grandkid: WAITING_FOR_INPUT (QUESTION), question: Red or blue?`,
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
        'INVALID_ARGUMENT: agents: pass either agents or below',
      );
    expect(await tools.refused('wait_for_agents', { below: 'nobody' })).toMatch(/^NOT_FOUND/);
  });

  test('ends with the answer to a message, or the end of a run', async () => {
    const agent = mcp.newName();
    await t.spawn(agent);
    const first = await t.start(agent);
    const { id } = await tools.data('send_message', { agent, text: 'Which color?' });
    const answer = tools.call('wait_for_answer', { agent, id, timeoutSeconds: 600 });
    const run = tools.call('wait_for_answer', { agent, run: 1, timeoutSeconds: 600 });
    await t.end(first, 'COMPLETED', { response: 'Started.' });
    expect((await run).text).toMatch(/^Run 1: COMPLETED, .*\nResponse: Started\.$/);
    const over = await tools.call('wait_for_answer', { agent, id, timeoutSeconds: 0 });
    expect(over.text).toMatch(/^Timed out\.\n\n.*not answered yet/);
    expect(over.data).toMatchObject({ timedOut: true });
    await t.turn(agent, { response: 'Blue.' });
    expect((await answer).text).toBe(`${id}: DELIVERED, run 2, answered\nText: Which color?\nAnswer: Blue.`);
    for (const args of [{}, { id, run: 1 }])
      expect(await tools.refused('wait_for_answer', { agent, ...args })).toBe(
        'INVALID_ARGUMENT: id: pass either id or run',
      );
    expect(await tools.refused('wait_for_answer', { agent, id: 'none' })).toMatch(/^NOT_FOUND/);
    expect(await tools.refused('wait_for_answer', { agent, run: 9 })).toMatch(/^INVALID_ARGUMENT: runId/);
  });

  test('ends after its timeout', async () => {
    const path = mcp.newName();
    await t.spawn(path);
    const { text, data } = await tools.call('wait_for_agents', { agents: [path], timeoutSeconds: 0 });
    expect(text).toMatch(/^Timed out\. No agent needs attention yet\.\n\nStill working:/);
    expect(data).toEqual({ settled: [], working: [`${t.workspace}:${path}`] });
  });

  test('ends when the client disconnects, and when its key is revoked', async () => {
    const path = mcp.newName();
    await t.spawn(path);
    const wait = { agents: [path], timeoutSeconds: 600 };
    const leaving = await ToolUser.open(server.url, admin.key);
    const left = leaving.call('wait_for_agents', wait).catch(() => null);
    await mcp.untilOpenWaits(1);
    await leaving.close();
    await left;
    await mcp.untilOpenWaits(0);
    const { name, api } = await createKey(admin, { role: 'admin' });
    const revoked = (await mcp.toolsOf(api)).call('wait_for_agents', { ...wait, account: 'admin' });
    await mcp.untilOpenWaits(1);
    await admin.del(`/v1/catalog/token/${name}`);
    expect(await revoked).toMatchObject({ failed: true });
    await mcp.untilOpenWaits(0);
  });
});

describe('commands', () => {
  test('send messages immediately, scheduled and with preempt', async () => {
    const agent = mcp.newName();
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
    const ids = [sent.id];
    expect(await tools.use('order_queue', { agent, ids })).toBe(`The order is: ${sent.id}.`);
    expect(await tools.use('remove_message', { agent, id: sent.id })).toBe('Removed.');
    expect(await tools.use('clear_queue', { agent })).toBe('Messages removed: 0.');
    await tools.use('send_message', { agent, text: 'and this' });
    expect(await tools.use('clear_queue', { agent })).toBe('Messages removed: 1.');
    const { attachmentId } = expectOk(await uploadTo(t.api, t.id(agent), png(agent)));
    const look = { agent, text: 'during the turn', steer: true, attachmentIds: [attachmentId] };
    const steer = await tools.data('send_message', look);
    expect(await t.status(agent)).toMatchObject({
      followUps: [{ steer: true, attachmentIds: [attachmentId] }, {}, {}],
    });
    expect(await tools.use('read_message', { agent, id: steer.id })).toContain(`\nImages: ${attachmentId}`);
    expect(await tools.use('clear_queue', { agent })).toBe('Messages removed: 1.');
    for (const { followUpId } of queue.slice(1)) await tools.use('remove_message', { agent, id: followUpId });
    expect(await tools.use('list_queue', { agent })).toBe('No messages are queued.');
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
      [{ deliverAt: at, steer: true }, 'steer'],
      [{ deliverAt: 'tomorrow' }, 'deliverAt'],
      [{ attachmentIds: ['unknown'] }, 'attachmentIds[0]'],
      [{ deliverAt: at, delaySeconds: 1 }, 'delaySeconds'],
    ] as const)
      expect(await tools.refused('send_message', { agent, text: 'x', ...more })).toContain(blamed);
  });

  test('read long messages in full, page by page', async () => {
    const agent = mcp.newName();
    await t.spawn(agent);
    await t.start(agent);
    const long = 'word '.repeat(2000);
    const { id } = await tools.data('send_message', { agent, text: long });
    await tools.use('send_message', { agent, text: 'and this' });
    expect(await tools.use('agent_status', { agent })).toContain('word … (truncated)\n- and this');
    const first = await tools.data('list_queue', { agent, limit: 1 });
    expect(first.messages).toMatchObject([{ followUpId: id, description: long }]);
    const { messages } = await tools.data('list_queue', { agent, pageToken: first.nextPageToken });
    expect(messages).toMatchObject([{ description: 'and this' }]);
    expect(await tools.use('read_message', { agent, id })).toBe(
      `${id}: QUEUED, not answered yet\nText: ${long}`,
    );
    expect(await tools.data('read_message', { agent, id })).toMatchObject({
      message: { state: 'QUEUED', description: long, answered: false, run: null },
    });
    expect(await tools.refused('read_message', { agent, id: 'none' })).toMatch(/^NOT_FOUND/);
  });

  test('set and remove labels', async () => {
    const agent = mcp.newName();
    await t.spawn(agent, { labels: { team: 'web' } });
    expect(await tools.use('label_agent', { agent, labels: { tier: '1' } })).toBe('team=web, tier=1');
    expect(await tools.use('agent_status', { agent })).toContain('Labels: team=web, tier=1');
    expect(await tools.data('label_agent', { agent, labels: { team: '', tier: '2' } })).toEqual({
      labels: { tier: '2' },
    });
    expect(await t.status(agent)).toMatchObject({ labels: { tier: '2' } });
    expect(await tools.use('label_agent', { agent, labels: { tier: '' } })).toBe(`${agent} has no labels.`);
    expect(await tools.refused('label_agent', { agent, labels: { 'a b': 'x' } })).toMatch(
      /^INVALID_ARGUMENT: labels/,
    );
  });

  test('retry a blocked agent and reopen a finished one', async () => {
    const path = mcp.newName();
    const agent = `${t.workspace}:${path}`;
    await t.spawn(path);
    const error = { code: 'PROVIDER_KEY_REFUSED', message: 'anthropic answered 401' };
    await t.end(await t.start(path), 'FAILED', { error });
    expect(await tools.use('agent_status', { agent })).toContain('Blocked: The provider refused the key.');
    expect(await tools.use('retry_agent', { agent })).toBe(`${agent} runs its messages again.`);
    expect(await tools.refused('retry_agent', { agent })).toMatch(/^FAILED_PRECONDITION/);
    await t.end(await t.start(path), 'FAILED', { error });
    expect(await tools.use('retry_agents', { agents: [agent, `${agent}-x`] })).toBe(
      `- ${agent}: runs its messages again\n- ${agent}-x: the agent ${path}-x does not exist`,
    );
    expect(await tools.use('retry_agents', { workspace: t.workspace })).toBe('No agent waits for a retry.');
    expect(await tools.refused('retry_agents', {})).toMatch(/^INVALID_ARGUMENT: agentIds/);
    await t.end(await t.start(path), 'COMPLETED', { finished: true });
    expect(await tools.use('reopen_agent', { agent })).toBe(`${agent} is open again. Send it a message.`);
    expect(await t.phase(path)).toBe('WAITING_FOR_INPUT/RESTING');
  });

  test('stop a turn and kill a tree', async () => {
    const agent = mcp.newName();
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

  test('change the checklist', async () => {
    const agent = mcp.newName();
    await t.spawn(agent);
    expect(await tools.use('list_tasks', { agent })).toBe('The checklist is empty.');
    await tools.use('create_tasks', {
      agent,
      tasks: [
        { id: 'a', subject: 'find it' },
        { id: 'b', subject: 'fix it' },
      ],
    });
    expect(await tools.use('update_task', { agent, id: 'a', status: 'completed' })).toBe('- [x] a: find it');
    await tools.use('update_task', { agent, id: 'b', subject: 'fix it well', description: 'With care.' });
    expect(await tools.use('list_tasks', { agent })).toMatch(
      /- \[x\] a: find it\n- \[ \] b: fix it well\n {2}With care\./,
    );
    expect(await tools.refused('update_task', { agent, id: 'z', status: 'completed' })).toMatch(/^NOT_FOUND/);
  });
});

test('review what an agent changed, and read its answers', async () => {
  const agent = mcp.newName();
  await t.spawn(agent);
  expect(await tools.use('list_threads', { agent })).toBe('No review threads.');
  const comments = [{ path: 'src/login.ts', line: 12, body: 'What if it is empty?' }];
  const { data } = await tools.call('create_review', { agent, comments, description: 'One thing.' });
  const [thread] = (data as unknown as ReplyOf<'createReview'>).threads;
  const threadId = thread?.threadId ?? '';
  expect(await tools.use('list_threads', { agent, states: ['OPEN'] })).toBe(
    `- ${threadId}: src/login.ts:12, open, pending\n  admin: What if it is empty?`,
  );
  expect(await tools.use('reply_to_thread', { agent, threadId, body: 'Or blank?' })).toContain('will get');
  expect(await tools.use('resolve_thread', { agent, threadId })).toContain('resolved, pending');
  expect(await tools.use('list_threads', { agent, states: ['OPEN'] })).toBe('No review threads.');
  expect(await tools.refused('resolve_thread', { agent, threadId: 'x' })).toContain('threadId');
  expect(await tools.refused('create_review', { agent, comments: [] })).toContain('comments');
});

test('a chat client can spawn an agent, wait for it and answer it', async () => {
  const other = await sharedServer();
  try {
    const user = await ToolUser.open(other.url, other.key);
    await user.use('spawn_agent', { agent: 'helper', description: 'Think.\n!ask Red or blue?' });
    const wait = { agents: ['helper'], timeoutSeconds: 30 };
    expect(await user.use('wait_for_agents', wait)).toContain('Question: Red or blue?');
    await user.use('send_message', { agent: 'helper', text: 'Blue.\n!say Painted blue.\n!finish' });
    expect(await user.use('wait_for_agents', wait)).toMatch(
      /COMPLETED \(FINISHED\)\nResponse: Painted blue\./,
    );
    expect(await new Agents(apiOf(other), 'default').phase('helper')).toBe('COMPLETED/FINISHED');
  } finally {
    await other.close();
  }
});
