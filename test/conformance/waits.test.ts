import type { AgentStatus } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import { accepted, type Fields } from '../support/agents.ts';
import type { Answer } from '../support/api.ts';
import { expectError } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { inAnHour, newTestTenant, type TestTenant } from '../support/test-tenant.ts';

const { api } = await useSharedServer({ runner: false });

const wait = (t: TestTenant, path: string, more: Fields): Promise<Answer<AgentStatus>> =>
  t.send<AgentStatus>('agent/wait', path, more);
const waitMany = (more: Fields): Promise<Answer<AgentStatus>> =>
  api.post<AgentStatus>('/v1/agents/wait', more);

/** Whether a wait would return now. */
async function isOver(asked: Promise<Answer<AgentStatus>>): Promise<boolean> {
  const { timedOut } = accepted('wait', await asked);
  return !timedOut;
}
const now = { timeoutSeconds: 0 };

describe('wait for a message', () => {
  const isAnswered = (t: TestTenant, followUpId: string) => isOver(wait(t, 'a', { followUpId, ...now }));

  test('returns when the run that got the message has ended, even if others are queued', async () => {
    const t = await newTestTenant(api);
    await t.rested('a');
    const first = await t.queue('a', 'one');
    const run = await t.start('a');
    const second = await t.queue('a', 'two');
    expect(await isAnswered(t, first)).toBe(false);
    const waiting = wait(t, 'a', { followUpId: first });
    await t.end(run, 'COMPLETED', { response: 'answer one' });
    expect(accepted('wait', await waiting)).toMatchObject({
      response: 'answer one',
      phase: 'PHASE_PENDING',
      timedOut: false,
    });
    expect(await isAnswered(t, second)).toBe(false);
    await t.turn('a');
    expect(await isAnswered(t, second)).toBe(true);
  });

  test.each<[outcome: string, end: Fields]>([
    ['HANDED_BACK', {}],
    ['PARKED', { limitUntil: new Date().toISOString() }],
  ])('continues after a run that ended %s, because the same messages are retried', async (outcome, end) => {
    const t = await newTestTenant(api);
    await t.rested('a');
    const message = await t.queue('a', 'x');
    await t.end(await t.start('a'), outcome, end);
    expect(await isAnswered(t, message)).toBe(false);
    const again = await t.start('a');
    expect(await isAnswered(t, message)).toBe(false);
    await t.end(again);
    expect(await isAnswered(t, message)).toBe(true);
  });

  test.each<[how: string, end: (t: TestTenant) => Promise<unknown>]>([
    [
      'the run failed',
      async (t) =>
        t.end(await t.start('a'), 'FAILED', { error: { code: 'REHEARSED_FAILURE', message: 'y' } }),
    ],
    [
      'the turn was stopped',
      async (t) => {
        const run = await t.start('a');
        await t.stop('a', 2);
        await t.end(run, 'INTERRUPTED');
      },
    ],
    [
      'the agent was killed',
      async (t) => {
        await t.start('a');
        await t.kill('a');
      },
    ],
    ['it was cleared', (t) => t.clear('a')],
    ['it was removed', (t) => t.remove('a', 'm')],
    ['another message preempted it', (t) => t.queue('a', { description: 'y', preempt: true })],
    [
      'its batch was abandoned',
      async (t) => {
        await t.end(await t.start('a'), 'PARKED', { limitUntil: inAnHour() });
        await t.queue('a', { description: 'y', preempt: true });
      },
    ],
  ])('returns when %s', async (_how, end) => {
    const t = await newTestTenant(api);
    await t.rested('a');
    await t.queue('a', { description: 'x', followUpId: 'm' });
    const waiting = wait(t, 'a', { followUpId: 'm' });
    expect(await isAnswered(t, 'm')).toBe(false);
    await end(t);
    expect(accepted('wait', await waiting).timedOut).toBe(false);
  });

  test('waits for a deferred message although the agent is idle', async () => {
    const t = await newTestTenant(api);
    await t.rested('a');
    const message = await t.queue('a', { description: 'x', deliverAt: inAnHour() });
    expect(await isAnswered(t, message)).toBe(false);
  });

  test('returns immediately when the message was answered long ago', async () => {
    const t = await newTestTenant(api);
    await t.rested('a');
    const message = await t.queue('a', 'x');
    await t.turn('a');
    await t.queue('a', 'y');
    await t.start('a');
    expect(accepted('wait', await wait(t, 'a', { followUpId: message }))).toMatchObject({
      phase: 'PHASE_RUNNING',
      timedOut: false,
    });
  });

  test('an unknown message is NOT_FOUND, also under another agent', async () => {
    const t = await newTestTenant(api);
    await t.rested('a');
    await t.rested('b');
    await t.queue('b', { description: 'x', followUpId: 'of-b' });
    for (const followUpId of ['never', 'of-b']) expectError(await wait(t, 'a', { followUpId }), 'NOT_FOUND');
  });
});

