import { type PhaseReason, phaseReasons } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import { agentEntry, agentEntryNow, secondsAgo } from '../../../../../test/support/samples.ts';
import { type Attention, attentionOf, reasonText, rowText } from './attention.ts';

describe('the section of an agent', () => {
  test.each<[PhaseReason, Attention, seen: Attention]>([
    ['QUESTION', 'question', 'question'],
    ['BLOCKED', 'blocked', 'blocked'],
    ['TASKS_UNFINISHED', 'unfinished', 'unfinished'],
    ['ERROR', 'failed', 'failed-seen'],
    ['FINISHED', 'finished', 'idle'],
    ['RESTING', 'finished', 'idle'],
    ['INTERRUPTED', 'finished', 'idle'],
    ['PROVIDER_LIMIT', 'waiting', 'waiting'],
    ['NO_RUNNER', 'waiting', 'waiting'],
    ['WORKING', 'working', 'working'],
    ['CHILDREN', 'working', 'working'],
    ['DEFERRED', 'idle', 'idle'],
    ['KILLED', 'idle', 'idle'],
  ])('for %s is %s, and %s once it was seen', (phaseReason, unseen, seen) => {
    expect(attentionOf({ phaseReason }, false)).toBe(unseen);
    expect(attentionOf({ phaseReason }, true)).toBe(seen);
  });

  test('is defined for every reason', () => {
    for (const phaseReason of phaseReasons) expect(attentionOf({ phaseReason }, false)).toBeTypeOf('string');
  });
});

describe('the text of a row', () => {
  const text = (
    phaseReason: PhaseReason,
    fields: Parameters<typeof agentEntry>[1],
    heading: Attention | null,
  ) => rowText({ ...agentEntry('a')[1], phaseReason, ...fields }, heading, agentEntryNow);

  test('is the news, without what the heading says', () => {
    const asks = { needsInput: 'Which database?', news: 'Which database?' };
    expect(text('QUESTION', asks, 'question')).toBe('Which database?');
    expect(text('QUESTION', asks, null)).toBe('needs input: Which database?');
    expect(text('QUESTION', {}, 'question')).toBe('No question text');
    expect(text('RESTING', { news: 'All green.' }, 'finished')).toBe('All green.');
    expect(text('FINISHED', { news: 'All green.' }, 'idle')).toBe('finished: All green.');
    expect(text('ERROR', { error: 'No disk\nat all', news: 'So far.' }, 'failed')).toBe('No disk');
    expect(text('ERROR', {}, 'failed')).toBe('No reason was given');
    expect(text('WORKING', { currentAction: 'Running npm test', news: 'So far.' }, 'working')).toBe(
      'Running npm test',
    );
    expect(text('WORKING', {}, 'working')).toBe('working');
    expect(text('TASKS_UNFINISHED', { taskCount: 2, tasksDone: 1, news: 'Half.' }, 'unfinished')).toBe(
      '1 of 2 tasks: Half.',
    );
    expect(text('TASKS_UNFINISHED', { taskCount: 1 }, 'unfinished')).toBe('0 of 1 task');
    expect(text('NO_RUNNER', {}, 'waiting')).toBe('waiting for a runner');
    expect(text('INTERRUPTED', { news: 'Half.' }, 'finished')).toBe('interrupted: Half.');
  });
});

describe('the text of a reason', () => {
  const textOf = (...fields: Parameters<typeof agentEntry>[1][]) =>
    reasonText({ ...agentEntry('a')[1], ...Object.assign({}, ...fields) }, agentEntryNow);

  test.each([
    ['QUESTION', { needsInput: ' Which database?\nAnd why?' }, 'needs input for 4m: Which database?'],
    ['QUESTION', {}, 'needs input for 4m: no question text'],
    ['ERROR', { error: 'No disk\nat all' }, 'failed 4m ago: No disk'],
    ['ERROR', {}, 'failed 4m ago: no reason was given'],
    ['BLOCKED', { needsInput: 'Fix the key.' }, 'blocked for 4m: Fix the key.'],
    ['TASKS_UNFINISHED', {}, 'unfinished tasks for 4m'],
    ['FINISHED', {}, 'finished 4m ago'],
    ['RESTING', {}, 'idle for 4m, ready for a message'],
    ['WORKING', {}, 'working for 4m'],
    ['NO_RUNNER', {}, 'waiting for a runner for 4m'],
  ] as const)('%s with %j is "%s"', (phaseReason, fields, expected) => {
    expect(textOf({ phaseReason, phaseSince: secondsAgo(250) }, fields)).toBe(expected);
  });

  test('includes when a rate limit or a scheduled start ends', () => {
    const wakesAt = secondsAgo(-3600);
    expect(textOf({ phaseReason: 'PROVIDER_LIMIT', wakesAt })).toMatch(/^rate limited until .*\d\d:\d\d$/);
    expect(textOf({ phaseReason: 'DEFERRED', wakesAt })).toMatch(/^scheduled for .*\d\d:\d\d$/);
  });
});
