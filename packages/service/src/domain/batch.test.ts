import { describe, expect, test } from 'vitest';
import { DomainAgent } from '../../../../test/support/domain-agents.ts';
import { sampleTask as task } from '../../../../test/support/samples.ts';
import type { PersonaCopy, SettingsChange } from './agent.ts';
import { isAnswered } from './batch.ts';

const persona = (name: string, fields: Partial<PersonaCopy> = {}): PersonaCopy => ({
  name,
  instructions: '',
  model: '',
  reasoningEffort: '',
  serviceTier: '',
  fastMode: null,
  tasks: [],
  ...fields,
});

/** The batches that an agent gets for these messages, such as `spawn a b | c`. */
function batches(agent: DomainAgent): string {
  const all: string[] = [];
  while (agent.state.agent.claimableAt !== null) {
    const { batch } = agent.start().memory;
    all.push([...(batch?.spawn ? ['spawn'] : []), ...(batch?.followUpIds ?? [])].join(' '));
    agent.end();
  }
  return all.join(' | ');
}

const withMessages = (agent: DomainAgent, messages: Record<string, SettingsChange>): DomainAgent => {
  for (const [id, change] of Object.entries(messages)) agent.queue(id, { change });
  return agent;
};

const fast = { fastMode: true } as const;

describe('the batch of a run', () => {
  test.each<[rule: string, messages: Record<string, SettingsChange>, expected: string]>([
    ['is the description of the spawn', {}, 'spawn'],
    ['has all messages that set nothing', { a: {}, b: {}, c: {} }, 'spawn a b c'],
    ['ends before a message that changes a setting', { a: {}, b: fast, c: {} }, 'spawn a | b c'],
    ['ends before the first if that changes a setting', { a: fast }, 'spawn | a'],
    ['does not end before one that sets what is in force', { a: fast, b: fast }, 'spawn | a b'],
    ['ends before each further change', { a: fast, b: { fastMode: false }, c: {} }, 'spawn | a | b c'],
    ['ends before a switch of the persona', { a: { persona: persona('reviewer') }, b: {} }, 'spawn | a b'],
    ['does not end before the persona that it has', { a: { persona: persona('default') } }, 'spawn a'],
    ['ends before a schema', { a: { outputSchema: '{}' } }, 'spawn | a'],
  ])('%s', (_, messages, expected) => {
    expect(batches(withMessages(new DomainAgent(), messages))).toBe(expected);
  });

  test('begins with the first message, which may change a setting', () => {
    expect(batches(withMessages(new DomainAgent().turn(), { a: fast, b: {} }))).toBe('a b');
  });

  test('is the batch before and the whole queue once the agent was blocked', () => {
    const agent = withMessages(new DomainAgent().turn(), { a: {} }).start().fail('REFUSAL');
    expect(batches(withMessages(agent, { b: {}, c: fast, d: { fastMode: false } }))).toBe('a b c d');
  });

  test('has the messages in the order of their admission, scheduled ones when they are due', () => {
    const agent = new DomainAgent().defer('late', 60).queue('a').after(61).send({ type: 'due' }).queue('b');
    expect(batches(agent)).toBe('spawn a late b');
  });
});

