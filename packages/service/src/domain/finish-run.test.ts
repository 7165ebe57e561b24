import { describe, expect, test } from 'vitest';
import { DomainAgent } from '../../../../test/support/domain-agents.ts';

type Play = (agent: DomainAgent) => unknown;

const batchOf = ({ memory }: DomainAgent) => memory.batch && [memory.batch.id, ...memory.batch.followUpIds];

describe('where a run leads that did not complete', () => {
  test.each<[rule: string, play: Play, phase: string, batch: unknown]>([
    ['a lost run is tried again', (a) => a.turn('LOST'), 'PENDING RETRYING', [1]],
    ['so is one that its runner handed back', (a) => a.turn('HANDED_BACK'), 'PENDING RETRYING', [1]],
    [
      'so is one at the limit of its provider, later',
      (a) => a.start().end('PARKED', { limitUntil: a.inSeconds(600) }),
      'PENDING PROVIDER_LIMIT',
      [1],
    ],
    [
      'so is one whose git host was down, later',
      (a) => a.start().fail('GIT_UNREACHABLE'),
      'PENDING RETRYING',
      [1],
    ],
    [
      'a fault that a person can fix blocks the agent, which keeps its batch',
      (a) => a.start().fail('PROVIDER_OUT_OF_CREDIT'),
      'WAITING_FOR_INPUT BLOCKED',
      [1],
    ],
    [
      'an error that is in no table blocks it too',
      (a) => a.start().fail('SOMETHING_ELSE'),
      'WAITING_FOR_INPUT BLOCKED',
      [1],
    ],
    ['and so does one without a code', (a) => a.turn('FAILED'), 'WAITING_FOR_INPUT BLOCKED', [1]],
    [
      'a failure that the agent declares ends it',
      (a) => a.start().fail('AGENT_FAILED'),
      'FAILED ERROR',
      null,
    ],
    [
      'a run that was stopped is interrupted, although it failed',
      (a) => a.start().stop().fail('REFUSAL'),
      'WAITING_FOR_INPUT INTERRUPTED',
      null,
    ],
    [
      'a run that was stopped is interrupted, although it was lost',
      (a) => a.start().stop().end('LOST'),
      'WAITING_FOR_INPUT INTERRUPTED',
      null,
    ],
    [
      'a run that was stopped is interrupted, although it is at a limit',
      (a) =>
        a
          .start()
          .stop()
          .end('PARKED', { limitUntil: a.inSeconds(60) }),
      'WAITING_FOR_INPUT INTERRUPTED',
      null,
    ],
    [
      'a run that was stopped is interrupted, although it declared its agent failed',
      (a) => a.start().send({ type: 'fail', runId: 1, message: 'no' }).stop().end(),
      'WAITING_FOR_INPUT INTERRUPTED',
      null,
    ],
    [
      'a kill ends the agent before any other rule',
      (a) => a.start().queue('m').send({ type: 'kill' }),
      'CANCELED KILLED',
      null,
    ],
    [
      'a batch that is tried again comes before what is queued',
      (a) => a.turn().queue('m').start().queue('n').end('HANDED_BACK'),
      'PENDING RETRYING',
      [2, 'm'],
    ],
  ])('%s', (_, play, phase, batch) => {
    const agent = new DomainAgent();
    play(agent);
    expect(agent.phase).toBe(phase);
    expect(batchOf(agent)).toEqual(batch);
  });

  test('a run that was killed has ended for its runner', () => {
    const agent = new DomainAgent().start().send({ type: 'kill' });
    expect(agent.report({ currentAction: 'still here' }).refused).toBe('ABORTED');
  });

  test('a run that was stopped asks nothing, although it had a question', () => {
    const agent = new DomainAgent().start().send({ type: 'ask', runId: 1, question: 'Which?' }).stop().end();
    expect([agent.memory.question, agent.entries('QUESTION')]).toEqual(['', []]);
  });

  test('a run that ended otherwise drops its question and its declarations', () => {
    const agent = new DomainAgent().start();
    agent.send({ type: 'ask', runId: 1, question: 'Which?' }).send({ type: 'finish', runId: 1, text: '' });
    agent.end('HANDED_BACK');
    expect(agent.turn().phase).toBe('WAITING_FOR_INPUT RESTING');
  });
});

