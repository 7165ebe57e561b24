import type { Claim } from '@muster/sdk/contract';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Api, apiOf } from '../support/api.ts';
import { until } from '../support/async.ts';
import { createKey, createShareLink } from '../support/catalog.ts';
import { expectError } from '../support/expect-reply.ts';
import { sendRaw } from '../support/raw-requests.ts';
import { type SharedServer, sharedServer } from '../support/shared-server.ts';
import { newTenant } from '../support/tenants.ts';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';
import { ToolUser } from './client.ts';

/** The agent's own tools, used as a harness uses them: over MCP, with the key of the run. */
let server: SharedServer;
let admin: Api;
let t: TestTenant;
const open: { close(): Promise<void> }[] = [];

beforeAll(async () => {
  server = await sharedServer({ runner: false });
  admin = apiOf(server);
  t = await newTestTenant(admin);
});
afterAll(async () => {
  for (const user of open) await user.close();
  await server?.close();
});

let count = 0;
const fresh = (): string => {
  count += 1;
  return `agent-${count}`;
};

async function toolsOf(claim: Claim): Promise<ToolUser> {
  const user = await ToolUser.open(server.url, claim.token);
  open.push(user);
  return user;
}

/** An agent at work, with its tools. */
async function working(fields: Record<string, unknown> = {}) {
  const path = fresh();
  await t.spawn(path, fields);
  const claim = await t.start(path);
  return { path, claim, tools: await toolsOf(claim) };
}

