import { describe, expect, test } from 'vitest';
import { DomainAgent } from '../../../../test/support/domain-agents.ts';
import { sampleTask as task } from '../../../../test/support/samples.ts';

type Play = (agent: DomainAgent) => unknown;

/** Each row: a rule, what happens to an agent that was just spawned, and its phase and reason then. */
const rules = (rows: readonly [rule: string, play: Play, expected: string][]): void => {
  test.each(rows)('%s', (_, play, expected) => {
    const agent = new DomainAgent();
    play(agent);
    expect(agent.phase).toBe(expected);
  });
};

const pattern = (id: string) => task(id, { activation: { filesModified: { pattern: 'docs/**' } } });

describe('an agent whose run has ended by itself', () => {
  rules([
    ['is idle when nothing is left to do', (a) => a.turn(), 'WAITING_FOR_INPUT RESTING'],
    ['gets its next run if a message is queued', (a) => a.start().queue('m').end(), 'PENDING STARTING'],
    [
      'gets its next run although it asked a question',
      (a) => a.start().queue('m').end('COMPLETED', { question: 'Which?' }),
      'PENDING STARTING',
    ],
    [
      'waits for the answer to its question',
      (a) => a.turn('COMPLETED', { question: 'Which?' }),
      'WAITING_FOR_INPUT QUESTION',
    ],
    [
      'waits for the answer to a question that it asked with its tool',
      (a) => a.start().send({ type: 'ask', runId: 1, question: 'Which?' }).end(),
      'WAITING_FOR_INPUT QUESTION',
    ],
    [
      'has unfinished tasks',
      (a) => a.send({ type: 'createTasks', tasks: [task('t')] }).turn(),
      'WAITING_FOR_INPUT TASKS_UNFINISHED',
    ],
    [
      'asks before it says that tasks are unfinished',
      (a) => a.send({ type: 'createTasks', tasks: [task('t')] }).turn('COMPLETED', { question: 'Which?' }),
      'WAITING_FOR_INPUT QUESTION',
    ],
    [
      'is idle if its only task has a condition that was not met',
      (a) => a.send({ type: 'createTasks', tasks: [pattern('t')] }).turn(),
      'WAITING_FOR_INPUT RESTING',
    ],
    [
      'is idle if its task is behind one whose condition was not met',
      (a) => a.send({ type: 'createTasks', tasks: [pattern('t'), task('u', { blockedBy: ['t'] })] }).turn(),
      'WAITING_FOR_INPUT RESTING',
    ],
    [
      'has an unfinished task if a push of this run met its condition',
      (a) =>
        a
          .send({ type: 'createTasks', tasks: [pattern('t')] })
          .start()
          .report({ pushes: [{ ref: 'main', commits: ['c'], files: ['docs/a.md'] }] })
          .end(),
      'WAITING_FOR_INPUT TASKS_UNFINISHED',
    ],
    ['waits for a child that works', (a) => a.start().child('kid') && a.end(), 'PENDING CHILDREN'],
    [
      'has unfinished tasks before it waits for a child',
      (a) =>
        a
          .send({ type: 'createTasks', tasks: [task('t')] })
          .start()
          .child('kid') && a.end(),
      'WAITING_FOR_INPUT TASKS_UNFINISHED',
    ],
    [
      'completes if it declared itself finished',
      (a) => a.turn('COMPLETED', { finished: true }),
      'COMPLETED FINISHED',
    ],
    [
      'completes if it declared itself finished with its tool',
      (a) => a.start().send({ type: 'finish', runId: 1, text: '' }).end(),
      'COMPLETED FINISHED',
    ],
    [
      'waits for its children before it completes',
      (a) => a.start().child('kid') && a.end('COMPLETED', { finished: true }),
      'PENDING CHILDREN',
    ],
    [
      'waits for a scheduled message instead of completing',
      (a) => a.start().defer('later', 60).end('COMPLETED', { finished: true }),
      'WAITING_FOR_INPUT DEFERRED',
    ],
    [
      'waits for a scheduled message',
      (a) => a.start().defer('later', 60).end(),
      'WAITING_FOR_INPUT DEFERRED',
    ],
  ]);

  test('clears all messages when it fails, scheduled ones too, and says why', () => {
    const agent = new DomainAgent().start().defer('later', 60).queue('m');
    agent.send({ type: 'fail', runId: 1, message: 'impossible' }).end();
    expect(agent.phase).toBe('FAILED ERROR');
    expect(agent.messages).toBe('later:CLEARED m:CLEARED');
    expect(agent.entries('FOLLOW_UP_CLEARED').map(({ text }) => text)).toEqual([
      'AGENT_FAILED: impossible',
      'AGENT_FAILED: impossible',
    ]);
  });
});

