import { randomUUID } from 'node:crypto';
import type { ReplyOf } from '@muster/sdk/contract';
import { beforeAll, describe, expect, test } from 'vitest';
import type { Api } from '../support/api.ts';
import { createKey, createShareLink } from '../support/catalog.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { sendRaw } from '../support/raw-requests.ts';
import type { SharedServer } from '../support/shared-server.ts';
import { newTenant } from '../support/tenants.ts';
import type { TestTenant } from '../support/test-tenant.ts';
import { McpFixture, ToolUser } from './client.ts';

/** The tools of an agent, called as a harness calls them: over MCP, with the key of the run. */
const mcp = McpFixture.use();
let server: SharedServer;
let admin: Api;
let t: TestTenant;
beforeAll(() => {
  ({ server, admin, tenant: t } = mcp);
});

describe('the endpoint', () => {
  test('lists the tools with their descriptions, and tells the agent its path', async () => {
    const { path, tools } = await mcp.working();
    const listed = await tools.tools();
    expect(listed.map(({ name }) => name).sort()).toEqual([
      'ask',
      'budget',
      'child_status',
      'complete_task',
      'create_tasks',
      'fail',
      'finish',
      'kill_child',
      'list_children',
      'list_tasks',
      'message_child',
      'my_status',
      'open_change_request',
      'read_queue',
      'reopen_child',
      'reply_to_thread',
      'retry_child',
      'set_child_budget',
      'spawn_child',
      'stop_child_turn',
      'update_task',
      'wait_for_children',
    ]);
    for (const { name, description } of listed) expect(description?.length, name).toBeGreaterThan(20);
    expect(tools.instructions).toContain(path);
  });

  test('needs the key of a live run: 401 without a key, and after the end of the run', async () => {
    await expect(ToolUser.open(server.url, 'mst_nobody.0123456789abcdef0123456789abcdef')).rejects.toThrow();
    const { claim, tools } = await mcp.working();
    await t.end(claim);
    await expect(tools.call('my_status')).rejects.toThrow(/401|key/);
    const answer = await admin.as(claim.token).post('/mcp', { jsonrpc: '2.0', id: 1, method: 'ping' });
    expectError(answer, 'UNAUTHENTICATED');
  });

  test('a killed run loses its tools immediately', async () => {
    const { path, claim } = await mcp.running();
    await t.kill(path);
    const answer = await admin.as(claim.token).post('/mcp', { jsonrpc: '2.0', id: 1, method: 'ping' });
    expectError(answer, 'UNAUTHENTICATED');
  });

  test('refuses the key of a runner and of a share link', async () => {
    const { path } = await mcp.running();
    const callers = [
      (await createKey(admin, { role: 'runner', pool: 'default' })).api,
      (await createShareLink(admin, (await t.status(path)).agentId)).api,
    ];
    for (const caller of callers) {
      const answer = await caller.post('/mcp', { jsonrpc: '2.0', id: 1, method: 'ping' });
      expect(expectError(answer, 'PERMISSION_DENIED').message).toContain(
        'the key of a user or of a live run',
      );
    }
  });

  test('answers GET and DELETE with 405: there are no server events and no sessions', async () => {
    const { claim } = await mcp.running();
    for (const method of ['GET', 'DELETE']) {
      const headers = { authorization: `Bearer ${claim.token}`, accept: 'text/event-stream' };
      const answer = await fetch(`${server.url}/mcp`, { method, headers });
      expect([answer.status, answer.headers.get('allow')]).toEqual([405, 'POST']);
      await answer.text();
    }
  });

  test('answers with JSON to a client that accepts only JSON, and else with events', async () => {
    const { claim } = await mcp.running();
    const ask = async (accept: string) => {
      const answer = await fetch(`${server.url}/mcp`, {
        method: 'POST',
        headers: { authorization: `Bearer ${claim.token}`, 'content-type': 'application/json', accept },
        body: JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'tools/call', params: { name: 'list_tasks' } }),
      });
      return { type: answer.headers.get('content-type'), text: await answer.text() };
    };
    const json = await ask('application/json');
    expect(json.type).toMatch(/^application\/json/);
    expect(JSON.parse(json.text)).toMatchObject({ id: 7, result: { content: [{ type: 'text' }] } });
    const events = await ask('application/json, text/event-stream');
    expect(events.type).toMatch(/^text\/event-stream/);
    expect(events.text).toContain('"id":7');
  });

  test('refuses requests that are not JSON-RPC', async () => {
    const { claim } = await mcp.running();
    const headers = { authorization: `Bearer ${claim.token}`, 'content-type': 'application/json' };
    for (const body of ['{', '[]', '{}', '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":7}']) {
      const { status, text } = await sendRaw(server.url, { path: '/mcp', headers, body });
      expect(status, `${body}: ${text}`).toBeLessThan(500);
    }
  });

  test('answers invalid arguments, unknown tools and text that can’t be stored with errors', async () => {
    const { tools } = await mcp.working();
    expect(await tools.refused('update_task', { status: 'done' })).toMatch(/id/);
    expect(await tools.refused('nothing')).toContain('nothing');
    expect(await tools.refused('create_tasks', { tasks: [{ subject: 'a\u0000b' }] })).toContain('U+0000');
    expect(await tools.refused('child_status', { child: '../x' })).toContain('INVALID_ARGUMENT');
    expect(
      await tools.refused('update_task', { id: 'mst_abc.0123456789', status: 'completed' }),
    ).not.toContain('mst_abc.0123456789');
  });
});