describe('wait for a run', () => {
  test('returns when that run has ended, even if the agent continues', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.start('a');
    await t.queue('a', 'next');
    expect(await isOver(wait(t, 'a', { runId: '1', ...now }))).toBe(false);
    const waiting = wait(t, 'a', { runId: 1 });
    await t.end(run, 'HANDED_BACK');
    expect(accepted('wait', await waiting)).toMatchObject({ phaseReason: 'RETRYING', timedOut: false });
    await t.start('a');
    expect(accepted('wait', await wait(t, 'a', { runId: '1' }))).toMatchObject({ phase: 'PHASE_RUNNING' });
    expect(await isOver(wait(t, 'a', { runId: '2', ...now }))).toBe(false);
  });

  test.each<unknown>(['2', 0, '-1', '9223372036854775807'])(
    'with runId %s of one run is refused',
    async (runId) => {
      const t = await newTestTenant(api);
      await t.rested('a');
      expectError(await wait(t, 'a', { runId }), 'INVALID_ARGUMENT', 'runId');
    },
  );

  test('a message and a run in one wait are refused', async () => {
    const t = await newTestTenant(api);
    await t.rested('a');
    expectError(await wait(t, 'a', { runId: 1, followUpId: 'x' }), 'INVALID_ARGUMENT', 'runId');
  });
});

describe('timeoutSeconds', () => {
  test('returns the current record, with timedOut', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    await t.start('a');
    const record = accepted('wait', await wait(t, 'a', { timeoutSeconds: 0.05 }));
    expect(record).toEqual({ ...(await t.status('a')), timedOut: true });
    expect(record.phase).toBe('PHASE_RUNNING');
  });

  test('does not affect a wait that has something to return', async () => {
    const t = await newTestTenant(api);
    await t.rested('a');
    expect(accepted('wait', await wait(t, 'a', { timeoutSeconds: 0 }))).toEqual(await t.status('a'));
    expect((await t.status('a')).timedOut).toBe(false);
  });

  test.each([-1, 604_801, '5', 1e300])('%s is refused', async (timeoutSeconds) => {
    const t = await newTestTenant(api);
    await t.rested('a');
    expectError(await wait(t, 'a', { timeoutSeconds }), 'INVALID_ARGUMENT', 'timeoutSeconds');
  });

  test('of several agents: returns the first that still works', async () => {
    const t = await newTestTenant(api);
    await t.rested('a');
    await t.spawn('b');
    const record = accepted(
      'wait',
      await waitMany({ agentIds: [t.id('a'), t.id('b')], all: true, timeoutSeconds: 0 }),
    );
    expect(record).toMatchObject({ agentId: { agent: ['b'] }, timedOut: true });
  });
});

describe('wait for several', () => {
  test('an agent that is named a thousand times counts once', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    await t.spawn('b');
    const { agentId } = await t.status('a');
    const names = [agentId, { agent: agentId.agent, workspace: agentId.workspace }];
    const many = { agentIds: Array.from({ length: 999 }, (_, i) => names[i % 2]) };
    // Each key may watch 100,000 agents.
    const waiting = Array.from({ length: 120 }, () => waitMany(many));
    expect(accepted('wait', await waitMany({ ...many, ...now })).agentId).toEqual(agentId);
    const other = (await t.status('b')).agentId;
    expect(await isOver(waitMany({ agentIds: [...many.agentIds, other], ...now }))).toBe(false);
    await t.kill('a');
    expect((await Promise.all(waiting)).map(({ status }) => status)).toEqual(waiting.map(() => 200));
    expect(await isOver(waitMany({ agentIds: [...many.agentIds, other], ...now }))).toBe(true);
    expect(await isOver(waitMany({ agentIds: [...many.agentIds, other], all: true, ...now }))).toBe(false);
  });

  test('permission is checked for all of them before one is looked for', async () => {
    const absent = { agent: ['absent'] };
    const foreign = { tenant: { provider: 'PROVIDER_CODEHOST_APP', org: 'other' }, agent: ['x'] };
    expectError(await waitMany({ agentIds: [absent, foreign] }), 'PERMISSION_DENIED');
    expectError(await waitMany({ agentIds: [absent] }), 'NOT_FOUND');
    expectError(await waitMany({ agentIds: [absent, {}] }), 'INVALID_ARGUMENT', 'agentIds[1].agent');
  });
});

