import type { TimelineEntry } from '@muster/sdk/contract';
import { describe, expect, it } from 'vitest';
import { childWords, outcomeWords, plainWords, quietWords } from './entry-words.ts';

const entry = (type: string, text = '', data: TimelineEntry['data'] = {}): TimelineEntry => ({
  sequence: '1',
  at: '2026-01-01T00:00:00.000Z',
  runId: '2',
  type: type as TimelineEntry['type'],
  followUpId: 'f',
  text,
  data,
});

describe('the words of an entry', () => {
  it.each([
    ['→ waiting for a runner', entry('PHASE_CHANGED', 'NO_RUNNER', { reason: 'NO_RUNNER' })],
    ['→ a newer reason', entry('PHASE_CHANGED', 'A_NEWER_REASON', { reason: 'A_NEWER_REASON' })],
    ['message queued: fix it', entry('FOLLOW_UP_QUEUED', 'fix it\nnow', { from: '', to: 'QUEUED' })],
    ['deferred message came due', entry('FOLLOW_UP_QUEUED', '', { from: 'DEFERRED', to: 'QUEUED' })],
    ['message removed', entry('FOLLOW_UP_REMOVED')],
    ['message cleared', entry('FOLLOW_UP_CLEARED', 'cleared', { reason: 'CLEARED' })],
    [
      'message dropped: a newer one took its place',
      entry('FOLLOW_UP_CLEARED', 'preempted', { reason: 'PREEMPTED' }),
    ],
    ['message cleared (KILLED: gone)', entry('FOLLOW_UP_CLEARED', 'KILLED: gone', { reason: 'KILLED' })],
    ['task begun: Write it', entry('TASK_CHANGED', 'Write it', { status: 'TASK_STATUS_IN_PROGRESS' })],
    [
      'task taken off the list: Write it',
      entry('TASK_CHANGED', 'Write it', { status: 'TASK_STATUS_PENDING', removed: true }),
    ],
    [
      'settings: persona planner, model opus, effort high, fast mode',
      entry('SETTINGS_CHANGED', '', {
        persona: 'planner',
        model: 'opus',
        reasoningEffort: 'high',
        serviceTier: '',
        fastMode: true,
      }),
    ],
    [
      'no process of run 2 is left (confirmed by its runner)',
      entry('PROCESS_GONE', 'confirmed by its runner'),
    ],
    ['something new: with words', entry('SOMETHING_NEW', 'with words\nand more')],
  ])('says "%s"', (words, told) => {
    expect(quietWords(told)).toBe(words);
  });

  it('names a message in brief, and does not repeat it', () => {
    expect(quietWords(entry('FOLLOW_UP_QUEUED', 'fix it', { from: '', to: 'QUEUED' }), true)).toBe(
      'message queued',
    );
  });

  it('says until when a message is deferred', () => {
    const deferred = entry('FOLLOW_UP_DEFERRED', 'later', { deliverAt: '2026-01-01T12:00:00.000Z' });
    expect(quietWords(deferred)).toMatch(/^message deferred until .*\d\d:\d\d: later$/);
  });

  it('says how a run and a child ended, also when it does not know the word', () => {
    expect(outcomeWords(entry('RUN_ENDED', 'LOST'))).toBe('was lost: its runner vanished');
    expect(outcomeWords(entry('RUN_ENDED', 'EVAPORATED'))).toBe('evaporated');
    expect(childWords(entry('CHILD_SETTLED', 'a/b', { reason: 'QUESTION' }))).toBe('needs input');
    expect(plainWords(entry('SOMETHING_NEW'))).toBe('something new');
  });
});