describe('settings take effect when a message is delivered', () => {
  const settingsAfter = (...changes: SettingsChange[]) => {
    const agent = new DomainAgent();
    for (const [i, change] of changes.entries()) agent.queue(`m${i}`, { change });
    batches(agent);
    return agent.state.agent.settings;
  };
  const fable = persona('fable', { model: 'sonnet', reasoningEffort: 'high' });

  test('and not before', () => {
    const agent = new DomainAgent().start().queue('m', { change: { model: 'opus' } });
    expect(agent.state.agent.settings.model).toBe('rehearsal-a');
    expect(agent.end().claim().state.agent.settings.model).toBe('opus');
    expect(agent.entries('SETTINGS_CHANGED')).toHaveLength(1);
  });

  test.each<[string, SettingsChange[], string]>([
    ['a persona brings its model', [{ persona: fable }], 'sonnet'],
    ['a message overrides that of its persona', [{ persona: fable, model: 'opus' }], 'opus'],
    [
      'a model that was ever set by name stays over any persona',
      [{ model: 'opus' }, { persona: fable }],
      'opus',
    ],
    [
      'the persona that the agent has changes nothing',
      [{ persona: fable }, { persona: persona('fable', { model: 'haiku' }) }],
      'sonnet',
    ],
    ['a persona without a model leaves it', [{ persona: fable }, { persona: persona('plain') }], 'sonnet'],
  ])('%s', (_, changes, model) => {
    expect(settingsAfter(...changes).model).toBe(model);
  });

  test('a switch of the persona takes the tasks of the one before and nothing else', () => {
    const agent = new DomainAgent({ tasks: [task('own')] });
    const reviewer = persona('reviewer', { tasks: [task('read', { persona: 'reviewer' })] });
    agent.queue('m', { change: { persona: reviewer } });
    batches(agent);
    expect(agent.tasks).toEqual(['own', 'read']);
    agent.queue('n', { change: { persona: persona('writer') } });
    batches(agent);
    expect(agent.tasks).toEqual(['own']);
  });
});

describe('the tasks of a message', () => {
  test('join the checklist when it is delivered, and vanish with it when it is removed', () => {
    const agent = new DomainAgent()
      .start()
      .queue('a', { tasks: [task('t')] })
      .queue('b', { tasks: [task('u')] });
    expect(agent.tasks).toEqual([]);
    expect(agent.send({ type: 'remove', followUpId: 'b' }).end().claim().tasks).toEqual(['t']);
  });

  test('lose references to tasks that are gone by then', () => {
    const agent = new DomainAgent({ tasks: [task('old')] }).start();
    agent.queue('a', { tasks: [task('t', { blockedBy: ['old'] })] }).setTask('old', 'TASK_STATUS_DELETED');
    expect(agent.end().claim().state.checklist.at(-1)).toMatchObject({ id: 't', blockedBy: [] });
  });

  test('of one key: the last of a batch replaces the others, and gets their edges', () => {
    const agent = new DomainAgent({ tasks: [task('first')] }).start();
    agent.queue('a', { tasks: [task('t', { dedupKey: 'k', blockedBy: ['first'] })] });
    agent
      .queue('b', { tasks: [task('u', { dedupKey: 'k' })] })
      .end()
      .claim();
    expect(agent.tasks).toEqual(['first', 'u']);
    expect(agent.state.checklist[1]?.blockedBy).toEqual(['first']);
  });

  test('of one key in different batches stay', () => {
    const agent = new DomainAgent().start();
    agent
      .queue('a', { tasks: [task('t', { dedupKey: 'k' })] })
      .end()
      .start();
    agent
      .queue('b', { tasks: [task('u', { dedupKey: 'k' })] })
      .end()
      .claim();
    expect(agent.tasks).toEqual(['t', 'u']);
  });

  test.each<[how: string, (agent: DomainAgent) => unknown, left: string[]]>([
    ['it is done', (a) => a.end(), ['own']],
    ['it is interrupted', (a) => a.stop().end(), ['own']],
    ['it is killed', (a) => a.send({ type: 'kill' }), ['own']],
    ['the agent fails', (a) => a.fail('AGENT_FAILED'), ['own']],
    ['a preempting message abandons it', (a) => a.end('HANDED_BACK').queue('n', { preempt: true }), ['own']],
    ['it is handed back', (a) => a.end('HANDED_BACK'), ['own', 'brief']],
    ['it is lost', (a) => a.end('LOST'), ['own', 'brief']],
    ['the agent is blocked', (a) => a.fail('REFUSAL'), ['own', 'brief']],
  ])('that are ephemeral leave when their batch has ended for good: %s', (_, play, left) => {
    const tasks = [task('own', { blockedBy: ['brief'] }), task('brief', { ephemeral: true })];
    const agent = new DomainAgent().turn().queue('m', { tasks }).start();
    play(agent);
    expect(agent.tasks).toEqual(left);
    expect(agent.state.checklist[0]?.blockedBy).toEqual(left.slice(1));
  });
});