describe('the checklist', () => {
  test('can be listed, extended, changed and completed', async () => {
    const { path, tools } = await mcp.working({ tasks: [{ id: 'first', subject: 'read the code' }] });
    expect(await tools.use('list_tasks')).toContain('[ ] first: read the code');
    const added = await tools.call('create_tasks', {
      tasks: [
        { id: 'second', subject: 'write it', description: 'well', blockedBy: ['first'] },
        { subject: 'test it' },
      ],
    });
    expect(added.text).toMatch(/\[ \] second: write it \(blocked by first\)\n {2}well\n.*test it/);
    expect(added.data?.tasks).toHaveLength(3);
    expect(await tools.refused('complete_task', { id: 'second' })).toContain('FAILED_PRECONDITION');
    expect(await tools.use('update_task', { id: 'first', status: 'in_progress' })).toContain('[~] first');
    expect(await tools.use('complete_task', { id: 'first' })).toContain('[x] first');
    expect(await tools.use('complete_task', { subject: 'test it' })).toContain('[x]');
    expect(
      await tools.use('update_task', { id: 'second', status: 'deleted', subject: 'left out' }),
    ).toContain('left out');
    expect(await tools.refused('complete_task', { subject: 'no such thing' })).toContain('no such thing');
    expect(await tools.refused('complete_task')).toContain('name the task');
    expect((await t.tasks(path)).map(({ subject, status }) => [subject, status])).toEqual([
      ['read the code', 'TASK_STATUS_COMPLETED'],
      ['left out', 'TASK_STATUS_DELETED'],
      ['test it', 'TASK_STATUS_COMPLETED'],
    ]);
  });
});

describe('a review', () => {
  test('is answered by a note or a reply, which people see when the turn has ended', async () => {
    const { path, claim: first } = await mcp.running();
    const comments = ['one', 'two', 'three'].map((body) => ({ path: 'a.ts', body }));
    await t.send('agent/threads/create', path, { comments });
    await t.end(first);
    const claim = await t.start(path);
    const tools = await mcp.toolsOf({ key: claim.token });
    const tasks = claim.tasks.filter(({ ephemeral }) => ephemeral);
    await tools.use('complete_task', { id: tasks[0]?.id, note: 'Did it.' });
    await tools.use('update_task', { id: tasks[1]?.id, status: 'deleted', note: 'Too risky.' });
    await tools.use('reply_to_thread', { threadId: tasks[2]?.dedupKey, text: 'Which one?' });
    expect(await tools.refused('reply_to_thread', { threadId: randomUUID(), text: 'x' })).toContain(
      'NOT_FOUND',
    );
    await t.end(claim);
    const { threads } = expectOk(await t.send<ReplyOf<'threads'>>('agent/threads', path));
    expect(threads.map(({ answer, comments: all }) => `${answer} ${all.at(-1)?.body}`)).toEqual([
      'ANSWERED Did it.',
      'DECLINED Too risky.',
      'ANSWERED Which one?',
    ]);
  });
});

