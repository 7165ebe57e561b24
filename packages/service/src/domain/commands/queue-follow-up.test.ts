import { limits } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import { DomainAgent } from '../../../../../test/support/domain-agents.ts';
import { sampleTask as task } from '../../../../../test/support/samples.ts';

type Play = (agent: DomainAgent) => unknown;

const other = { description: 'something else', digest: 'other' };

describe('a known id is answered first', () => {
  test.each<[string, Play, string]>([
    ['the same message again is there once', (a) => a.queue('m').queue('m'), 'm:QUEUED'],
    ['also when it was delivered', (a) => a.queue('m').claim().queue('m'), 'm:DELIVERED'],
    [
      'also when the agent has ended',
      (a) => a.queue('m').turn('COMPLETED', { finished: true }).queue('m'),
      'm:DELIVERED',
    ],
    [
      'also when it was cleared by that end',
      (a) => a.queue('m').send({ type: 'kill' }).queue('m'),
      'm:CLEARED',
    ],
    [
      'also when its time has passed',
      (a) => {
        const message = { deliverAt: a.inSeconds(60) };
        a.queue('m', message).after(61).send({ type: 'due' }).queue('m', message);
      },
      'm:QUEUED',
    ],
    [
      'after a remove the id is free',
      (a) => a.queue('m').send({ type: 'remove', followUpId: 'm' }).queue('m', other),
      'm:QUEUED',
    ],
    ['after a clear too', (a) => a.queue('m').send({ type: 'clear' }).queue('m', other), 'm:QUEUED'],
  ])('%s', (_, play, messages) => {
    const agent = new DomainAgent();
    play(agent);
    expect([agent.refused, agent.messages]).toEqual(['', messages]);
  });

  test('and preempts nothing again', () => {
    const agent = new DomainAgent().start().queue('now', { preempt: true }).end().start();
    agent.queue('n').queue('now', { preempt: true });
    expect([agent.phase, agent.messages]).toEqual(['RUNNING WORKING', 'now:DELIVERED n:QUEUED']);
  });

  test.each<[string, Play]>([
    ['with other content', (a) => a.queue('m', other)],
    ['with other content after its delivery', (a) => a.claim().queue('m', other)],
    ['with other content that is invalid in itself', (a) => a.queue('m', { ...other, description: '' })],
    ['with other content after the end of the agent', (a) => a.send({ type: 'kill' }).queue('m', other)],
  ])('%s it is refused', (_, play) => {
    const agent = new DomainAgent().queue('m');
    play(agent);
    expect(agent.refused).toBe('ALREADY_EXISTS');
  });
});

describe('a message that replaces another', () => {
  const replace = { ...other, replace: true };
  test.each<[string, Play, string, string]>([
    ['comes last', (a) => a.queue('m').queue('n').queue('m', replace), '', 'm:QUEUED n:QUEUED'],
    ['is admitted if there is none', (a) => a.queue('m', replace), '', 'm:QUEUED'],
    [
      'may be scheduled',
      (a) => a.queue('m').queue('m', { ...replace, deliverAt: a.inSeconds(60) }),
      '',
      'm:DEFERRED',
    ],
    [
      'is refused when that was delivered',
      (a) => a.queue('m').claim().queue('m', replace),
      'FAILED_PRECONDITION',
      'm:DELIVERED',
    ],
    [
      'may use the ids of its tasks',
      (a) => a.queue('m', { tasks: [task('t')] }).queue('m', { ...replace, tasks: [task('t')] }),
      '',
      'm:QUEUED',
    ],
  ])('%s', (_, play, refused, messages) => {
    const agent = new DomainAgent();
    play(agent);
    expect([agent.refused, agent.messages]).toEqual([refused, messages]);
  });

  test('is delivered behind what was queued after the first', () => {
    const agent = new DomainAgent().start().queue('m').queue('n').queue('m', replace).end().claim();
    expect(agent.memory.batch?.followUpIds).toEqual(['n', 'm']);
  });
});