describe('an agent that was stopped', () => {
  rules([
    ['is interrupted', (a) => a.start().stop().end('INTERRUPTED'), 'WAITING_FOR_INPUT INTERRUPTED'],
    ['is stopping until its run has ended', (a) => a.start().stop(), 'RUNNING STOPPING'],
    ['can be stopped before its turn has begun', (a) => a.claim().stop(), 'RUNNING STOPPING'],
    [
      'gets its next run if a message is queued',
      (a) => a.start().queue('m').stop().end(),
      'PENDING STARTING',
    ],
    [
      'is interrupted although it has unfinished tasks and children that work',
      (a) => {
        a.send({ type: 'createTasks', tasks: [task('t')] })
          .start()
          .child('kid');
        a.stop().end('INTERRUPTED');
      },
      'WAITING_FOR_INPUT INTERRUPTED',
    ],
    ['is interrupted by a kill of the turn', (a) => a.start().stop('KILL'), 'WAITING_FOR_INPUT INTERRUPTED'],
    [
      'waits for the end of its process after a kill of the turn if a message is queued',
      (a) => a.start().queue('m').stop('KILL'),
      'PENDING STOPPING',
    ],
    [
      'gets its next run when that process has ended',
      (a) => a.start().queue('m').stop('KILL').report({ gone: true }),
      'PENDING STARTING',
    ],
    [
      'gets its next run when the lease of the runner has ended',
      (a) => a.start().queue('m').stop('KILL').send({ type: 'lose', runId: 1 }),
      'PENDING STARTING',
    ],
    [
      'is upgraded from an interrupt to a kill',
      (a) => a.start().stop().stop('KILL'),
      'WAITING_FOR_INPUT INTERRUPTED',
    ],
  ]);

  test.each<[string, Play]>([
    ['is waiting for a runner', () => undefined],
    ['is idle', (a) => a.turn()],
    ['waits for its children', (a) => a.start().child('kid') && a.end()],
  ])('has no turn to stop while it %s', (_, play) => {
    const agent = new DomainAgent();
    play(agent);
    expect(agent.stop().refused).toBe('INVALID_ARGUMENT');
  });

  test('ignores a second interrupt and refuses a stop of another run', () => {
    const agent = new DomainAgent().start().stop();
    const { sequence } = agent.state.agent;
    expect(agent.stop().refused).toBe('');
    expect(agent.state.agent.sequence).toBe(sequence);
    expect(agent.send({ type: 'stop', runId: 7, kind: 'KILL' }).refused).toBe('INVALID_ARGUMENT');
  });
});

describe('a message that is taken back', () => {
  rules([
    [
      'leaves an idle agent idle',
      (a) => a.turn().queue('m').send({ type: 'remove', followUpId: 'm' }),
      'WAITING_FOR_INPUT RESTING',
    ],
    [
      'brings back the question',
      (a) => a.turn('COMPLETED', { question: 'Which?' }).queue('m').send({ type: 'clear' }),
      'WAITING_FOR_INPUT QUESTION',
    ],
    [
      'brings back the interrupt',
      (a) => a.start().stop().end().queue('m').send({ type: 'clear' }),
      'WAITING_FOR_INPUT INTERRUPTED',
    ],
    ['leaves the first run of a new agent', (a) => a.queue('m').send({ type: 'clear' }), 'PENDING STARTING'],
    [
      'leaves the batch that is retried',
      (a) => a.turn('HANDED_BACK').queue('m').send({ type: 'clear' }),
      'PENDING RETRYING',
    ],
    [
      'lets a finished agent complete if it was the last scheduled one',
      (a) =>
        a
          .start()
          .defer('later', 60)
          .end('COMPLETED', { finished: true })
          .send({ type: 'remove', followUpId: 'later' }),
      'COMPLETED FINISHED',
    ],
    [
      'leaves the agent idle if it was the last scheduled one',
      (a) => a.turn().defer('later', 60).send({ type: 'remove', followUpId: 'later' }),
      'WAITING_FOR_INPUT RESTING',
    ],
  ]);

  test('leaves the times of the other scheduled ones', () => {
    const agent = new DomainAgent().turn().defer('first', 60).defer('second', 120);
    const second = agent.state.followUps.get('second')?.deliverAt;
    agent.send({ type: 'remove', followUpId: 'first' });
    expect(agent.phase).toBe('WAITING_FOR_INPUT DEFERRED');
    expect(agent.state.agent.nextDeliverAt).toBe(second);
  });
});

