import { ChildProcess } from 'node:child_process';
import { expect, it } from 'vitest';
import { spawned } from './spawned.ts';

it('a process without pipes is refused, and what it says later harms nobody', () => {
  const child = new ChildProcess();
  expect(() => spawned(child)).toThrow('no open files left');
  expect(() => child.emit('error', new Error('spawn EMFILE'))).not.toThrow();
});
