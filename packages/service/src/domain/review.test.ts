import { limits } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import { DomainAgent } from '../../../../test/support/domain-agents.ts';
import type { Review, ThreadComments } from './thread.ts';

const idOf = (n: number): string => `019513f0-0000-7000-8000-00000000000${n}`;
const [one, two] = [idOf(1), idOf(2)];

const comment = (body: string, hostId = '') =>
  ({ author: 'ada', kind: 'PERSON', permission: 'member', body, url: '', hostId }) as const;

/** Comments on a new thread; with an id of a host, on one of its change request. */
const opening = (id: string, body: string, hostId = ''): ThreadComments => ({
  id,
  place: {
    repo: '',
    path: 'src/login.ts',
    line: 12,
    startLine: 12,
    side: 'NEW',
    quote: 'const a = 1;',
    changeRequest: hostId && 'cr',
    hostId,
    url: '',
  },
  comments: [comment(body, hostId && `${hostId}-comment`)],
});

const review = (agent: DomainAgent, followUpId: string, ...threads: ThreadComments[]): DomainAgent =>
  agent.queue(followUpId, {
    description: '',
    review: { threads, tellAgain: '', taskIds: followUpId } satisfies Review,
  });

/** An agent whose run has the comments of one review, on two places. */
const reviewed = (): DomainAgent =>
  review(new DomainAgent().turn(), 'r', opening(one, 'Why?'), opening(two, 'Too slow')).start();

/** The threads as `answer state`. */
const threads = ({ state }: DomainAgent): string =>
  [...(state.threads?.values() ?? [])].map((thread) => `${thread.answer} ${thread.state}`).join(', ');

const saidTo = ({ state }: DomainAgent, id: string): string | undefined =>
  state.threads?.get(id)?.comments.at(-1)?.body;

describe('a review', () => {
  test('is one message with an ephemeral task per thread', () => {
    const agent = reviewed();
    expect(agent.messages).toBe('r:DELIVERED');
    expect(agent.state.checklist).toMatchObject([
      { id: 'r-1', dedupKey: one, ephemeral: true, subject: 'src/login.ts:12 — Why?' },
      { id: 'r-2', dedupKey: two, ephemeral: true, subject: 'src/login.ts:12 — Too slow' },
    ]);
    expect(threads(agent)).toBe('PENDING OPEN, PENDING OPEN');
  });

  test('quotes the comments and the lines', () => {
    const [entry] = review(new DomainAgent().turn(), 'r', opening(one, 'Why?\nReally')).entries(
      'FOLLOW_UP_QUEUED',
    );
    expect(entry?.text).toContain('> const a = 1;');
    expect(entry?.text).toContain('> Why?\n> Really');
  });

  test('that comes again changes nothing', () => {
    const agent = reviewed();
    const { sequence } = agent.state.agent;
    expect(review(agent, 'r', opening(one, 'Why?'), opening(two, 'Too slow')).reply).toMatchObject({
      state: 'DELIVERED',
    });
    expect(agent.state.agent.sequence).toBe(sequence);
  });

  test('that was cleared and is sent again after another one adds its comment once', () => {
    const agent = review(reviewed().end(), 'reply', { id: one, comments: [comment('And now?')] });
    agent.send({ type: 'clear' });
    review(agent, 'other', opening(idOf(3), 'Why?'));
    review(agent, 'reply', { id: one, comments: [comment('And now?')] });
    const said = agent.state.threads?.get(one)?.comments.map(({ body }) => body);
    expect(said).toEqual(['Why?', 'And now?']);
  });

  test('on a thread that does not exist is refused', () => {
    const agent = review(new DomainAgent().turn(), 'r', { id: one, comments: [comment('Why?')] });
    expect(agent.refused).toBe('NOT_FOUND');
  });

  test('with more open threads than an agent may have is refused', () => {
    const agent = new DomainAgent().turn();
    const many = Array.from({ length: limits.openThreadsPerAgent + 1 }, (_, i) =>
      opening(`019513f0-0000-7000-8000-${String(i).padStart(12, '0')}`, 'Why?'),
    );
    for (let i = 0; agent.refused === '' && i < many.length; i += limits.commentsPerReview)
      review(agent, `r${i}`, ...many.slice(i, i + limits.commentsPerReview));
    expect(agent.refused).toBe('RESOURCE_EXHAUSTED');
  });
});