describe('an idle agent', () => {
  rules([
    ['gets a run for a message', (a) => a.turn().queue('m'), 'PENDING STARTING'],
    ['waits for a scheduled message', (a) => a.turn().defer('m', 60), 'WAITING_FOR_INPUT DEFERRED'],
    [
      'gets a run when a scheduled message is due',
      (a) => a.turn().defer('m', 60).after(61).send({ type: 'due' }),
      'PENDING STARTING',
    ],
    [
      'gets no run before that',
      (a) => a.turn().defer('m', 60).after(59).send({ type: 'due' }),
      'WAITING_FOR_INPUT DEFERRED',
    ],
    [
      'keeps its question while a message is scheduled',
      (a) => a.turn('COMPLETED', { question: 'Which?' }).defer('m', 60),
      'WAITING_FOR_INPUT QUESTION',
    ],
    [
      'is idle when its last task is completed from outside',
      (a) =>
        a
          .send({ type: 'createTasks', tasks: [task('t')] })
          .turn()
          .setTask('t', 'TASK_STATUS_COMPLETED'),
      'WAITING_FOR_INPUT RESTING',
    ],
    [
      'has unfinished tasks when it gets one',
      (a) => a.turn().send({ type: 'createTasks', tasks: [task('t')] }),
      'WAITING_FOR_INPUT TASKS_UNFINISHED',
    ],
    [
      'completes when its work is done from outside',
      (a) => a.turn().send({ type: 'conclude' }),
      'COMPLETED FINISHED',
    ],
    ['is canceled by a kill', (a) => a.turn().send({ type: 'kill' }), 'CANCELED KILLED'],
  ]);
});

describe('an agent that is blocked', () => {
  const blocked = () => new DomainAgent().start().fail('REFUSAL');
  test.each<[string, Play, string]>([
    ['stays so when its queue is cleared', (a) => a.send({ type: 'clear' }), 'WAITING_FOR_INPUT BLOCKED'],
    [
      'stays so when a task is added',
      (a) => a.send({ type: 'createTasks', tasks: [task('t')] }),
      'WAITING_FOR_INPUT BLOCKED',
    ],
    ['stays so when a message is scheduled', (a) => a.defer('m', 60), 'WAITING_FOR_INPUT BLOCKED'],
    [
      'stays so when a child needs input',
      (a) => a.child('kid').turn('COMPLETED', { question: 'Which?' }),
      'WAITING_FOR_INPUT BLOCKED',
    ],
    ['is unblocked by a message', (a) => a.queue('m'), 'PENDING STARTING'],
    [
      'is unblocked by a scheduled message that is due',
      (a) => a.defer('m', 60).after(61).send({ type: 'due' }),
      'PENDING STARTING',
    ],
    ['is unblocked by a retry', (a) => a.send({ type: 'retry' }), 'PENDING STARTING'],
    ['is canceled by a kill', (a) => a.send({ type: 'kill' }), 'CANCELED KILLED'],
    [
      'tries its batch again although the message that unblocked it is removed',
      (a) => a.queue('m').send({ type: 'remove', followUpId: 'm' }),
      'PENDING STARTING',
    ],
  ])('%s', (_, play, expected) => {
    const agent = blocked();
    play(agent);
    expect(agent.phase).toBe(expected);
  });

  test('is blocked again when that message is removed and it has no batch', () => {
    const agent = new DomainAgent().turn().send({ type: 'block', runId: null, message: 'broken' });
    expect(agent.phase).toBe('WAITING_FOR_INPUT BLOCKED');
    expect(agent.queue('m').send({ type: 'clear' }).phase).toBe('WAITING_FOR_INPUT BLOCKED');
    expect(agent.send({ type: 'retry' }).phase).toBe('WAITING_FOR_INPUT RESTING');
  });

  test('says what to fix until its next run is claimed', () => {
    const agent = blocked();
    expect(agent.memory.blocked).toContain('The model refused to answer');
    expect(agent.error).toBe('REFUSAL: it broke');
    agent.send({ type: 'retry' }).claim();
    expect(agent.memory.blocked).toBe('');
    expect(agent.error).toBe('');
  });
});

