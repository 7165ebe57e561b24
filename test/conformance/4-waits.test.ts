import type { AgentStatus } from '@muster/sdk/contract';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { accepted, type Fields } from '../support/agents.ts';
import { type Answer, type Api, apiOf } from '../support/api.ts';
import { expectRefusal } from '../support/refusal.ts';
import { type SharedServer, sharedServer } from '../support/shared-server.ts';
import { inAnHour, newStage, type Stage } from '../support/stage.ts';

let server: SharedServer;
let api: Api;

beforeAll(async () => {
  server = await sharedServer({ runner: false });
  api = apiOf(server);
});
afterAll(() => server.close());

const wait = (s: Stage, path: string, more: Fields): Promise<Answer<AgentStatus>> =>
  s.send<AgentStatus>('agent/wait', path, more);
const waitMany = (more: Fields): Promise<Answer<AgentStatus>> =>
  api.post<AgentStatus>('/v1/agents/wait', more);

/** Whether a wait would return now. */
async function isOver(asked: Promise<Answer<AgentStatus>>): Promise<boolean> {
  const { timedOut } = accepted('wait', await asked);
  return !timedOut;
}
const now = { timeoutSeconds: 0 };

describe('wait for a message', () => {
  const isAnswered = (s: Stage, followUpId: string) => isOver(wait(s, 'a', { followUpId, ...now }));

  test('returns when the run that was given the message has ended, though others are queued behind it', async () => {
    const s = await newStage(api);
    await s.rested('a');
    const first = await s.queue('a', 'one');
    const run = await s.start('a');
    const second = await s.queue('a', 'two');
    expect(await isAnswered(s, first)).toBe(false);
    const waiting = wait(s, 'a', { followUpId: first });
    await s.end(run, 'COMPLETED', { response: 'answer one' });
    expect(accepted('wait', await waiting)).toMatchObject({
      response: 'answer one',
      phase: 'PHASE_PENDING',
      timedOut: false,
    });
    expect(await isAnswered(s, second)).toBe(false);
    await s.turn('a');
    expect(await isAnswered(s, second)).toBe(true);
  });

  test.each<[outcome: string, end: Fields]>([
    ['HANDED_BACK', {}],
    ['PARKED', { limitUntil: new Date().toISOString() }],
  ])('goes on after a run that ended %s, because the same messages are tried again', async (outcome, end) => {
    const s = await newStage(api);
    await s.rested('a');
    const message = await s.queue('a', 'x');
    await s.end(await s.start('a'), outcome, end);
    expect(await isAnswered(s, message)).toBe(false);
    const again = await s.start('a');
    expect(await isAnswered(s, message)).toBe(false);
    await s.end(again);
    expect(await isAnswered(s, message)).toBe(true);
  });

  test.each<[how: string, end: (s: Stage) => Promise<unknown>]>([
    [
      'the run failed',
      async (s) =>
        s.end(await s.start('a'), 'FAILED', { error: { code: 'REHEARSED_FAILURE', message: 'y' } }),
    ],
    [
      'the turn was stopped',
      async (s) => {
        const run = await s.start('a');
        await s.stop('a', 2);
        await s.end(run, 'INTERRUPTED');
      },
    ],
    [
      'the agent was killed',
      async (s) => {
        await s.start('a');
        await s.kill('a');
      },
    ],
    ['it was cleared', (s) => s.clear('a')],
    ['it was removed', (s) => s.remove('a', 'm')],
    ['another message preempted it', (s) => s.queue('a', { description: 'y', preempt: true })],
    [
      'its batch was abandoned',
      async (s) => {
        await s.end(await s.start('a'), 'PARKED', { limitUntil: inAnHour() });
        await s.queue('a', { description: 'y', preempt: true });
      },
    ],
  ])('returns when %s', async (_how, end) => {
    const s = await newStage(api);
    await s.rested('a');
    await s.queue('a', { description: 'x', followUpId: 'm' });
    const waiting = wait(s, 'a', { followUpId: 'm' });
    expect(await isAnswered(s, 'm')).toBe(false);
    await end(s);
    expect(accepted('wait', await waiting).timedOut).toBe(false);
  });

  test('waits for a deferred message although the agent is idle', async () => {
    const s = await newStage(api);
    await s.rested('a');
    const message = await s.queue('a', { description: 'x', deliverAt: inAnHour() });
    expect(await isAnswered(s, message)).toBe(false);
  });

  test('returns immediately when the message was answered long ago', async () => {
    const s = await newStage(api);
    await s.rested('a');
    const message = await s.queue('a', 'x');
    await s.turn('a');
    await s.queue('a', 'y');
    await s.start('a');
    expect(accepted('wait', await wait(s, 'a', { followUpId: message }))).toMatchObject({
      phase: 'PHASE_RUNNING',
      timedOut: false,
    });
  });

  test('an unknown message is NOT_FOUND, also under another agent', async () => {
    const s = await newStage(api);
    await s.rested('a');
    await s.rested('b');
    await s.queue('b', { description: 'x', followUpId: 'of-b' });
    for (const followUpId of ['never', 'of-b'])
      expectRefusal(await wait(s, 'a', { followUpId }), 'NOT_FOUND');
  });
});