describe('what a parent is told about its children', () => {
  const prefaceAfter = (play: (child: DomainAgent) => unknown): string => {
    const parent = new DomainAgent().start();
    const child = parent.child('kid');
    play(child);
    parent.end();
    return parent.queue('m').claim().memory.batch?.preface ?? '';
  };

  test.each<[string, (child: DomainAgent) => unknown, string]>([
    ['it works', () => undefined, 'Your child root/kid is working.'],
    ['it is idle', (c) => c.turn(), 'Your child root/kid is idle (RESTING). It said: done'],
    [
      'it asks',
      (c) => c.turn('COMPLETED', { question: 'Which?' }),
      'Your child root/kid needs input: Which?',
    ],
    [
      'it has finished',
      (c) => c.turn('COMPLETED', { finished: true }),
      'Your child root/kid has finished. It said: done',
    ],
    ['it has failed', (c) => c.start().fail('AGENT_FAILED'), 'Your child root/kid has failed: it broke'],
    [
      'it is blocked',
      (c) => c.start().fail('REFUSAL'),
      'Your child root/kid is blocked until a person fixes this: it broke',
    ],
    ['it was killed', (c) => c.send({ type: 'kill' }), 'Your child root/kid was ended (KILLED).'],
  ])('%s', (_, play, expected) => {
    expect(prefaceAfter(play)).toBe(expected);
  });

  test('is only what changed since its last run', () => {
    const parent = new DomainAgent().start();
    parent.child('kid').turn();
    parent.end().turn();
    expect(parent.queue('m').claim().memory.batch?.preface).toBe('');
  });
});

describe('a message for the turn that is running', () => {
  const steered = () => new DomainAgent().start().queue('m', { steer: true });
  const settled = (agent: DomainAgent, taken: boolean) =>
    agent.report({
      steers: [{ followUpId: 'm', sequence: agent.state.followUps.get('m')?.position ?? 0, taken }],
    });

  test('joins its batch when the harness took it', () => {
    const agent = settled(steered(), true);
    expect(agent.messages).toBe('m:DELIVERED');
    expect(agent.memory.batch).toMatchObject({ id: 1, followUpIds: ['m'] });
    expect(agent.end().phase).toBe('WAITING_FOR_INPUT RESTING');
  });

  test('is an ordinary message when the harness did not', () => {
    const agent = settled(steered(), false);
    expect(agent.messages).toBe('m:QUEUED');
    expect(agent.end().phase).toBe('PENDING STARTING');
  });

  test('is the next batch if the run ends before', () => {
    expect(batches(steered().end())).toBe('m');
  });

  test('warns if it was removed meanwhile', () => {
    const agent = steered();
    const position = agent.state.followUps.get('m')?.position ?? 0;
    agent.send({ type: 'remove', followUpId: 'm' });
    agent.report({ steers: [{ followUpId: 'm', sequence: position, taken: true }] });
    expect(agent.messages).toBe('m:REMOVED');
    expect(agent.entries('WARNING')).toHaveLength(1);
  });
});

test.each<[string, Partial<Parameters<typeof isAnswered>[0]>, boolean]>([
  ['is answered when its batch has ended', { phase: 'PHASE_WAITING_FOR_INPUT', reason: 'RESTING' }, true],
  ['is answered when a later batch runs', { currentBatch: 3 }, true],
  ['is not answered while its batch runs', {}, false],
  [
    'is not answered while the agent is blocked with its batch',
    { phase: 'PHASE_WAITING_FOR_INPUT', reason: 'BLOCKED' },
    false,
  ],
  ['is not answered before it is delivered', { state: 'QUEUED', batch: null }, false],
  ['is answered when it was cleared', { state: 'CLEARED', batch: null }, true],
  ['is answered when it was removed', { state: 'REMOVED', batch: null }, true],
])('a message %s', (_, fields, expected) => {
  const running = {
    state: 'DELIVERED',
    batch: 2,
    phase: 'PHASE_RUNNING',
    reason: 'WORKING',
    currentBatch: 2,
  } as const;
  expect(isAnswered({ ...running, ...fields })).toBe(expected);
});
