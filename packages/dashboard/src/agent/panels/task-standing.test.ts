import type { Task } from '@muster/sdk';
import { expect, it } from 'vitest';
import { sampleTask as task } from '../../../../../test/support/samples.ts';
import { activityOf, standingOfTask } from './task-standing.ts';

const byId = (...tasks: Task[]) => new Map(tasks.map((one) => [one.id, one]));

it('an open task is blocked as long as a blocker is open', () => {
  const blocked = task('b', { blockedBy: ['a'] });
  expect(standingOfTask(blocked, byId(task('a')), 'always')).toBe('blocked');
  expect(standingOfTask(blocked, byId(task('a', { status: 'TASK_STATUS_COMPLETED' })), 'always')).toBe(
    'todo',
  );
});

it('a condition is met by a file of the current run, and unknown where nothing is known of its pushes', () => {
  const one = task('a', { activation: { filesModified: { pattern: 'src/**' } } });
  expect(activityOf(one, undefined)).toBe('unknown');
  expect(activityOf(one, [])).toBe('inactive');
  expect(activityOf(one, ['docs/a.md'])).toBe('inactive');
  expect(activityOf(one, ['docs/a.md', 'src/a.ts'])).toBe('active');
  expect(activityOf(task('b'), [])).toBe('always');
  expect(activityOf(task('c', { activation: { filesModified: { pattern: '' } } }), ['x'])).toBe('active');
  const either = task('d', { activation: { filesModified: { pattern: '{a,b}/**' } } });
  expect(activityOf(either, ['x'])).toBe('inactive');
  expect(activityOf(either, ['x', 'b/x'])).toBe('active');
  expect(standingOfTask(one, byId(), 'inactive')).toBe('inactive');
});