describe('wait for a run', () => {
  test('returns when that run has ended, though the agent goes on', async () => {
    const s = await newStage(api);
    await s.spawn('a');
    const run = await s.start('a');
    await s.queue('a', 'next');
    expect(await isOver(wait(s, 'a', { runId: '1', ...now }))).toBe(false);
    const waiting = wait(s, 'a', { runId: 1 });
    await s.end(run, 'HANDED_BACK');
    expect(accepted('wait', await waiting)).toMatchObject({ phaseReason: 'RETRYING', timedOut: false });
    await s.start('a');
    expect(accepted('wait', await wait(s, 'a', { runId: '1' }))).toMatchObject({ phase: 'PHASE_RUNNING' });
    expect(await isOver(wait(s, 'a', { runId: '2', ...now }))).toBe(false);
  });

  test.each<unknown>(['2', 0, '-1', '9223372036854775807'])(
    'runId %s of one run is refused',
    async (runId) => {
      const s = await newStage(api);
      await s.rested('a');
      expectRefusal(await wait(s, 'a', { runId }), 'INVALID_ARGUMENT', 'runId');
    },
  );

  test('a message and a run in one wait are refused', async () => {
    const s = await newStage(api);
    await s.rested('a');
    expectRefusal(await wait(s, 'a', { runId: 1, followUpId: 'x' }), 'INVALID_ARGUMENT', 'runId');
  });
});

describe('timeoutSeconds', () => {
  test('returns the current record, with timedOut', async () => {
    const s = await newStage(api);
    await s.spawn('a');
    await s.start('a');
    const record = accepted('wait', await wait(s, 'a', { timeoutSeconds: 0.05 }));
    expect(record).toEqual({ ...(await s.status('a')), timedOut: true });
    expect(record.phase).toBe('PHASE_RUNNING');
  });

  test('leaves a wait alone that has something to return', async () => {
    const s = await newStage(api);
    await s.rested('a');
    expect(accepted('wait', await wait(s, 'a', { timeoutSeconds: 0 }))).toEqual(await s.status('a'));
    expect((await s.status('a')).timedOut).toBe(false);
  });

  test.each([-1, 604_801, '5', 1e300])('%s is refused', async (timeoutSeconds) => {
    const s = await newStage(api);
    await s.rested('a');
    expectRefusal(await wait(s, 'a', { timeoutSeconds }), 'INVALID_ARGUMENT', 'timeoutSeconds');
  });

  test('of many: the first that still works', async () => {
    const s = await newStage(api);
    await s.rested('a');
    await s.spawn('b');
    const record = accepted(
      'wait',
      await waitMany({ agentIds: [s.id('a'), s.id('b')], all: true, timeoutSeconds: 0 }),
    );
    expect(record).toMatchObject({ agentId: { agent: ['b'] }, timedOut: true });
  });
});

