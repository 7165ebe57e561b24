import { StringDecoder } from 'node:string_decoder';
import { exitAfterOutput } from '../../harness/agent-process.ts';
import type { AgentProcess, HarnessListener, Processes, StartOptions } from '../../harness/harness.ts';
import type { ValueMask } from '../../lib/value-mask.ts';
import type { PreparedRepository } from './prepare.ts';

export interface ScriptOptions extends Pick<StartOptions, 'gateway'> {
  readonly signal?: AbortSignal;
  readonly timeoutMs?: number;
}

/** Runs a shell script as a process of the agent. It is killed on abort, on timeout, and when `use` is done. */
export async function withScript<T>(
  processes: Processes,
  [script, ...args]: readonly [script: string, ...args: string[]],
  { signal, timeoutMs, ...options }: ScriptOptions,
  use: (started: AgentProcess) => Promise<T>,
): Promise<T> {
  signal?.throwIfAborted();
  const started = processes.start(['/bin/sh', '-c', script, '/bin/sh', ...args], options);
  const kill = (): void => void started.kill();
  const timer = timeoutMs === undefined ? undefined : setTimeout(kill, timeoutMs);
  signal?.addEventListener('abort', kill, { once: true });
  started.child.stdin.on('error', () => {});
  try {
    return await use(started);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', kill);
    started.child.stdout.destroy();
    await started.kill();
  }
}

/**
 * Collects what a process prints on stdout, up to a limit. Its stderr is discarded, so that it does not block the
 * process.
 */
export function collectOutput({ child }: AgentProcess, maxLength: number): () => string {
  let output = '';
  child.stderr.resume();
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    if (output.length < maxLength) output += text;
  });
  return () => output;
}

const maxErrorLength = 16 * 1024;

/**
 * Runs a script that prints one line per problem and nothing else, and returns these lines. If the script fails, it
 * throws an error that begins with `what`.
 */
export async function runScript(
  processes: Processes,
  script: readonly [script: string, ...args: string[]],
  what: string,
  signal: AbortSignal,
): Promise<string[]> {
  return withScript(processes, script, { signal }, async (started) => {
    let errors = '';
    started.child.stderr.setEncoding('utf8').on('data', (text: string) => {
      errors = `${errors}${text}`.slice(-maxErrorLength);
    });
    const output = collectOutput(started, maxErrorLength);
    started.child.stdin.end();
    const { exitCode } = await exitAfterOutput(started);
    signal.throwIfAborted();
    if (exitCode !== 0) throw new Error(`${what}: ${errors.trim().slice(-2000) || `exit code ${exitCode}`}`);
    return output().split('\n').filter(Boolean);
  });
}

/** Whether a script exits with 0. */
export async function succeeds(
  processes: Processes,
  script: readonly [script: string, ...args: string[]],
  signal: AbortSignal,
): Promise<boolean> {
  return withScript(processes, script, { signal, gateway: 'never' }, async (started) => {
    collectOutput(started, 0);
    started.child.stdin.end();
    const { exitCode } = await exitAfterOutput(started);
    signal.throwIfAborted();
    return exitCode === 0;
  });
}

const flushMs = 200;
const flushLength = 16 * 1024;
/** How much output of one command goes to the timeline as it comes; after that only the end does. */
const streamedLength = 256 * 1024;
const tailLength = 8 * 1024;

/** Runs the setup commands of an environment, one after the other, as processes of the agent in its workspace. */
export async function runSetup(
  commands: readonly string[],
  processes: Processes,
  listener: Pick<HarnessListener, 'item' | 'action'>,
  signal: AbortSignal,
  mask: ValueMask,
): Promise<void> {
  for (const command of commands) {
    signal.throwIfAborted();
    const report = (text: string) => listener.item({ type: 'SETUP_OUTPUT', text, data: { command } });
    listener.action(`Running setup: ${command}`);
    report(`$ ${command}\n`);
    const exit = await withScript(processes, [command], { signal }, (started) =>
      stream(started, report, mask),
    );
    signal.throwIfAborted();
    if (exit.exitCode === 0) continue;
    const how = exit.exitCode === null ? `was killed by ${exit.signal}` : `exited with code ${exit.exitCode}`;
    throw new Error(`the command "${command}" ${how}`);
  }
}

async function stream(started: AgentProcess, report: (text: string) => void, mask: ValueMask) {
  const output = new SetupOutput(report);
  const ends: (() => void)[] = [];
  const { stdin, stdout, stderr } = started.child;
  stdin.end();
  for (const stream of [stdout, stderr]) {
    const decoder = new StringDecoder('utf8');
    const masked = mask.stream();
    stream.on('data', (chunk: Buffer) => output.add(masked.add(decoder.write(chunk))));
    ends.push(() => output.add(masked.end()));
  }
  const exit = await exitAfterOutput(started);
  for (const end of ends) end();
  output.end();
  return exit;
}

class SetupOutput {
  readonly #report: (text: string) => void;
  #buffer = '';
  #tail = '';
  #streamed = 0;
  #omitted = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(report: (text: string) => void) {
    this.#report = report;
  }

  add(text: string): void {
    const room = Math.max(0, streamedLength - this.#streamed);
    this.#buffer += text.slice(0, room);
    this.#streamed += Math.min(room, text.length);
    const tail = this.#tail + text.slice(room);
    this.#tail = tail.slice(-tailLength);
    this.#omitted += tail.length - this.#tail.length;
    if (this.#buffer.length >= flushLength) this.#flush();
    else this.#timer ??= setTimeout(() => this.#flush(), flushMs);
  }

  end(): void {
    this.#flush();
    if (this.#tail === '') return;
    const note = this.#omitted > 0 ? `… ${this.#omitted} characters left out …\n` : '';
    this.#report(`${note}${this.#tail}`);
  }

  #flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#buffer !== '') this.#report(this.#buffer);
    this.#buffer = '';
  }
}

/** Git needs a few milliseconds, but the agent may have replaced it. */
const countTimeoutMs = 10_000;
const maxCountLength = 64 * 1024;

const countScript =
  'for folder; do git -C "$folder" rev-list --count --branches --not --remotes; done 2>/dev/null';

/**
 * How many commits on branches of the agent's clones are on none of their remotes. A process of the agent counts them:
 * the runner must not execute what the agent has put into its clones.
 */
export async function unpushedCommits(
  processes: Processes,
  repos: readonly Pick<PreparedRepository, 'folder'>[],
): Promise<number> {
  if (repos.length === 0) return 0;
  const folders = repos.map(({ folder }) => folder);
  const options = { gateway: 'never', timeoutMs: countTimeoutMs } as const;
  return withScript(processes, [countScript, ...folders], options, async (started) => {
    const output = collectOutput(started, maxCountLength);
    started.child.stdin.end();
    await exitAfterOutput(started);
    const counts = output()
      .split('\n')
      .filter((line) => /^\d{1,9}$/.test(line));
    return counts.reduce((sum, count) => sum + Number(count), 0);
  });
}