describe('ask and finish', () => {
  test('the question is visible only after the run has ended', async () => {
    const { path, claim, tools } = await mcp.working();
    expect(await tools.use('ask', { question: 'Red?' })).toMatch(/end your turn/i);
    await tools.use('ask', { question: 'Red or blue?' });
    expect(await t.status(path)).toMatchObject({ phaseReason: 'WORKING', needsInput: '' });
    await t.end(claim, 'COMPLETED', { response: 'I asked.' });
    expect(await t.status(path)).toMatchObject({
      phase: 'PHASE_WAITING_FOR_INPUT',
      phaseReason: 'QUESTION',
      needsInput: 'Red or blue?',
      response: 'I asked.',
    });
    expect((await t.timeline(path, 'QUESTION')).map(({ text }) => text)).toEqual(['Red or blue?']);
    await t.queue(path, 'blue');
    await t.turn(path);
    expect(await t.status(path)).toMatchObject({ phaseReason: 'RESTING', needsInput: '' });
  });

  test('finish ends the agent with its run; the summary is the response unless the run says more', async () => {
    const { path, claim, tools } = await mcp.working();
    expect(await tools.use('finish', { summary: 'All done.' })).toMatch(/end your turn/i);
    expect(await t.phase(path)).toBe('RUNNING/WORKING');
    await t.end(claim);
    expect(await t.status(path)).toMatchObject({ phase: 'PHASE_COMPLETED', response: 'All done.' });
    const other = await mcp.working();
    await other.tools.use('finish', { summary: 'All done.' });
    await t.end(other.claim, 'COMPLETED', { response: 'Goodbye.' });
    expect(await t.status(other.path)).toMatchObject({ phase: 'PHASE_COMPLETED', response: 'Goodbye.' });
  });

  test('finish lists open tasks, and the agent does not finish before they are done', async () => {
    const { path, claim, tools } = await mcp.working({ tasks: [{ id: 't', subject: 'sweep' }] });
    expect(await tools.use('finish', {})).toMatch(/t: sweep/);
    await t.end(claim);
    expect(await t.phase(path)).toBe('WAITING_FOR_INPUT/TASKS_UNFINISHED');
    const done = await mcp.working({ tasks: [{ id: 't', subject: 'sweep' }] });
    await done.tools.use('complete_task', { id: 't' });
    await done.tools.use('finish', {});
    await t.end(done.claim);
    expect(await t.phase(done.path)).toBe('COMPLETED/FINISHED');
  });

  test('a question takes precedence over finish, in either order', async () => {
    for (const order of [
      ['ask', 'finish'],
      ['finish', 'ask'],
    ]) {
      const { path, claim, tools } = await mcp.working();
      for (const name of order) await tools.use(name, name === 'ask' ? { question: 'Which?' } : {});
      await t.end(claim);
      expect(await t.phase(path), order.join()).toBe('WAITING_FOR_INPUT/QUESTION');
    }
  });

  test.each(['LOST', 'HANDED_BACK', 'PARKED'])(
    'a batch that is retried after %s starts without the question and the finish',
    async (outcome) => {
      const { path, claim, tools } = await mcp.working();
      await tools.use('ask', { question: 'Which?' });
      await tools.use('finish', { summary: 'no' });
      if (outcome === 'LOST') {
        // A poll that does not list a run which had begun says that it is gone.
        t.runner.runs = t.runner.runs.filter(({ agentKey }) => agentKey !== claim.agentKey);
      } else {
        await t.end(claim, outcome, outcome === 'PARKED' ? { limitUntil: new Date().toISOString() } : {});
      }
      const again = await t.start(path);
      expect(again).toMatchObject({ runId: 2, attempt: 2 });
      await t.end(again);
      expect(await t.phase(path)).toBe('WAITING_FOR_INPUT/RESTING');
      expect(await t.timeline(path, 'QUESTION')).toEqual([]);
    },
  );

  test('an interrupted run neither asks nor finishes', async () => {
    const { path, claim, tools } = await mcp.working();
    await tools.use('ask', { question: 'Which?' });
    await tools.use('finish', {});
    await t.stop(path, 1);
    await t.end(claim, 'INTERRUPTED');
    expect(await t.status(path)).toMatchObject({ phaseReason: 'INTERRUPTED', needsInput: '' });
  });
});

