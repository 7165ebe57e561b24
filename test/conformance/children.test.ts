import type { AgentStatus } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import { useSharedServer } from '../support/shared-server.ts';
import { inMs, newTestTenant, type TestTenant, textsOf } from '../support/test-tenant.ts';

const { api } = await useSharedServer({ runner: false });

describe('children', () => {
  /** A parent in CHILDREN with two children at work. */
  async function family(): Promise<TestTenant> {
    const t = await newTestTenant(api);
    await t.spawn('p');
    const run = await t.start('p');
    await t.spawn('p/one');
    await t.spawn('p/two');
    await t.end(run);
    expect(await t.phase('p')).toBe('PENDING/CHILDREN');
    return t;
  }

  test('a parent is not woken by a child that becomes idle while another works', async () => {
    const t = await family();
    await t.turn('p/one', { response: 'one is done' });
    expect(await t.phase('p')).toBe('PENDING/CHILDREN');
    expect((await t.offered()).filter((path) => path === 'p')).toEqual([]);
    await t.turn('p/two', { response: 'two is done' });
    const run = await t.turn('p');
    expect(run).toMatchObject({ runId: 2, messages: [] });
    expect(run.preface).toMatch(/one/);
    expect(run.preface).toMatch(/two/);
    expect(await t.phase('p')).toBe('WAITING_FOR_INPUT/RESTING');
  });

  test.each<[what: string, outcome: string, end: Record<string, unknown>]>([
    ['asks', 'COMPLETED', { question: 'Blue or green?' }],
    ['fails', 'FAILED', { error: { code: 'REHEARSED_FAILURE', message: 'it broke' } }],
    ['is blocked', 'FAILED', { error: { code: 'BROKEN', message: 'it broke' } }],
  ])('a parent in CHILDREN is woken when a child %s', async (_what, outcome, end) => {
    const t = await family();
    await t.end(await t.start('p/one'), outcome, end);
    const run = await t.claim('p');
    expect(run).toMatchObject({ runId: 2, messages: [] });
    expect(run.preface).toMatch(/one/);
    expect(run.preface).toMatch(outcome === 'FAILED' ? /it broke|BROKEN|FAILED|failed/ : /Blue or green\?/);
    expect((await t.status('p/two')).phase).toMatch(/PENDING|RUNNING/);
  });

  test('killing the last working child wakes the parent', async () => {
    const t = await family();
    await t.kill('p/one');
    expect(await t.phase('p')).toBe('PENDING/CHILDREN');
    await t.kill('p/two');
    expect((await t.claim('p')).runId).toBe(2);
  });

  test('a message to an agent in CHILDREN starts a run immediately, which starts with the news of its children', async () => {
    const t = await family();
    await t.turn('p/one', { response: 'one is done' });
    const id = await t.queue('p', 'how is it going?');
    const run = await t.start('p');
    expect(run.messages).toMatchObject([{ followUpId: id, text: 'how is it going?' }]);
    expect(run.preface).toMatch(/one/);
    await t.end(run);
    expect(await t.phase('p')).toBe('PENDING/CHILDREN');
  });

  test('a run starts with what changed in the children since the parent’s last run, once', async () => {
    const t = await family();
    await t.turn('p/one', { response: 'one is done' });
    await t.turn('p/two', { response: 'two is done' });
    await t.turn('p');
    await t.queue('p', 'next');
    expect((await t.claim('p')).preface).toBe('');
  });

  test('the news of children is not a follow-up and cannot be cleared', async () => {
    const t = await family();
    await t.turn('p/one');
    await t.turn('p/two');
    expect((await t.status('p')).followUps).toEqual([]);
    expect(await t.clear('p')).toBe(0);
    await t.queue('p', { description: 'now', preempt: true });
    const run = await t.claim('p');
    expect(run.preface).toMatch(/one/);
    expect(textsOf(run)).toEqual(['now']);
    expect(await t.timeline('p', 'FOLLOW_UP_CLEARED')).toEqual([]);
  });

  test('a child that settles during the parent’s run causes another run', async () => {
    const t = await newTestTenant(api);
    await t.spawn('p');
    const run = await t.start('p');
    await t.spawn('p/c');
    await t.turn('p/c', { response: 'settled' });
    await t.end(run);
    const next = await t.turn('p');
    expect(next).toMatchObject({ runId: 2, messages: [] });
    expect(next.preface).toMatch(/c/);
    expect((await t.runs('p'))[0]?.followUpIds).toEqual([]);
    expect(await t.phase('p')).toBe('WAITING_FOR_INPUT/RESTING');
  });

  test.each(['agent/status', 'agent/wait'])(
    'a child that settles during the parent’s run causes no other run if the parent learned it with its own %s',
    async (route) => {
      const t = await newTestTenant(api);
      await t.spawn('p');
      const run = await t.start('p');
      await t.spawn('p/c');
      await t.turn('p/c');
      const { status, body } = await api
        .as(run.token)
        .post<AgentStatus>(`/v1/${route}`, { agentId: t.id('p/c') });
      expect({ status, phase: body.phase }).toEqual({ status: 200, phase: 'PHASE_WAITING_FOR_INPUT' });
      await t.end(run);
      expect(await t.phase('p')).toBe('WAITING_FOR_INPUT/RESTING');
    },
  );

  test('only the parent’s own reads count', async () => {
    const t = await newTestTenant(api);
    await t.spawn('p');
    const run = await t.start('p');
    await t.spawn('p/c');
    await t.turn('p/c');
    await t.status('p/c');
    await t.end(run);
    expect((await t.claim('p')).runId).toBe(2);
  });

  test('an agent’s own key spawns and commands its descendants', async () => {
    const t = await newTestTenant(api);
    await t.spawn('p');
    const run = await t.start('p');
    const own = api.as(run.token);
    const agentId = t.id('p/c');
    expect((await own.post('/v1/agent/spawn', { agentId, description: 'x' })).status).toBe(200);
    expect((await own.post('/v1/agent/queue', { agentId, description: 'y' })).status).toBe(200);
    expect((await own.post('/v1/agent/kill', { agentId })).status).toBe(200);
    expect((await t.status('p')).children).toHaveLength(1);
    const types = (await t.timeline('p', 'CHILD_SPAWNED', 'CHILD_SETTLED')).map(({ type }) => type);
    expect(types).toEqual(['CHILD_SPAWNED', 'CHILD_SETTLED']);
  });

  describe('a parent that declared itself finished while its children work', () => {
    /** Its child has settled, and the parent is woken. */
    async function woken(): Promise<TestTenant> {
      const t = await newTestTenant(api);
      await t.spawn('p');
      const run = await t.start('p');
      await t.spawn('p/c');
      await t.end(run, 'COMPLETED', { finished: true });
      expect(await t.phase('p')).toBe('PENDING/CHILDREN');
      await t.turn('p/c');
      return t;
    }

    test('is COMPLETED after the run that tells it how they ended, also if that run is lost or retried', async () => {
      const t = await woken();
      for (const outcome of ['HANDED_BACK', 'PARKED']) {
        await t.end(await t.start('p'), outcome, { limitUntil: inMs(-1) });
        expect(await t.phase('p')).toMatch(/^PENDING/);
      }
      await t.turn('p');
      expect(await t.phase('p')).toBe('COMPLETED/FINISHED');
    });

    test('is COMPLETED after a child that settled during its last run', async () => {
      const t = await newTestTenant(api);
      await t.spawn('p');
      const run = await t.start('p');
      await t.spawn('p/c');
      await t.turn('p/c');
      await t.end(run, 'COMPLETED', { finished: true });
      await t.turn('p');
      expect(await t.phase('p')).toBe('COMPLETED/FINISHED');
    });

    test('is idle if a message came meanwhile, and asks if it has a question', async () => {
      const t = await woken();
      await t.queue('p', 'One more thing.');
      await t.turn('p');
      expect(await t.phase('p')).toBe('WAITING_FOR_INPUT/RESTING');
      const asks = await woken();
      await asks.turn('p', { question: 'Which?' });
      expect(await asks.phase('p')).toBe('WAITING_FOR_INPUT/QUESTION');
      await asks.queue('p', 'This one.');
      await asks.turn('p');
      expect(await asks.phase('p')).toBe('WAITING_FOR_INPUT/RESTING');
    });

    test('is idle if a message was added to its turn', async () => {
      const t = await woken();
      const run = await t.start('p');
      const followUpId = await t.queue('p', { description: 'One more thing.', steer: true });
      const [entry] = await t.timeline('p', 'FOLLOW_UP_QUEUED');
      const sequence = Number(entry?.sequence);
      await t.report(run, { steers: [{ followUpId, sequence, taken: true }] });
      await t.end(run);
      expect(await t.phase('p')).toBe('WAITING_FOR_INPUT/RESTING');
    });
  });
});