describe('the door', () => {
  test('lists the tools, each with words for a model, and says who the agent is', async () => {
    const { path, tools } = await working();
    const listed = await tools.tools();
    expect(listed.map(({ name }) => name).sort()).toEqual([
      'ask',
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
      'read_queue',
      'reopen_child',
      'retry_child',
      'spawn_child',
      'stop_child_turn',
      'update_task',
      'wait_for_children',
    ]);
    for (const { name, description } of listed) expect(description?.length, name).toBeGreaterThan(20);
    expect(tools.instructions).toContain(path);
  });

  test('needs the key of a live run: 401 without one, 401 after the end of the run', async () => {
    await expect(ToolUser.open(server.url, 'mst_nobody.0123456789abcdef0123456789abcdef')).rejects.toThrow();
    const { claim, tools } = await working();
    await t.end(claim);
    await expect(tools.call('my_status')).rejects.toThrow(/401|key/);
    const answer = await admin.as(claim.token).post('/mcp', { jsonrpc: '2.0', id: 1, method: 'ping' });
    expectError(answer, 'UNAUTHENTICATED');
  });

  test('a killed run loses its tools at once', async () => {
    const { path, claim } = await working();
    await t.kill(path);
    const answer = await admin.as(claim.token).post('/mcp', { jsonrpc: '2.0', id: 1, method: 'ping' });
    expectError(answer, 'UNAUTHENTICATED');
  });

  test('a key of a machine or of a link is told whose tools these are', async () => {
    const { path } = await working();
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

  test('GET and DELETE are 405: nothing is sent unasked, and there is no session', async () => {
    const { claim } = await working();
    for (const method of ['GET', 'DELETE']) {
      const headers = { authorization: `Bearer ${claim.token}`, accept: 'text/event-stream' };
      const answer = await fetch(`${server.url}/mcp`, { method, headers });
      expect([answer.status, answer.headers.get('allow')]).toEqual([405, 'POST']);
      await answer.text();
    }
  });

  test('a client that takes JSON alone gets JSON, one that takes events gets events', async () => {
    const { claim } = await working();
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

  test('what is not JSON-RPC is refused and kills nothing', async () => {
    const { claim } = await working();
    const headers = { authorization: `Bearer ${claim.token}`, 'content-type': 'application/json' };
    for (const body of ['{', '[]', '{}', '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":7}']) {
      const { status, text } = await sendRaw(server.url, { path: '/mcp', headers, body });
      expect(status, `${body}: ${text}`).toBeLessThan(500);
    }
  });

  test('wrong arguments, an unknown tool and text that no store keeps are answers, not deaths', async () => {
    const { tools } = await working();
    expect(await tools.refused('update_task', { status: 'done' })).toMatch(/id/);
    expect(await tools.refused('nothing')).toContain('nothing');
    expect(await tools.refused('create_tasks', { tasks: [{ subject: 'a\u0000b' }] })).toContain('U+0000');
    expect(await tools.refused('child_status', { child: '../x' })).toContain('INVALID_ARGUMENT');
    expect(
      await tools.refused('update_task', { id: 'mst_abc.0123456789', status: 'completed' }),
    ).not.toContain('mst_abc.0123456789');
  });
});

describe('tasks', () => {
  test('are listed, added, changed and completed', async () => {
    const { path, tools } = await working({ tasks: [{ id: 'first', subject: 'read the code' }] });
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

describe('ask and finish', () => {
  test('a question is shown when the run has ended, and not before', async () => {
    const { path, claim, tools } = await working();
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

  test('finish ends the agent with its run, and its summary stands where nothing is said after', async () => {
    const { path, claim, tools } = await working();
    expect(await tools.use('finish', { summary: 'All done.' })).toMatch(/end your turn/i);
    expect(await t.phase(path)).toBe('RUNNING/WORKING');
    await t.end(claim);
    expect(await t.status(path)).toMatchObject({ phase: 'PHASE_COMPLETED', response: 'All done.' });
    const other = await working();
    await other.tools.use('finish', { summary: 'All done.' });
    await t.end(other.claim, 'COMPLETED', { response: 'Goodbye.' });
    expect(await t.status(other.path)).toMatchObject({ phase: 'PHASE_COMPLETED', response: 'Goodbye.' });
  });

  test('finish with open tasks says so, and they come first', async () => {
    const { path, claim, tools } = await working({ tasks: [{ id: 't', subject: 'sweep' }] });
    expect(await tools.use('finish', {})).toMatch(/t: sweep/);
    await t.end(claim);
    expect(await t.phase(path)).toBe('WAITING_FOR_INPUT/TASKS_UNFINISHED');
    const done = await working({ tasks: [{ id: 't', subject: 'sweep' }] });
    await done.tools.use('complete_task', { id: 't' });
    await done.tools.use('finish', {});
    await t.end(done.claim);
    expect(await t.phase(done.path)).toBe('COMPLETED/FINISHED');
  });

  test('a question beats a declaration, whichever came last', async () => {
    for (const order of [
      ['ask', 'finish'],
      ['finish', 'ask'],
    ]) {
      const { path, claim, tools } = await working();
      for (const name of order) await tools.use(name, name === 'ask' ? { question: 'Which?' } : {});
      await t.end(claim);
      expect(await t.phase(path), order.join()).toBe('WAITING_FOR_INPUT/QUESTION');
    }
  });

  test.each(['LOST', 'HANDED_BACK', 'PARKED'])(
    'a batch tried again after %s begins with neither',
    async (outcome) => {
      const { path, claim, tools } = await working();
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

  test('an interrupted run has neither asked nor finished', async () => {
    const { path, claim, tools } = await working();
    await tools.use('ask', { question: 'Which?' });
    await tools.use('finish', {});
    await t.stop(path, 1);
    await t.end(claim, 'INTERRUPTED');
    expect(await t.status(path)).toMatchObject({ phaseReason: 'INTERRUPTED', needsInput: '' });
  });
});

describe('the agent about itself', () => {
  test('reads its queue and its status', async () => {
    const { path, tools } = await working({ tasks: [{ id: 't', subject: 'one' }] });
    expect(await tools.use('read_queue')).toBe('No message waits for you.');
    await t.queue(path, 'and then this');
    await t.queue(path, {
      description: 'much later',
      deliverAt: new Date(Date.now() + 3_600_000).toISOString(),
    });
    expect(await tools.use('read_queue')).toMatch(/- and then this\n- \(comes at .*\) much later/);
    const status = await tools.use('my_status');
    expect(status).toContain(path);
    expect(status).toMatch(/Open tasks: 1 of 1\. Messages waiting: 2\. Children: 0\./);
  });
});

describe('children', () => {
  test('are spawned with everything a spawn takes, below their parent', async () => {
    const { path, tools } = await working();
    await tools.use('spawn_child', {
      name: 'api',
      description: 'build the api',
      tasks: [{ subject: 'routes' }],
      persona: 'reviewer',
      model: 'rehearsal-b',
      expectedOutput: 'a branch',
      outputSchema: { type: 'object', properties: { ok: { type: 'boolean' } } },
    });
    expect(await t.status(`${path}/api`)).toMatchObject({
      description: 'build the api',
      persona: 'reviewer',
      model: 'rehearsal-b',
      expectedOutput: 'a branch',
      outputSchema: '{"type":"object","properties":{"ok":{"type":"boolean"}}}',
      tasks: [{ subject: 'routes' }],
    });
    expect(await tools.use('list_children')).toMatch(/^- api: PENDING \(/);
    expect(
      await tools.refused('spawn_child', { name: 'web', description: 'x', persona: 'nobody' }),
    ).toContain('INVALID_ARGUMENT');
    expect(await tools.refused('spawn_child', { name: 'a/b', description: 'x' })).toContain('name');
  });

  test('a repeated spawn is the same one; another of a living name is refused; of a dead one it is new', async () => {
    const { path, tools } = await working();
    const spawn = { name: 'c', description: 'work', model: 'rehearsal-a' };
    await tools.use('spawn_child', spawn);
    await tools.use('spawn_child', spawn);
    expect(await tools.refused('spawn_child', { ...spawn, description: 'other work' })).toMatch(
      /^ALREADY_EXISTS: .*"c"/,
    );
    await tools.use('kill_child', { child: 'c' });
    await tools.use('spawn_child', spawn);
    await tools.use('spawn_child', spawn);
    expect(await t.phase(`${path}/c`)).toMatch(/^PENDING/);
    expect((await t.timeline(path, 'CHILD_SPAWNED')).length).toBe(2);
  });

  test('are messaged, stopped and killed', async () => {
    const { path, tools } = await working();
    await tools.use('spawn_child', { name: 'c', description: 'work', model: 'rehearsal-a' });
    expect(await tools.refused('stop_child_turn', { child: 'c' })).toContain('no turn is running');
    await t.start(`${path}/c`);
    await tools.use('message_child', { child: 'c', text: 'also this' });
    expect((await t.status(`${path}/c`)).followUps.map(({ description }) => description)).toEqual([
      'also this',
    ]);
    await tools.use('message_child', { child: `${path}/c`, text: 'drop everything', preempt: true });
    expect(await t.status(`${path}/c`)).toMatchObject({
      phaseReason: 'STOPPING',
      followUps: [{ description: 'drop everything' }],
    });
    await tools.use('stop_child_turn', { child: 'c' });
    await tools.use('kill_child', { child: 'c' });
    expect(await t.phase(`${path}/c`)).toBe('CANCELED/KILLED');
    expect(await tools.refused('message_child', { child: 'c', text: 'hello?' })).toContain('NOT_FOUND');
  });

  test('that are blocked are retried, and those that ended reopened', async () => {
    const { path, tools } = await working();
    await tools.use('spawn_child', { name: 'c', description: 'work' });
    expect(await tools.refused('retry_child', { child: 'c' })).toContain('FAILED_PRECONDITION');
    await t.end(await t.start(`${path}/c`), 'FAILED', {
      error: { code: 'PROVIDER_KEY_REFUSED', message: 'the key is refused' },
    });
    expect(await t.phase(`${path}/c`)).toBe('WAITING_FOR_INPUT/BLOCKED');
    await tools.use('retry_child', { child: 'c' });
    await t.end(await t.start(`${path}/c`));
    await tools.use('reopen_child', { child: 'c' });
    expect(await t.phase(`${path}/c`)).toBe('WAITING_FOR_INPUT/RESTING');
  });

  test('a grandchild is reached by a path from the parent', async () => {
    const { path, tools } = await working();
    await tools.use('spawn_child', { name: 'c', description: 'work', model: 'rehearsal-a' });
    const child = await toolsOf(await t.start(`${path}/c`));
    await child.use('spawn_child', { name: 'g', description: 'work', model: 'rehearsal-a' });
    expect(await tools.use('child_status', { child: 'c/g' })).toMatch(/^c\/g: PENDING/);
    expect(await tools.use('child_status', { child: `${path}/c/g` })).toMatch(/^c\/g: PENDING/);
  });

  test('a wait tells who needs attention as soon as one does, and who still works', async () => {
    const { path, tools } = await working();
    expect(await tools.use('wait_for_children')).toBe('You have no children.');
    for (const name of ['a', 'b'])
      await tools.use('spawn_child', { name, description: 'work', model: 'rehearsal-a' });
    const [a, b] = [await t.start(`${path}/a`), await t.start(`${path}/b`)];
    const waiting = tools.call('wait_for_children', { timeoutSeconds: 600 });
    await t.end(a, 'COMPLETED', { question: 'Red or blue?', response: 'I need to know.' });
    const first = await waiting;
    expect(first.text).toMatch(
      /^a: WAITING_FOR_INPUT \(QUESTION\)\nIt asks: Red or blue\?\nIt said: I need to know\.\n\nStill at work:\n- b: RUNNING/,
    );
    expect(first.data).toMatchObject({ news: [{ child: 'a', question: 'Red or blue?' }], working: ['b'] });
    const rest = tools.call('wait_for_children', { children: ['a', 'b'], timeoutSeconds: 600 });
    await t.end(b, 'FAILED', { error: { code: 'REHEARSED_FAILURE', message: 'it broke' } });
    expect((await rest).text).toMatch(/^b: FAILED \(ERROR\)\nIt failed: REHEARSED_FAILURE: it broke/);
    expect(await tools.use('wait_for_children')).toMatch(
      /^None works any more:\n- a: .*asks: Red or blue\?\n- b: FAILED/,
    );
    expect(await tools.refused('wait_for_children', { children: ['z'] })).toContain('no child "z"');
  });

  test('a wait that is over says who still works', async () => {
    const { tools } = await working();
    await tools.use('spawn_child', { name: 'a', description: 'work', model: 'rehearsal-a' });
    const { text, data } = await tools.call('wait_for_children', { timeoutSeconds: 0 });
    expect(text).toMatch(/^Nothing has happened so far\. Still at work:\n- a: PENDING/);
    expect(data).toMatchObject({ news: [], working: ['a'] });
  });

  test('a wait ends when its run does', async () => {
    const { path, claim, tools } = await working();
    await tools.use('spawn_child', { name: 'a', description: 'work', model: 'rehearsal-a' });
    await tools.use('spawn_child', { name: 'b', description: 'work', model: 'rehearsal-a' });
    const waiting = tools.call('wait_for_children', { timeoutSeconds: 600 });
    await untilOpenWaits(1);
    await t.end(claim);
    expect(await waiting).toMatchObject({
      failed: true,
      text: expect.stringContaining('your run has ended'),
    });
    expect(await t.phase(path)).toBe('PENDING/CHILDREN');
    await untilOpenWaits(0);
  });

  test('a wait whose client goes away is let go of', async () => {
    const { tools } = await working();
    await tools.use('spawn_child', { name: 'a', description: 'work', model: 'rehearsal-a' });
    const held = new AbortController();
    const waiting = tools.call('wait_for_children', { timeoutSeconds: 600 }, held.signal).catch(() => null);
    await untilOpenWaits(1);
    await tools.close();
    held.abort();
    await waiting;
    await untilOpenWaits(0);
  });

  const untilOpenWaits = (wanted: number) =>
    until(
      `${wanted} open waits`,
      async () => (await sendRaw(server.url, { method: 'GET', path: '/metrics' })).text,
      (text) => new RegExp(`^muster_long_replies_open\\{kind="wait"\\} ${wanted}$`, 'm').test(text),
    );

  test.each([
    ['wait_for_children', {}],
    ['child_status', { child: 'c' }],
  ])('what %s has told makes no further run', async (name, args) => {
    const { path, claim, tools } = await working();
    await tools.use('spawn_child', { name: 'c', description: 'work', model: 'rehearsal-a' });
    await t.turn(`${path}/c`, { finished: true, response: 'Done.' });
    expect(await tools.use(name, args)).toContain('It said: Done.');
    await t.end(claim);
    expect(await t.phase(path)).toBe('WAITING_FOR_INPUT/RESTING');
  });

  test('what the parent has not looked at does, and a list is no look', async () => {
    const { path, claim, tools } = await working();
    await tools.use('spawn_child', { name: 'c', description: 'work', model: 'rehearsal-a' });
    await t.turn(`${path}/c`, { finished: true, response: 'Done.' });
    expect(await tools.use('list_children')).toContain('c: COMPLETED');
    await t.end(claim);
    expect((await t.start(path)).preface).toContain('Done.');
  });

  test('who kills a child knows it', async () => {
    const { path, claim, tools } = await working();
    await tools.use('spawn_child', { name: 'c', description: 'work', model: 'rehearsal-a' });
    await tools.use('kill_child', { child: 'c' });
    await t.end(claim);
    expect(await t.phase(path)).toBe('WAITING_FOR_INPUT/RESTING');
  });
});

describe('walls', () => {
  test('a run reaches nobody beside it, above it, or in another tenant', async () => {
    const { path, tools } = await working();
    const sibling = await working();
    await tools.use('spawn_child', { name: 'c', description: 'work', model: 'rehearsal-a' });
    const child = await toolsOf(await t.start(`${path}/c`));
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

  test('a newer run does not inherit what an older one may say', async () => {
    const { path, claim } = await working();
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
  test('ask and finish are routes, for a run and its own agent alone', async () => {
    const { path, claim } = await working();
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
