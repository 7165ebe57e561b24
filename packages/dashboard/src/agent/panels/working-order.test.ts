import type { Task } from '@muster/sdk';
import { expect, it } from 'vitest';
import { sampleTask as task } from '../../../../../test/support/samples.ts';
import { workingOrder } from './working-order.ts';

const order = (...tasks: Task[]) => workingOrder(tasks).map(({ id }) => id);

it('a checklist without dependencies stays as it came', () => {
  expect(order(task('b'), task('a'), task('c'))).toEqual(['b', 'a', 'c']);
});

it('a task stands behind everything that blocks it, however far away that came', () => {
  expect(
    order(
      task('ship', { blockedBy: ['test'] }),
      task('read'),
      task('test', { blockedBy: ['write'] }),
      task('write'),
    ),
  ).toEqual(['write', 'test', 'ship', 'read']);
});

it('a circle and a blocker that is gone do not keep a task from the list', () => {
  expect(order(task('a', { blockedBy: ['b', 'gone'] }), task('b', { blockedBy: ['a'] }))).toEqual(['b', 'a']);
});