describe('the answer to a thread, when the batch has ended', () => {
  test.each<[how: string, play: (agent: DomainAgent) => unknown, expected: string, said: string]>([
    [
      'is the note of the completed task',
      (a) => a.setTask('r-1', 'TASK_STATUS_COMPLETED', 'Fixed.'),
      'ANSWERED RESOLVED',
      'Fixed.',
    ],
    [
      'is "Done." if the completed task has no note',
      (a) => a.setTask('r-1', 'TASK_STATUS_COMPLETED'),
      'ANSWERED RESOLVED',
      'Done.',
    ],
    [
      'declines if the task was deleted',
      (a) => a.setTask('r-1', 'TASK_STATUS_DELETED', 'On purpose.'),
      'DECLINED OPEN',
      'On purpose.',
    ],
    [
      'says so if that has no note',
      (a) => a.setTask('r-1', 'TASK_STATUS_DELETED'),
      'DECLINED OPEN',
      'Declined.',
    ],
    [
      'leaves the thread open if the task is not completed',
      (a) => a.setTask('r-1', 'TASK_STATUS_IN_PROGRESS', 'Which one?'),
      'ANSWERED OPEN',
      'Which one?',
    ],
    [
      'is what the agent said with its tool',
      (a) => a.send({ type: 'answerThread', runId: 2, threadId: one, body: 'Which one?' }),
      'ANSWERED OPEN',
      'Which one?',
    ],
    ['is none if the agent did nothing', () => undefined, 'NONE OPEN', 'Why?'],
  ])('%s', (_, play, expected, said) => {
    const agent = reviewed();
    play(agent);
    expect(threads(agent)).toBe('PENDING OPEN, PENDING OPEN');
    agent.end();
    expect(threads(agent)).toBe(`${expected}, NONE OPEN`);
    expect(saidTo(agent, one)).toBe(said);
    expect(agent.tasks).toEqual([]);
  });

  test('waits for the end of a batch that is tried again', () => {
    const agent = reviewed().setTask('r-1', 'TASK_STATUS_COMPLETED', 'Fixed.').end('HANDED_BACK');
    expect(threads(agent)).toBe('PENDING OPEN, PENDING OPEN');
    expect(threads(agent.turn())).toBe('ANSWERED RESOLVED, NONE OPEN');
  });

  test('leaves a thread of a code host open here: the service resolves it there first', () => {
    const agent = review(new DomainAgent().turn(), 'r', opening(one, 'Why?', 'host-1')).start();
    agent.setTask('r-1', 'TASK_STATUS_COMPLETED').end();
    expect(threads(agent)).toBe('ANSWERED OPEN');
  });

  test('is not counted while a later message tells the thread again', () => {
    const agent = review(reviewed(), 's', { id: one, comments: [comment('And this?')] });
    agent.setTask('r-1', 'TASK_STATUS_COMPLETED', 'Fixed.').end();
    expect(threads(agent)).toBe('PENDING OPEN, NONE OPEN');
    expect(saidTo(agent, one)).toBe('Fixed.');
  });
});

describe('a thread without an answer', () => {
  test('is told again with the next review', () => {
    const agent = review(reviewed().end(), 's', opening(idOf(3), 'And this?')).claim();
    expect(agent.state.checklist.map(({ dedupKey }) => dedupKey)).toEqual([idOf(3), one, two]);
  });

  test('of a change request is told again with the next one of that change request only', () => {
    const agent = review(new DomainAgent().turn(), 'r', opening(one, 'Why?', 'host-1')).turn();
    review(agent, 's', opening(two, 'Too slow'));
    expect(agent.claim().tasks).toEqual(['s-1']);
    const tellAgain = { threads: [opening(idOf(3), 'More', 'host-3')], tellAgain: 'cr', taskIds: 't' };
    agent.end().queue('t', { description: '', review: tellAgain }).claim();
    expect(agent.state.checklist.map(({ dedupKey }) => dedupKey)).toEqual([idOf(3), one]);
  });

  test.each(['remove', 'clear'] as const)('is one whose message was taken back: %s', (type) => {
    const agent = review(new DomainAgent().turn(), 'r', opening(one, 'Why?'));
    agent.send({ type, followUpId: 'r' });
    expect(threads(agent)).toBe('NONE OPEN');
  });

  test('that was resolved by a person is not told again', () => {
    const agent = reviewed().end();
    agent.send({ type: 'resolveThread', threadId: one, state: 'RESOLVED' });
    review(agent, 's', opening(idOf(3), 'And this?')).claim();
    expect(agent.state.checklist.map(({ dedupKey }) => dedupKey)).toEqual([idOf(3), two]);
  });
});

test('a comment of a host that is known is not new', () => {
  const agent = review(new DomainAgent().turn(), 'r', opening(one, 'Why?', 'host-1')).turn();
  agent.setTask('r-1', 'TASK_STATUS_COMPLETED');
  const again = { threads: [opening(two, 'Why?', 'host-1')], tellAgain: 'other', taskIds: 's' };
  agent.queue('s', { description: '', review: again });
  expect(agent.messages).toBe('r:DELIVERED');
});

test('a comment opens a resolved thread again', () => {
  const agent = reviewed().setTask('r-1', 'TASK_STATUS_COMPLETED').end();
  review(agent, 's', { id: one, comments: [comment('Not yet')] });
  expect(threads(agent)).toMatch(/^PENDING OPEN/);
});
