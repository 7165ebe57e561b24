import { type PhaseReason, phaseReasons } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import { agentEntry, agentEntryNow, secondsAgo } from '../../../../../test/support/samples.ts';
import { type Attention, attentionOf, reasonText } from './attention.ts';

describe('the section of an agent', () => {
  test.each<[PhaseReason, Attention, seen: Attention]>([
    ['QUESTION', 'question', 'question'],
    ['BLOCKED', 'blocked', 'blocked'],
    ['TASKS_UNFINISHED', 'unfinished', 'unfinished'],
    ['ERROR', 'failed', 'idle'],
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