describe('my_status and read_queue', () => {
  test('show the status of the agent and its queued messages', async () => {
    const { path, tools } = await mcp.working({ tasks: [{ id: 't', subject: 'one' }] });
    expect(await tools.use('read_queue')).toBe('You have no queued messages.');
    await t.queue(path, 'and then this');
    await t.queue(path, {
      description: 'much later',
      deliverAt: new Date(Date.now() + 3_600_000).toISOString(),
    });
    expect(await tools.use('read_queue')).toMatch(/- and then this\n- \(scheduled for .*\) much later/);
    const status = await tools.use('my_status');
    expect(status).toContain(path);
    expect(status).toMatch(/Open tasks: 1 of 1\. Queued messages: 2\. Children: 0\./);
  });
});

describe('isolation', () => {
  test('a run can’t reach its siblings, its parents or another tenant', async () => {
    const { path, tools } = await mcp.working();
    const sibling = await mcp.working();
    await tools.use('spawn_child', { name: 'c', description: 'work', model: 'rehearsal-a' });
    const child = await mcp.toolsOf({ key: (await t.start(`${path}/c`)).token });
    const theirs = (await newTenant(server.operator)).admin;
    await theirs.post('/v1/agent/spawn', { agentId: { agent: ['theirs'] }, description: 'secret plans' });
    for (const user of [child, sibling.tools]) {
      for (const name of [path, sibling.path, 'theirs', `${path}/c`]) {
        for (const [tool, more] of [
          ['child_status', {}],
          ['message_child', { text: 'x' }],
          ['stop_child_turn', {}],
          ['retry_child', {}],
          ['reopen_child', {}],
          ['kill_child', {}],
        ] as const) {
          expect(await user.refused(tool, { child: name, ...more })).toMatch(
            /^(NOT_FOUND|PERMISSION_DENIED)/,
          );
        }
      }
    }
    expect(await t.phase(path)).toBe('RUNNING/WORKING');
    expect(await t.phase(sibling.path)).toBe('RUNNING/WORKING');
  });

  test('the key of an ended run does not work for the next run', async () => {
    const { path, claim } = await mcp.running();
    await t.end(claim);
    await t.queue(path, 'again');
    const second = await t.start(path);
    const stale = await admin
      .as(claim.token)
      .post('/v1/agent/ask', { agentId: claim.agentId, question: 'x' });
    expectError(stale, 'UNAUTHENTICATED');
    await t.end(second);
    expect(await t.phase(path)).toBe('WAITING_FOR_INPUT/RESTING');
  });
});

describe('the same over plain HTTP', () => {
  test('ask and finish accept only the key of a run, for its own agent', async () => {
    const { path, claim } = await mcp.running();
    const self = admin.as(claim.token);
    const { agentId } = claim;
    expect((await self.post('/v1/agent/ask', { agentId, question: 'Which?' })).body).toEqual({});
    expect((await self.post('/v1/agent/finish', { agentId, text: 'Done.' })).body).toEqual({});
    expectError(await self.post('/v1/agent/ask', { agentId }), 'INVALID_ARGUMENT', 'question');
    expectError(
      await self.post('/v1/agent/ask', { agentId, question: ' \n' }),
      'INVALID_ARGUMENT',
      'question',
    );
    const long = 'x'.repeat(256 * 1024 + 1);
    expectError(
      await self.post('/v1/agent/ask', { agentId, question: long }),
      'INVALID_ARGUMENT',
      'question',
    );
    expectError(await self.post('/v1/agent/finish', { agentId, text: long }), 'INVALID_ARGUMENT', 'text');
    expectError(await self.post('/v1/agent/ask', { question: 'x' }), 'INVALID_ARGUMENT', 'agentId.agent');
    const child = { ...agentId, agent: [path, 'c'] };
    await t.spawn(`${path}/c`);
    for (const [caller, target] of [
      [self, child],
      [admin, agentId],
    ] as const) {
      for (const [route, more] of [
        ['ask', { question: 'x' }],
        ['finish', {}],
      ] as const) {
        const answer = await caller.post(`/v1/agent/${route}`, { agentId: target, ...more });
        expectError(answer, 'PERMISSION_DENIED');
      }
    }
    await t.end(claim);
    expect(await t.status(path)).toMatchObject({ needsInput: 'Which?', response: 'Done.' });
  });
});