describe('a message is refused', () => {
  test.each<[string, Play, status: string, field: string]>([
    [
      'that says and sets nothing',
      (a) => a.queue('m', { description: '' }),
      'INVALID_ARGUMENT',
      'description',
    ],
    [
      'that is too long',
      (a) => a.queue('m', { description: 'x'.repeat(limits.descriptionBytes + 1) }),
      'INVALID_ARGUMENT',
      'description',
    ],
    [
      'that is due already',
      (a) => a.queue('m', { deliverAt: a.inSeconds(0) }),
      'INVALID_ARGUMENT',
      'deliverAt',
    ],
    [
      'that is due too late',
      (a) => a.queue('m', { deliverAt: a.inSeconds((limits.deferDays + 1) * 24 * 3600) }),
      'INVALID_ARGUMENT',
      'deliverAt',
    ],
    [
      'that is both scheduled and preempting',
      (a) => a.queue('m', { deliverAt: a.inSeconds(60), preempt: true }),
      'INVALID_ARGUMENT',
      'deliverAt',
    ],
    [
      'that both steers and sets something',
      (a) => a.queue('m', { steer: true, change: { fastMode: true } }),
      'INVALID_ARGUMENT',
      'steer',
    ],
    [
      'with a model of the other backend',
      (a) => a.queue('m', { change: { model: 'rehearsal-b' } }),
      'INVALID_ARGUMENT',
      'model',
    ],
    [
      'with an unknown model',
      (a) => a.queue('m', { change: { model: 'nothing' } }),
      'INVALID_ARGUMENT',
      'model',
    ],
    [
      'with an effort that the backend does not have',
      (a) => a.queue('m', { change: { reasoningEffort: 'extreme' } }),
      'INVALID_ARGUMENT',
      'reasoningEffort',
    ],
    [
      'with the id of a task in the checklist',
      (a) => a.send({ type: 'createTasks', tasks: [task('t')] }).queue('m', { tasks: [task('t')] }),
      'INVALID_ARGUMENT',
      'tasks[0].id',
    ],
    [
      'with the id of a task of an undelivered message',
      (a) => a.queue('m', { tasks: [task('t')] }).queue('n', { tasks: [task('t')] }),
      'INVALID_ARGUMENT',
      'tasks[0].id',
    ],
    [
      'with a reference to no task',
      (a) => a.queue('m', { tasks: [task('t', { blockedBy: ['u'] })] }),
      'INVALID_ARGUMENT',
      'tasks[0].blockedBy[0]',
    ],
    [
      'with tasks that block each other',
      (a) => a.queue('m', { tasks: [task('t', { blockedBy: ['u'] }), task('u', { blockedBy: ['t'] })] }),
      'INVALID_ARGUMENT',
      'tasks',
    ],
  ])('%s', (_, play, status, field) => {
    const agent = new DomainAgent();
    play(agent);
    const { refusal } = agent;
    expect(refusal.status).toBe(status);
    expect(refusal.message.startsWith(`${field}: `), refusal.message).toBe(true);
  });

  test('to an agent that has ended, whatever else is wrong with its settings', () => {
    const agent = new DomainAgent().turn('COMPLETED', { finished: true });
    expect(agent.queue('m', { change: { model: 'rehearsal-b' } }).refused).toBe('NOT_FOUND');
    expect(agent.queue('m', { description: '' }).refused).toBe('INVALID_ARGUMENT');
  });

  test('behind as many as an agent may have, and a preempting one is not', () => {
    const agent = new DomainAgent();
    for (let i = 0; i < limits.undeliveredFollowUpsPerAgent; i++) agent.queue(`m${i}`);
    expect(agent.refused).toBe('');
    expect(agent.queue('more').refused).toBe('RESOURCE_EXHAUSTED');
    expect(agent.queue('now', { preempt: true }).refused).toBe('');
  });
});

test('a message to an agent that has ended reopens it if the command says so', () => {
  const agent = new DomainAgent().turn('COMPLETED', { finished: true }).queue('m', { reopen: true });
  expect([agent.refused, agent.phase]).toEqual(['', 'PENDING STARTING']);
  agent.send({ type: 'kill' });
  expect(agent.queue('n', { reopen: true }).refused).toBe('FAILED_PRECONDITION');
});

test('a message whose runner has a build without deferral can not be scheduled', () => {
  const agent = new DomainAgent();
  expect(agent.defer('early', 60).refused).toBe('');
  const runner = { id: 'r', name: 'r', pool: 'default', deferral: false, rehearses: true, sandboxed: true };
  agent.send({ type: 'claim', runner });
  expect(agent.defer('later', 60).refused).toBe('FAILED_PRECONDITION');
});

test('scheduled messages are delivered in the order of their times, not of their admission', () => {
  const agent = new DomainAgent().turn().defer('second', 120).defer('first', 60);
  agent.after(130).send({ type: 'due' });
  expect(agent.claim().memory.batch?.followUpIds).toEqual(['first', 'second']);
});

describe('a message that is refused before it is a command', () => {
  const repeat = (agent: DomainAgent, fields: { digest?: string; replace?: boolean } = {}) =>
    agent.send({ type: 'repeat', followUpId: 'm', digest: 'm', replace: false, ...fields }).reply;

  test.each<[string, Play, object | null]>([
    ['is answered if its id is known', (a) => a.queue('m'), { state: 'QUEUED' }],
    [
      'is answered after the end of the agent',
      (a) => a.queue('m').turn('COMPLETED', { finished: true }),
      { state: 'DELIVERED' },
    ],
    ['is not if its id is unknown', () => undefined, null],
    [
      'is not if the first one was removed',
      (a) => a.queue('m').send({ type: 'remove', followUpId: 'm' }),
      null,
    ],
    ['is not if it has another content', (a) => a.queue('m', other), { status: 'ALREADY_EXISTS' }],
  ])('%s', (_, play, expected) => {
    const agent = new DomainAgent();
    play(agent);
    const reply = repeat(agent);
    if (expected === null) expect(reply).toBe(null);
    else expect(reply).toMatchObject(expected);
  });

  test('does not replace what it names', () => {
    const agent = new DomainAgent().queue('m');
    expect(repeat(agent, { digest: 'other', replace: true })).toBe(null);
    expect(agent.messages).toBe('m:QUEUED');
  });
});
