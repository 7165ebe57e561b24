import type { ChildProcess } from 'node:child_process';

/**
 * A child process as `spawn` gave it. When no more files can be opened that is one without pipes, which says why only
 * later, in an error that would be the runner's end if nobody heard it.
 */
export function spawned<C extends ChildProcess>(child: C): C {
  child.once('error', () => {});
  if (!child.stdio) throw new Error('no process can be started: this machine has no open files left');
  return child;
}