describe('wait for all', () => {
  test('returns when every one of them needs attention at the same time, with the one that settled last', async () => {
    const s = await newStage(api);
    await s.spawn('a');
    await s.spawn('b');
    const agentIds = [s.id('a'), s.id('b')];
    await s.turn('a');
    expect(await isOver(waitMany({ agentIds, all: true, ...now }))).toBe(false);
    const waiting = waitMany({ agentIds, all: true });
    await s.queue('a', 'again');
    const again = await s.start('a');
    await s.turn('b');
    expect(await isOver(waitMany({ agentIds, all: true, ...now }))).toBe(false);
    await s.end(again);
    expect(accepted('wait', await waiting)).toMatchObject({ agentId: { agent: ['a'] }, timedOut: false });
    expect(accepted('wait', await waitMany({ agentIds, all: true }))).toMatchObject({
      agentId: { agent: ['a'] },
    });
  });
});

describe('wait for what is below an agent', () => {
  const below = (s: Stage, path: string, more: Fields = {}) => waitMany({ below: s.id(path), ...more });

  async function tree(s: Stage): Promise<void> {
    for (const path of ['p', 'p/x', 'p/x/deep', 'p/y', 'other', 'other/z']) await s.spawn(path);
    await s.turn('other/z');
  }

  test('returns the first below it that needs attention, at any depth', async () => {
    const s = await newStage(api);
    await tree(s);
    expect(await isOver(below(s, 'p', now))).toBe(false);
    const waiting = below(s, 'p');
    await s.turn('p/x/deep');
    expect(accepted('wait', await waiting)).toMatchObject({ agentId: { agent: ['p', 'x', 'deep'] } });
  });

  test('one that has ended needs attention too', async () => {
    const s = await newStage(api);
    await tree(s);
    await s.kill('p/y');
    expect(accepted('wait', await below(s, 'p'))).toMatchObject({
      agentId: { agent: ['p', 'y'] },
      phase: 'PHASE_CANCELED',
    });
  });

  test('all: returns when none below it works any more, those spawned meanwhile included', async () => {
    const s = await newStage(api);
    for (const path of ['p', 'p/x', 'p/y']) await s.spawn(path);
    const waiting = below(s, 'p', { all: true });
    await s.turn('p/x');
    expect(await isOver(below(s, 'p', { all: true, ...now }))).toBe(false);
    await s.spawn('p/x/late');
    await s.turn('p/y');
    expect(await isOver(below(s, 'p', { all: true, ...now }))).toBe(false);
    await s.turn('p/x/late');
    expect(accepted('wait', await waiting)).toMatchObject({
      agentId: { agent: ['p', 'x', 'late'] },
      timedOut: false,
    });
  });

  test('with nothing below it, all of it has settled: the record is its own', async () => {
    const s = await newStage(api);
    await s.spawn('p');
    expect(accepted('wait', await below(s, 'p', { all: true }))).toMatchObject({ agentId: { agent: ['p'] } });
    expect(await isOver(below(s, 'p', now))).toBe(false);
    await s.kill('p');
    expect(accepted('wait', await below(s, 'p'))).toMatchObject({ agentId: { agent: ['p'] } });
  });

  test('an unknown agent is NOT_FOUND; agentIds and below together are refused', async () => {
    const s = await newStage(api);
    await s.spawn('p');
    expectRefusal(await below(s, 'nobody'), 'NOT_FOUND');
    expectRefusal(await below(s, 'p', { agentIds: [s.id('p')] }), 'INVALID_ARGUMENT', 'below');
    expectRefusal(await waitMany({ below: {} }), 'INVALID_ARGUMENT', 'below.agent');
  });
});
