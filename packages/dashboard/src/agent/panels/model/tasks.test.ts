import type { Task } from '@muster/sdk';
import { describe, expect, it } from 'vitest';
import { sampleTask as task } from '../../../../../../test/support/samples.ts';
import { activationOf, inWorkingOrder, taskStateOf } from './tasks.ts';

const byId = (...tasks: Task[]) => new Map(tasks.map((one) => [one.id, one]));

describe('the state of a task', () => {
  it('is blocked while a blocker is open', () => {
    const blocked = task('b', { blockedBy: ['a'] });
    expect(taskStateOf(blocked, byId(task('a')), 'always')).toBe('blocked');
    const done = byId(task('a', { status: 'TASK_STATUS_COMPLETED' }));
    expect(taskStateOf(blocked, done, 'always')).toBe('todo');
  });

  it('is inactive until the current run pushes a matching file, and unknown without its pushes', () => {
    const conditional = (pattern: string) => task('a', { activation: { filesModified: { pattern } } });
    const one = conditional('src/**');
    expect(activationOf(one, undefined)).toBe('unknown');
    expect(activationOf(one, [])).toBe('inactive');
    expect(activationOf(one, ['docs/a.md'])).toBe('inactive');
    expect(activationOf(one, ['docs/a.md', 'src/a.ts'])).toBe('active');
    expect(activationOf(task('b'), [])).toBe('always');
    expect(activationOf(conditional(''), ['x'])).toBe('active');
    expect(activationOf(conditional('{a,b}/**'), ['x'])).toBe('inactive');
    expect(activationOf(conditional('{a,b}/**'), ['x', 'b/x'])).toBe('active');
    expect(taskStateOf(one, byId(), 'inactive')).toBe('inactive');
  });
});

describe('the working order', () => {
  const order = (...tasks: Task[]) => inWorkingOrder(tasks).map(({ id }) => id);

  it('is the given order without dependencies', () => {
    expect(order(task('b'), task('a'), task('c'))).toEqual(['b', 'a', 'c']);
  });

  it('has each task after everything that blocks it', () => {
    expect(
      order(
        task('ship', { blockedBy: ['test'] }),
        task('read'),
        task('test', { blockedBy: ['write'] }),
        task('write'),
      ),
    ).toEqual(['write', 'test', 'ship', 'read']);
  });

  it('includes tasks with a cyclic or a missing blocker', () => {
    expect(order(task('a', { blockedBy: ['b', 'gone'] }), task('b', { blockedBy: ['a'] }))).toEqual([
      'b',
      'a',
    ]);
  });
});