describe('a lost run', () => {
  const lost = (times: number) => {
    const agent = new DomainAgent();
    for (let i = 0; i < times; i++) agent.turn('LOST');
    return agent;
  };

  test.each<[string, Play, string]>([
    ['is tried again after the second', () => undefined, 'PENDING RETRYING'],
    ['blocks the agent at the third in a row', (a) => a.turn('LOST'), 'WAITING_FOR_INPUT BLOCKED'],
    [
      'is not the third in a row after a run that ended',
      (a) => a.turn().queue('m').turn('LOST'),
      'PENDING RETRYING',
    ],
    ['nor after one that was handed back', (a) => a.turn('HANDED_BACK').turn('LOST'), 'PENDING RETRYING'],
    [
      'nor after a person fixed what blocked the agent',
      (a) => a.turn('LOST').send({ type: 'retry' }).turn('LOST').turn('LOST'),
      'PENDING RETRYING',
    ],
  ])('%s', (_, play, expected) => {
    const agent = lost(2);
    play(agent);
    expect(agent.phase).toBe(expected);
  });

  test('is tried in the same batch with a higher number', () => {
    const agent = lost(1);
    agent.claim();
    expect(agent.memory.batch).toMatchObject({ id: 1, tries: 2, spawn: true });
    expect(agent.state.run).toMatchObject({ number: 2, batch: 1 });
    expect(agent.entries('RUN_STARTED').map(({ text }) => text)).toEqual(['', 'try 2 of batch 1']);
  });
});

describe('a fault that usually passes', () => {
  const failing = () => new DomainAgent().start().fail('GIT_UNREACHABLE', 'git:example.com');

  test('is retried after 30 s, then 1, 2, 4, 8 and 10 minutes', () => {
    const agent = new DomainAgent();
    const delays = [];
    for (let i = 0; i < 7; i++) {
      agent.start().fail('PROVIDER_UNAVAILABLE');
      const delay = agent.claimableInSeconds ?? 0;
      delays.push(delay);
      agent.after(delay);
    }
    expect(delays).toEqual([30, 60, 120, 240, 480, 600, 600]);
    expect(agent.error).toBe('PROVIDER_UNAVAILABLE: it broke (attempt 7)');
  });

  test.each<[string, Play, string]>([
    [
      'blocks the agent after a day',
      (a) =>
        a
          .after(24 * 3600)
          .start()
          .fail('GIT_UNREACHABLE'),
      'WAITING_FOR_INPUT BLOCKED',
    ],
    [
      'does not before that',
      (a) =>
        a
          .after(23 * 3600)
          .start()
          .fail('GIT_UNREACHABLE'),
      'PENDING RETRYING',
    ],
    [
      'does not a day after one that has passed',
      (a) =>
        a
          .after(60)
          .turn()
          .after(24 * 3600)
          .queue('m')
          .start()
          .fail('GIT_UNREACHABLE'),
      'PENDING RETRYING',
    ],
    [
      'counts from the beginning once a person has fixed it',
      (a) =>
        a
          .after(24 * 3600)
          .start()
          .fail('GIT_UNREACHABLE')
          .queue('m')
          .start()
          .fail('GIT_UNREACHABLE'),
      'PENDING RETRYING',
    ],
  ])('%s', (_, play, expected) => {
    const agent = failing();
    play(agent);
    expect(agent.phase).toBe(expected);
  });

  test('cannot be claimed before its time', () => {
    expect(() => failing().claim()).toThrow('has no run to claim');
  });

  test('is retried immediately when a person says so', () => {
    expect(failing().send({ type: 'retry' }).claimableInSeconds).toBe(0);
  });

  test.each([
    ['its own host was reached', ['git:example.com'], 0],
    ['another host was reached', ['git:example.org'], 30],
  ])('when %s, is retried in %3$i s', (_, reached, seconds) => {
    expect(failing().send({ type: 'resume', reached, accounts: [] }).claimableInSeconds).toBe(seconds);
  });

  test('keeps what is queued behind its batch', () => {
    const agent = failing().queue('m');
    expect(agent.messages).toBe('m:QUEUED');
    expect(agent.phase).toBe('PENDING RETRYING');
    expect(agent.after(30).turn().phase).toBe('PENDING STARTING');
  });
});

