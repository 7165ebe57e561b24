import { beforeAll, describe, expect, test } from 'vitest';
import type { TestTenant } from '../support/test-tenant.ts';
import { McpFixture } from './client.ts';

/** The tools by which an agent manages its children. */
const mcp = McpFixture.use();
let t: TestTenant;
beforeAll(() => {
  t = mcp.tenant;
});

describe('children', () => {
  test('are spawned below their parent, with every field of a spawn', async () => {
    const { path, tools } = await mcp.working();
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

  test('a repeated spawn returns the same child; other arguments are refused until the child has ended', async () => {
    const { path, tools } = await mcp.working();
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

  test('can be messaged, stopped and killed', async () => {
    const { path, tools } = await mcp.working();
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

  test('can be retried when blocked and reopened when ended', async () => {
    const { path, tools } = await mcp.working();
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

  test('can be named by a path from the parent or from the root', async () => {
    const { path, tools } = await mcp.working();
    await tools.use('spawn_child', { name: 'c', description: 'work', model: 'rehearsal-a' });
    const child = await mcp.toolsOf({ key: (await t.start(`${path}/c`)).token });
    await child.use('spawn_child', { name: 'g', description: 'work', model: 'rehearsal-a' });
    expect(await tools.use('child_status', { child: 'c/g' })).toMatch(/^c\/g: PENDING/);
    expect(await tools.use('child_status', { child: `${path}/c/g` })).toMatch(/^c\/g: PENDING/);
  });

  test('a wait returns when one child needs attention, and lists the children that still work', async () => {
    const { path, tools } = await mcp.working();
    expect(await tools.use('wait_for_children')).toBe('You have no children.');
    for (const name of ['a', 'b'])
      await tools.use('spawn_child', { name, description: 'work', model: 'rehearsal-a' });
    const [a, b] = [await t.start(`${path}/a`), await t.start(`${path}/b`)];
    const waiting = tools.call('wait_for_children', { timeoutSeconds: 600 });
    await t.end(a, 'COMPLETED', { question: 'Red or blue?', response: 'I need to know.' });
    const first = await waiting;
    expect(first.text).toMatch(
      /^a: WAITING_FOR_INPUT \(QUESTION\)\nQuestion: Red or blue\?\nResponse: I need to know\.\n\nStill working:\n- b: RUNNING/,
    );
    expect(first.data).toMatchObject({ news: [{ child: 'a', question: 'Red or blue?' }], working: ['b'] });
    const rest = tools.call('wait_for_children', { children: ['a', 'b'], timeoutSeconds: 600 });
    await t.end(b, 'FAILED', { error: { code: 'REHEARSED_FAILURE', message: 'it broke' } });
    expect((await rest).text).toMatch(/^b: FAILED \(ERROR\)\nError: REHEARSED_FAILURE: it broke/);
    expect(await tools.use('wait_for_children')).toMatch(
      /^No child is working:\n- a: .*question: Red or blue\?\n- b: FAILED/,
    );
    expect(await tools.refused('wait_for_children', { children: ['z'] })).toContain('no child "z"');
  });

  test('a wait that times out lists the children that still work', async () => {
    const { tools } = await mcp.working();
    await tools.use('spawn_child', { name: 'a', description: 'work', model: 'rehearsal-a' });
    const { text, data } = await tools.call('wait_for_children', { timeoutSeconds: 0 });
    expect(text).toMatch(/^Timed out\. Still working:\n- a: PENDING/);
    expect(data).toMatchObject({ news: [], working: ['a'] });
  });

  test('a wait ends when its run ends', async () => {
    const { path, claim, tools } = await mcp.working();
    await tools.use('spawn_child', { name: 'a', description: 'work', model: 'rehearsal-a' });
    await tools.use('spawn_child', { name: 'b', description: 'work', model: 'rehearsal-a' });
    const waiting = tools.call('wait_for_children', { timeoutSeconds: 600 });
    await mcp.untilOpenWaits(1);
    await t.end(claim);
    expect(await waiting).toMatchObject({
      failed: true,
      text: expect.stringContaining('your run has ended'),
    });
    expect(await t.phase(path)).toBe('PENDING/CHILDREN');
    await mcp.untilOpenWaits(0);
  });

  test('a wait ends when its client disconnects', async () => {
    const { tools } = await mcp.working();
    await tools.use('spawn_child', { name: 'a', description: 'work', model: 'rehearsal-a' });
    const held = new AbortController();
    const waiting = tools.call('wait_for_children', { timeoutSeconds: 600 }, held.signal).catch(() => null);
    await mcp.untilOpenWaits(1);
    await tools.close();
    held.abort();
    await waiting;
    await mcp.untilOpenWaits(0);
  });

  test.each([
    ['wait_for_children', {}],
    ['child_status', { child: 'c' }],
  ])('a child reported by %s causes no further run', async (name, args) => {
    const { path, claim, tools } = await mcp.working();
    await tools.use('spawn_child', { name: 'c', description: 'work', model: 'rehearsal-a' });
    await t.turn(`${path}/c`, { finished: true, response: 'Done.' });
    expect(await tools.use(name, args)).toContain('Response: Done.');
    await t.end(claim);
    expect(await t.phase(path)).toBe('WAITING_FOR_INPUT/RESTING');
  });

  test('a child that was only listed causes a further run', async () => {
    const { path, claim, tools } = await mcp.working();
    await tools.use('spawn_child', { name: 'c', description: 'work', model: 'rehearsal-a' });
    await t.turn(`${path}/c`, { finished: true, response: 'Done.' });
    expect(await tools.use('list_children')).toContain('c: COMPLETED');
    await t.end(claim);
    expect((await t.start(path)).preface).toContain('Done.');
  });

  test('a killed child causes no further run', async () => {
    const { path, claim, tools } = await mcp.working();
    await tools.use('spawn_child', { name: 'c', description: 'work', model: 'rehearsal-a' });
    await tools.use('kill_child', { child: 'c' });
    await t.end(claim);
    expect(await t.phase(path)).toBe('WAITING_FOR_INPUT/RESTING');
  });
});