describe('wait for all', () => {
  test('returns when all of them need attention at the same time, with the one that settled last', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    await t.spawn('b');
    const agentIds = [t.id('a'), t.id('b')];
    await t.turn('a');
    expect(await isOver(waitMany({ agentIds, all: true, ...now }))).toBe(false);
    const waiting = waitMany({ agentIds, all: true });
    await t.queue('a', 'again');
    const again = await t.start('a');
    await t.turn('b');
    expect(await isOver(waitMany({ agentIds, all: true, ...now }))).toBe(false);
    await t.end(again);
    expect(accepted('wait', await waiting)).toMatchObject({ agentId: { agent: ['a'] }, timedOut: false });
    expect(accepted('wait', await waitMany({ agentIds, all: true }))).toMatchObject({
      agentId: { agent: ['a'] },
    });
  });
});

describe('wait for the agents below an agent', () => {
  const below = (t: TestTenant, path: string, more: Fields = {}) => waitMany({ below: t.id(path), ...more });

  async function tree(t: TestTenant): Promise<void> {
    for (const path of ['p', 'p/x', 'p/x/deep', 'p/y', 'other', 'other/z']) await t.spawn(path);
    await t.turn('other/z');
  }

  test('returns the first one that needs attention, at any depth', async () => {
    const t = await newTestTenant(api);
    await tree(t);
    expect(await isOver(below(t, 'p', now))).toBe(false);
    const waiting = below(t, 'p');
    await t.turn('p/x/deep');
    expect(accepted('wait', await waiting)).toMatchObject({ agentId: { agent: ['p', 'x', 'deep'] } });
  });

  test('an ended agent needs attention too', async () => {
    const t = await newTestTenant(api);
    await tree(t);
    await t.kill('p/y');
    expect(accepted('wait', await below(t, 'p'))).toMatchObject({
      agentId: { agent: ['p', 'y'] },
      phase: 'PHASE_CANCELED',
    });
  });

  test('all: returns when none below it works, including agents spawned meanwhile', async () => {
    const t = await newTestTenant(api);
    for (const path of ['p', 'p/x', 'p/y']) await t.spawn(path);
    const waiting = below(t, 'p', { all: true });
    await t.turn('p/x');
    expect(await isOver(below(t, 'p', { all: true, ...now }))).toBe(false);
    await t.spawn('p/x/late');
    await t.turn('p/y');
    expect(await isOver(below(t, 'p', { all: true, ...now }))).toBe(false);
    await t.turn('p/x/late');
    expect(accepted('wait', await waiting)).toMatchObject({
      agentId: { agent: ['p', 'x', 'late'] },
      timedOut: false,
    });
  });

  test('with no agent below it returns its own record', async () => {
    const t = await newTestTenant(api);
    await t.spawn('p');
    expect(accepted('wait', await below(t, 'p', { all: true }))).toMatchObject({ agentId: { agent: ['p'] } });
    expect(await isOver(below(t, 'p', now))).toBe(false);
    await t.kill('p');
    expect(accepted('wait', await below(t, 'p'))).toMatchObject({ agentId: { agent: ['p'] } });
  });

  test('an unknown agent is NOT_FOUND; agentIds and below together are refused', async () => {
    const t = await newTestTenant(api);
    await t.spawn('p');
    expectError(await below(t, 'nobody'), 'NOT_FOUND');
    expectError(await below(t, 'p', { agentIds: [t.id('p')] }), 'INVALID_ARGUMENT', 'below');
    expectError(await waitMany({ below: {} }), 'INVALID_ARGUMENT', 'below.agent');
  });
});
