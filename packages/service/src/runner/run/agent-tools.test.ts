import type { Task } from '@muster/sdk/contract';
import { describe, expect, it } from 'vitest';
import { openTasks } from './agent-tools.ts';

const task = (id: string, more: Partial<Task> = {}): Task =>
  ({ id, subject: id, status: 'TASK_STATUS_PENDING', blockedBy: [], activation: null, ...more }) as Task;
const ids = (tasks: readonly Task[], active: readonly string[] = []) =>
  openTasks(tasks, active).map((t) => t.id);

describe('openTasks', () => {
  it('are the unfinished tasks, each after its blockers', () => {
    const tasks = [
      task('c', { blockedBy: ['b', 'done'] }),
      task('done', { status: 'TASK_STATUS_COMPLETED' }),
      task('b', { blockedBy: ['a'], status: 'TASK_STATUS_IN_PROGRESS' }),
      task('a'),
      task('deleted', { status: 'TASK_STATUS_DELETED' }),
    ];
    expect(ids(tasks)).toEqual(['a', 'b', 'c']);
  });

  it('leave out tasks that wait for a push, and tasks that wait for those', () => {
    const activation = { filesModified: { pattern: '*.ts' } };
    const tasks = [task('review', { activation }), task('after', { blockedBy: ['review'] }), task('free')];
    expect(ids(tasks)).toEqual(['free']);
    expect(ids(tasks, ['review'])).toEqual(['review', 'free', 'after']);
  });
});
