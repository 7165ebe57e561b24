import { dirname } from 'node:path';
import { Transform, type TransformCallback } from 'node:stream';
import type { SpawnedProcess, SpawnOptions } from '@anthropic-ai/claude-agent-sdk';
import { lastErrorOutput } from '../agent-process.ts';
import type { AgentProcess, Work } from '../harness.ts';

/** The agent owns its home: these folders are created inside its sandbox, not by the runner. */
const createFolders = [
  '/bin/sh',
  '-c',
  'mkdir -p "$TMPDIR" && mkdir -p -m 700 "$XDG_RUNTIME_DIR"; exec "$0" "$@"',
];

/** The native program, which the SDK starts as one of the agent's processes. */
export class ClaudeProcess {
  readonly #work: Work;
  readonly #executable: string;
  /** Undefined until the SDK has started it. */
  running: AgentProcess | undefined;
  errorOutput = (): string => '';

  constructor(work: Work, executable: string) {
    this.#work = work;
    this.#executable = executable;
  }

  start({ command, args, env }: SpawnOptions): SpawnedProcess {
    const environment = Object.fromEntries(
      Object.entries(env).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
    );
    const started = this.#work.processes.start([...createFolders, command, ...args], {
      environment,
      reads: [dirname(this.#executable)],
    });
    this.running = started;
    const { child } = started;
    // An unhandled error would end the runner. The exit of the process says why the pipe broke.
    child.stdin.on('error', () => {});
    this.errorOutput = lastErrorOutput(child);
    const lines = new BoundedLines(() => void started.kill());
    child.stdout.once('close', () => lines.end()).pipe(lines);
    child.stdout = lines;
    return child;
  }
}

/** Longer than any message: Claude Code cuts the results of tools itself. */
const longestLineBytes = 32 * 1024 * 1024;
const newline = 0x0a;

/**
 * Forwards the lines of a process to a reader that buffers each line. The agent can write to this stream too: after a
 * line that is too long nothing more is forwarded, and `onTooLong` is called.
 */
export class BoundedLines extends Transform {
  readonly #onTooLong: () => void;
  #lineBytes = 0;

  constructor(onTooLong: () => void) {
    super();
    this.#onTooLong = onTooLong;
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    if (this.#lineBytes > longestLineBytes) return done();
    const end = chunk.lastIndexOf(newline);
    this.#lineBytes = end === -1 ? this.#lineBytes + chunk.length : chunk.length - end - 1;
    if (this.#lineBytes <= longestLineBytes) return done(null, chunk);
    this.#onTooLong();
    done();
  }
}