describe('a limit of the provider', () => {
  const parked = () => {
    const agent = new DomainAgent().start();
    return agent.end('PARKED', { limitUntil: agent.inSeconds(600), limitAccount: 'anthropic/one' });
  };

  test.each<[string, Play, number]>([
    ['is waited for', () => undefined, 600],
    ['is not waited for any longer once a person retries', (a) => a.send({ type: 'retry' }), 0],
    ['is waited for although a message comes', (a) => a.queue('m'), 600],
    ['is tried at once for a preempting message', (a) => a.queue('m', { preempt: true }), 0],
    [
      'is tried at once where the runner has another account of the provider',
      (a) => a.send({ type: 'resume', reached: [], accounts: ['anthropic/two'] }),
      0,
    ],
    [
      'is waited for where the runner has only that account',
      (a) => a.send({ type: 'resume', reached: [], accounts: ['anthropic/one', 'openai/two'] }),
      600,
    ],
  ])('%s', (_, play, seconds) => {
    const agent = parked();
    play(agent);
    expect(agent.claimableInSeconds).toBe(seconds);
  });

  test('that has passed already is tried immediately', () => {
    const agent = new DomainAgent().start().end('PARKED');
    expect([agent.phase, agent.claimableInSeconds]).toEqual(['PENDING RETRYING', 0]);
  });
});

describe('a preempting message', () => {
  const queue = (agent: DomainAgent) => agent.queue('now', { preempt: true });

  test.each<[string, Play, string, string]>([
    ['stops a turn that is running', (a) => queue(a.start()), 'RUNNING STOPPING', 'now:QUEUED'],
    ['does not stop a run that is starting', (a) => queue(a.claim()), 'RUNNING STARTING', 'now:QUEUED'],
    [
      'takes the place of what is queued, and leaves what is scheduled',
      (a) => queue(a.start().queue('m').defer('later', 60)),
      'RUNNING STOPPING',
      'm:CLEARED later:DEFERRED now:QUEUED',
    ],
    [
      'takes the place of a batch that is retried',
      (a) => queue(a.turn('HANDED_BACK')),
      'PENDING STARTING',
      'now:QUEUED',
    ],
    [
      'takes the place of one that waits for a fault to pass',
      (a) => queue(a.start().fail('DISK_FULL')),
      'PENDING STARTING',
      'now:QUEUED',
    ],
    [
      'takes the place of the batch that blocked the agent',
      (a) => queue(a.start().fail('REFUSAL')),
      'PENDING STARTING',
      'now:QUEUED',
    ],
    [
      'takes the place of the batch of a starting run that is lost',
      (a) => queue(a.claim()).end('LOST'),
      'PENDING STARTING',
      'now:QUEUED',
    ],
    [
      'takes the place of the batch of a starting run whose git host is down',
      (a) => queue(a.claim()).fail('GIT_UNREACHABLE'),
      'PENDING STARTING',
      'now:QUEUED',
    ],
  ])('%s', (_, play, phase, messages) => {
    const agent = new DomainAgent();
    play(agent);
    expect([agent.phase, agent.messages]).toEqual([phase, messages]);
  });

  test('leaves the messages of the batch that it abandons DELIVERED, and the timeline says so', () => {
    const agent = new DomainAgent().turn().queue('m').turn('HANDED_BACK');
    queue(agent);
    expect(agent.messages).toBe('m:DELIVERED now:QUEUED');
    expect(agent.entries('BATCH_ABANDONED')[0]).toMatchObject({
      followUpId: 'now',
      data: { followUpIds: ['m'] },
    });
    expect(batchOf(agent.claim())).toEqual([3, 'now']);
  });

  test('that was removed again abandons nothing', () => {
    const agent = queue(new DomainAgent().claim()).send({ type: 'remove', followUpId: 'now' }).end('LOST');
    expect([agent.phase, batchOf(agent)]).toEqual(['PENDING RETRYING', [1]]);
  });

  test('takes a description that was not delivered with it', () => {
    const agent = queue(new DomainAgent().turn('HANDED_BACK')).claim();
    expect(agent.memory.batch).toMatchObject({ id: 2, spawn: true, followUpIds: ['now'] });
  });
});
