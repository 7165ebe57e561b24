import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import type { AgentProcess, ProcessExit } from '../../harness/harness.ts';
import { spawned } from '../spawned.ts';
import { isGroupRunning, killMarked, signal } from './proc.ts';
import { exitOf } from './sandboxed-process.ts';

/**
 * A command without a sandbox, in a process group of its own, so that ending it ends everything it started. The group
 * must not outlive the runner either, however that dies: a watcher inside the group reads from a pipe whose other end
 * only the runner holds, and takes the group down when it closes. The outer shell reaps the watcher when the command
 * ends by itself. What leaves the group is found by a mark in its environment, where the system shows that.
 */
export const groupScript = [
  // The command may answer to TERM in its own time; a trap, unlike an ignored signal, is not inherited.
  'trap : TERM',
  '(trap - TERM; read -r _ <&3; kill -KILL 0) >/dev/null 2>&1 & watcher=$!',
  '"$@" 3<&-; status=$?',
  'kill -KILL $watcher 2>/dev/null; wait $watcher 2>/dev/null',
  'exit $status',
].join('\n');

/** How long a command that is asked to end may tidy up. */
const graceMs = 1000;
/** How long a killed group is looked for. */
const goneMs = 500;
const mark = 'MUSTER_PROCESS';

export interface ProcessGroupOptions {
  readonly folder: string;
  readonly environment: Readonly<Record<string, string>>;
  /** Puts a command line under the agent's limits. */
  readonly limited: (argv: readonly string[]) => readonly string[];
}

export class ProcessGroup implements AgentProcess {
  readonly child: ChildProcessWithoutNullStreams;
  readonly exited: Promise<ProcessExit>;
  readonly gatewayReady = Promise.resolve();
  readonly #id = randomUUID();
  #grace: NodeJS.Timeout | undefined;

  constructor(argv: readonly string[], { folder, environment, limited }: ProcessGroupOptions) {
    const [program = '', ...rest] = limited(['/bin/sh', '-c', groupScript, 'sh', ...argv]);
    const child = spawned(
      spawn(program, rest, {
        cwd: folder,
        env: { ...environment, [mark]: this.#id },
        detached: true,
        stdio: ['pipe', 'pipe', 'pipe', 'pipe'],
      }),
    );
    this.child = child as ChildProcessWithoutNullStreams;
    for (const stream of child.stdio) stream?.on('error', () => {});
    this.exited = this.#exit();
  }

  end(): void {
    if (this.#grace) return;
    this.#signal('SIGTERM');
    this.#grace = setTimeout(() => this.#signal('SIGKILL'), graceMs);
  }

  async kill(): Promise<void> {
    this.#signal('SIGKILL');
    await this.exited;
  }

  async #exit(): Promise<ProcessExit> {
    const exit = await exitOf(this.child);
    clearTimeout(this.#grace);
    // What the command left in the background ends with it.
    this.#signal('SIGKILL');
    await killMarked(mark, this.#id);
    await this.#gone();
    return exit;
  }

  #signal(name: NodeJS.Signals | 0): boolean {
    return this.child.pid !== undefined && signal(-this.child.pid, name);
  }

  /** Bounded, because where no init reaps them dead processes may be seen for ever. */
  async #gone(): Promise<void> {
    const group = this.child.pid;
    if (group === undefined) return;
    const until = performance.now() + goneMs;
    for (let ms = 1; (await isGroupRunning(group)) && performance.now() < until; ms = Math.min(2 * ms, 50))
      await pause(ms);
  }
}
