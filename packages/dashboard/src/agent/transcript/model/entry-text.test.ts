import type { TimelineEntry } from '@muster/sdk/contract';
import { describe, expect, it } from 'vitest';
import { announcementOf, childText, systemText, unknownText } from './entry-text.ts';

const entry = (type: string, text = '', data: TimelineEntry['data'] = {}): TimelineEntry => ({
  sequence: '1',
  at: '2026-01-01T00:00:00.000Z',
  runId: '2',
  type: type as TimelineEntry['type'],
  followUpId: 'f',
  text,
  data,
});

describe('the text of a system entry', () => {
  it.each([
    ['→ waiting for a runner', entry('PHASE_CHANGED', 'NO_RUNNER', { reason: 'NO_RUNNER' })],
    ['→ a newer reason', entry('PHASE_CHANGED', 'A_NEWER_REASON', { reason: 'A_NEWER_REASON' })],
    ['Message queued: fix it', entry('FOLLOW_UP_QUEUED', 'fix it\nnow', { from: '', to: 'QUEUED' })],
    ['Scheduled message is due', entry('FOLLOW_UP_QUEUED', '', { from: 'DEFERRED', to: 'QUEUED' })],
    ['Message removed', entry('FOLLOW_UP_REMOVED')],
    ['Message cleared', entry('FOLLOW_UP_CLEARED', 'cleared', { reason: 'CLEARED' })],
    [
      'Message cleared: preempted by a newer one',
      entry('FOLLOW_UP_CLEARED', 'preempted', { reason: 'PREEMPTED' }),
    ],
    ['Message cleared (KILLED: gone)', entry('FOLLOW_UP_CLEARED', 'KILLED: gone', { reason: 'KILLED' })],
    ['Review comments: 1 answered', entry('THREADS_CHANGED', '1 answered')],
    ['2 review comments sent to the agent', entry('THREADS_CHANGED', 'told', { threadIds: ['a', 'b'] })],
    ['1 review thread reopened', entry('THREADS_CHANGED', 'open', { threadIds: ['a'] })],
    ['1 review thread resolved', entry('THREADS_CHANGED', 'resolved', { threadIds: ['a'] })],
    ['Task in progress: Write it', entry('TASK_CHANGED', 'Write it', { status: 'TASK_STATUS_IN_PROGRESS' })],
    [
      'Task removed: Write it',
      entry('TASK_CHANGED', 'Write it', { status: 'TASK_STATUS_PENDING', removed: true }),
    ],
    [
      'Settings: persona planner, model opus, effort high, fast mode',
      entry('SETTINGS_CHANGED', '', {
        persona: 'planner',
        model: 'opus',
        reasoningEffort: 'high',
        serviceTier: '',
        fastMode: true,
      }),
    ],
    ['Run 2 has stopped on its runner', entry('PROCESS_GONE', 'confirmed by its runner')],
    ['something new: with words', entry('SOMETHING_NEW', 'with words\nand more')],
  ])('is "%s"', (text, given) => {
    expect(systemText(given)).toBe(text);
  });

  it('leaves out the text of a message in its brief form', () => {
    expect(systemText(entry('FOLLOW_UP_QUEUED', 'fix it', { from: '', to: 'QUEUED' }), true)).toBe(
      'Message queued',
    );
  });

  it('names the time of a scheduled message', () => {
    const scheduled = entry('FOLLOW_UP_DEFERRED', 'later', { deliverAt: '2026-01-01T12:00:00.000Z' });
    expect(systemText(scheduled)).toMatch(/^Message scheduled for .*\d\d:\d\d: later$/);
  });

  it('shows the status of a child, and types that it does not know', () => {
    expect(childText(entry('CHILD_SETTLED', 'a/b', { reason: 'QUESTION' }))).toBe('needs input');
    expect(unknownText(entry('SOMETHING_NEW'))).toBe('something new');
  });
});

describe('the announcement of new entries', () => {
  it('is the last question, error or end of a run, in one line', () => {
    const entries = [
      entry('RUN_ENDED', 'COMPLETED'),
      entry('QUESTION', 'Which?\nOr that?'),
      entry('MESSAGE', 'Hm'),
    ];
    expect(announcementOf(entries)).toBe('Needs input: Which?');
    expect(announcementOf(entries.slice(0, 1))).toBe('Run 2 completed');
    expect(announcementOf([entry('ERROR', 'It broke')])).toBe('Error: It broke');
  });

  it('is empty for other entries', () => {
    expect(announcementOf([entry('TOOL_CALL', 'ls'), entry('MESSAGE', 'Hm')])).toBeUndefined();
  });
});
