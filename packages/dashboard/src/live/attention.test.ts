import { type PhaseReason, phaseReasons } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import { agentEntry, agentEntryNow, secondsAgo } from '../../../../test/support/agent-entry.ts';
import { type Attention, attentionOf, reasonWords } from './attention.ts';

describe('what an agent wants', () => {
  test.each<[PhaseReason, Attention, seen: Attention]>([
    ['QUESTION', 'question', 'question'],
    ['BLOCKED', 'blocked', 'blocked'],
    ['TASKS_UNFINISHED', 'unfinished', 'unfinished'],
    ['ERROR', 'failed', 'asleep'],
    ['FINISHED', 'finished', 'asleep'],
    ['RESTING', 'finished', 'asleep'],
    ['INTERRUPTED', 'finished', 'asleep'],
    ['PROVIDER_LIMIT', 'parked', 'parked'],
    ['NO_RUNNER', 'parked', 'parked'],
    ['WORKING', 'working', 'working'],
    ['CHILDREN', 'working', 'working'],
    ['DEFERRED', 'asleep', 'asleep'],
    ['KILLED', 'asleep', 'asleep'],
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
    ['QUESTION', { needsInput: ' Which database?\nAnd why?' }, 'asked 4m ago: Which database?'],
    ['QUESTION', {}, 'asked 4m ago: it waits for an answer'],
    ['ERROR', { error: 'No disk\nat all' }, 'failed 4m ago: No disk'],
    ['ERROR', {}, 'failed 4m ago: no reason was given'],
    ['BLOCKED', { needsInput: 'Fix the key.' }, 'blocked for 4m: Fix the key.'],
    ['TASKS_UNFINISHED', {}, 'left tasks unfinished 4m ago'],
    ['FINISHED', {}, 'finished 4m ago'],
    ['RESTING', {}, 'came to rest 4m ago, and waits for a message'],
    ['WORKING', {}, 'working for 4m'],
    ['NO_RUNNER', {}, 'waits for a runner for 4m'],
  ] as const)('of %s with %j is "%s"', (phaseReason, fields, expected) => {
    expect(words({ phaseReason, phaseSince: secondsAgo(250) }, fields)).toBe(expected);
  });

  test('says until when a limit or a deferral holds', () => {
    const wakesAt = secondsAgo(-3600);
    expect(words({ phaseReason: 'PROVIDER_LIMIT', wakesAt })).toMatch(
      /^waiting for the provider until .*\d\d:\d\d$/,
    );
    expect(words({ phaseReason: 'DEFERRED', wakesAt })).toMatch(/^sleeps until .*\d\d:\d\d$/);
  });
});
