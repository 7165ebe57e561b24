import { type PhaseReason, phaseReasons } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import { agentEntry, agentEntryNow, secondsAgo } from '../../../../test/support/agent-entry.ts';
import { type Attention, attentionOf, reasonWords } from './attention.ts';

describe('what an agent wants', () => {
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
  ])('for %s is %s, and once that was seen %s', (phaseReason, unseen, seen) => {
    expect(attentionOf({ phaseReason }, false)).toBe(unseen);
    expect(attentionOf({ phaseReason }, true)).toBe(seen);
  });

  test('is known for every reason that there is', () => {
    for (const phaseReason of phaseReasons) expect(attentionOf({ phaseReason }, false)).toBeTypeOf('string');
  });
});

describe('the reason in words', () => {
  const words = (...fields: Parameters<typeof agentEntry>[1][]) =>
    reasonWords({ ...agentEntry('a')[1], ...Object.assign({}, ...fields) }, agentEntryNow);

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
  ] as const)('of %s with %j is "%s"', (phaseReason, fields, expected) => {
    expect(words({ phaseReason, phaseSince: secondsAgo(250) }, fields)).toBe(expected);
  });

  test('says until when a limit or a deferral holds', () => {
    const wakesAt = secondsAgo(-3600);
    expect(words({ phaseReason: 'PROVIDER_LIMIT', wakesAt })).toMatch(/^rate limited until .*\d\d:\d\d$/);
    expect(words({ phaseReason: 'DEFERRED', wakesAt })).toMatch(/^scheduled for .*\d\d:\d\d$/);
  });
});
