import { type ChildProcess, spawn } from 'node:child_process';
import { setTimeout as pause } from 'node:timers/promises';
import { BoundedOutput } from './bounded-output.ts';

/**
 * A command in a process group of its own, so that ending it ends everything it started. The group must not outlive
 * the runner either, however that dies: a watcher inside the group reads from a pipe whose other end only the runner
 * holds, and takes the group down when it closes. The outer shell reaps the watcher when the command ends by itself.
 */
export const groupScript = [
  // The command may answer to TERM in its own time; a trap, unlike an ignored signal, is not inherited.
  'trap : TERM',
  '(trap - TERM; read -r _ <&3; kill -KILL 0) >/dev/null 2>&1 & watcher=$!',
  '"$@" 3<&-; status=$?',
  'kill -KILL $watcher 2>/dev/null; wait $watcher 2>/dev/null',
  'exit $status',
].join('\n');

/** How long an interrupted command may tidy up. */
const graceMs = 1000;
/** How long after the end of a command a process that left the group may hold its output. */
const settleMs = 2000;
/** How long a killed group is looked for. */
const goneMs = 500;

export interface ProcessGroupOptions {
  readonly folder: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly keepBytes: number;
}

export interface Finished {
  readonly exitCode: number | null;
  readonly signal: string | null;
  /** Both streams as they came, bounded. */
  readonly output: string;
  readonly stdout: string;
}

export class ProcessGroup {
  /** Resolves when the command has ended and nothing of its group is left. */
  readonly finished: Promise<Finished>;
  readonly #child: ChildProcess;
  #grace: NodeJS.Timeout | undefined;

  constructor(argv: readonly string[], options: ProcessGroupOptions) {
    this.#child = spawn('/bin/sh', ['-c', groupScript, 'sh', ...argv], {
      cwd: options.folder,
      env: options.environment,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
    });
    this.finished = this.#finish(options.keepBytes);
  }

  /** Asks the group to end, and insists a little later. */
  end(): void {
    if (this.#grace) return;
    this.#signal('SIGTERM');
    this.#grace = setTimeout(() => this.#signal('SIGKILL'), graceMs);
  }

  async kill(): Promise<void> {
    this.#signal('SIGKILL');
    await this.finished.catch(() => {});
  }

  async #finish(keepBytes: number): Promise<Finished> {
    const child = this.#child;
    const output = new BoundedOutput(keepBytes);
    const stdout = new BoundedOutput(keepBytes);
    child.stdout?.on('data', (chunk: Buffer) => {
      output.add(chunk);
      stdout.add(chunk);
    });
    child.stderr?.on('data', (chunk: Buffer) => output.add(chunk));
    child.stdio[3]?.on('error', () => {});
    const closed = new Promise<void>((resolve) => child.once('close', () => resolve()));
    const [exitCode, signal] = await new Promise<[number | null, string | null]>((resolve, reject) => {
      child.once('error', reject);
      child.once('exit', (code, by) => resolve([code, by]));
    });
    clearTimeout(this.#grace);
    // What the command left in the background ends with it, and so lets go of the output.
    this.#signal('SIGKILL');
    const patience = new AbortController();
    await Promise.race([closed, pause(settleMs, undefined, { signal: patience.signal })]);
    patience.abort();
    for (const stream of child.stdio) stream?.destroy();
    await this.#gone();
    return { exitCode, signal, output: output.toString(), stdout: stdout.toString() };
  }

  #signal(signal: NodeJS.Signals | 0): boolean {
    if (this.#child.pid === undefined) return false;
    try {
      return process.kill(-this.#child.pid, signal);
    } catch {
      return false;
    }
  }

  /** Bounded, because where no init reaps them dead processes are seen for ever. */
  async #gone(): Promise<void> {
    const until = performance.now() + goneMs;
    for (let ms = 1; this.#signal(0) && performance.now() < until; ms = Math.min(2 * ms, 50)) await pause(ms);
  }
}