describe('a parent that waits for its children', () => {
  /** It waits for two children that work. */
  const family = () => {
    const parent = new DomainAgent().start();
    const children = [parent.child('one'), parent.child('two')] as const;
    parent.end();
    return { parent, children };
  };

  test.each<[string, (one: DomainAgent, two: DomainAgent, parent: DomainAgent) => unknown, string]>([
    ['goes on waiting while another one works', (one) => one.turn(), 'PENDING CHILDREN'],
    ['is woken when none works any more', (one, two) => one.turn() && two.turn(), 'PENDING STARTING'],
    ['is woken when one asks', (one) => one.turn('COMPLETED', { question: 'Which?' }), 'PENDING STARTING'],
    ['is woken when one is blocked', (one) => one.start().fail('REFUSAL'), 'PENDING STARTING'],
    ['is woken when one fails', (one) => one.start().fail('REHEARSED_FAILURE'), 'PENDING STARTING'],
    [
      'goes on waiting when one is killed and another works',
      (one) => one.send({ type: 'kill' }),
      'PENDING CHILDREN',
    ],
    ['goes on waiting when one is retried', (one) => one.turn('HANDED_BACK'), 'PENDING CHILDREN'],
    ['gets a run at once for a message', (_, __, parent) => parent.queue('m'), 'PENDING STARTING'],
    [
      'waits again when that message is removed',
      (_, __, parent) => parent.queue('m').send({ type: 'clear' }),
      'PENDING CHILDREN',
    ],
    [
      'is woken by news that came while a message was queued, although that is removed',
      (one, _, parent) => {
        parent.queue('m');
        one.start().fail('REHEARSED_FAILURE');
        parent.send({ type: 'clear' });
      },
      'PENDING STARTING',
    ],
    ['is canceled with all of them', (_, __, parent) => parent.send({ type: 'kill' }), 'CANCELED KILLED'],
  ])('%s', (_, play, expected) => {
    const { parent, children } = family();
    play(...children, parent);
    expect(parent.phase).toBe(expected);
  });

  test('takes its children with it when it is killed', () => {
    const { parent, children } = family();
    parent.send({ type: 'kill' });
    expect(children.map(({ phase }) => phase)).toEqual(['CANCELED PARENT_KILLED', 'CANCELED PARENT_KILLED']);
  });

  test('completes after the run about its children if it had declared itself finished', () => {
    const parent = new DomainAgent().start();
    const child = parent.child('one');
    parent.end('COMPLETED', { finished: true });
    child.turn();
    expect(parent.turn().phase).toBe('COMPLETED FINISHED');
  });

  test('has to declare itself finished again if a message came', () => {
    const parent = new DomainAgent().start();
    const child = parent.child('one');
    parent.end('COMPLETED', { finished: true }).queue('m');
    child.turn();
    expect(parent.turn().phase).toBe('WAITING_FOR_INPUT RESTING');
  });

  test('gets another run if a child settled during its own', () => {
    const parent = new DomainAgent().start();
    parent.child('one').turn();
    expect(parent.end().phase).toBe('PENDING STARTING');
  });

  test('gets none if it has read about that child in the same run', () => {
    const parent = new DomainAgent().start();
    const child = parent.child('one').turn();
    parent.send({ type: 'acknowledgeChild', child: child.id });
    expect(parent.end().phase).toBe('WAITING_FOR_INPUT RESTING');
  });

  test('waits with that run while it was interrupted', () => {
    const parent = new DomainAgent().start();
    parent.child('one').turn();
    expect(parent.stop().end().phase).toBe('WAITING_FOR_INPUT INTERRUPTED');
  });
});

test('an agent that has ended takes no message, and a reopened one is idle', () => {
  const agent = new DomainAgent().turn('COMPLETED', { finished: true });
  expect(agent.queue('m').refused).toBe('NOT_FOUND');
  expect(agent.send({ type: 'reopen' }).phase).toBe('WAITING_FOR_INPUT RESTING');
  expect(agent.send({ type: 'kill' }).send({ type: 'reopen' }).refused).toBe('FAILED_PRECONDITION');
});
