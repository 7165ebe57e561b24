import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import type { AgentProcess, ProcessExit } from '../../harness/harness.ts';
import { spawned } from '../spawned.ts';
import { accounts, bubblewrapArguments, type Sandbox, type View } from './bubblewrap.ts';
import { killAndWait, type ProcessId, processId, signal } from './proc.ts';

/**
 * A command in a sandbox of its own. What it consists of:
 *
 *   bubblewrap, outside → the init of its pid namespace → the relay → the command → whatever that starts
 *
 * Each ends when the one before it does. The first dies with the runner, the relay notices as well when its line to
 * the runner is cut, and an init takes its whole namespace along. That is also the proof of a kill: the kernel lets
 * an init go only when nothing of its namespace is left.
 */
export interface SandboxedOptions {
  readonly sandbox: Sandbox;
  readonly view: Omit<View, 'files'>;
  /** Where the relay listens in the sandbox (`host:port`), and the socket it leads to. */
  readonly relayAddress: string;
  readonly socketPath: string;
  /** What bubblewrap itself has in its environment, outside: nothing that the agent could choose. */
  readonly marker: Readonly<Record<string, string>>;
  /** Puts a command line under the agent's limits. */
  readonly limited: (argv: readonly string[]) => readonly string[];
}

/** Also to be seen in the sandbox. */
export const relayFile = fileURLToPath(new URL('../../../bin/relay.cjs', import.meta.url));

/** How long a command that is asked to end may tidy up. */
const graceMs = 1000;
/** The numbers of the open files that bubblewrap and the relay find. */
const [lineFile, argumentsFile, infoFile, passwdFile, groupFile] = [3, 4, 5, 6, 7] as const;
const files = { info: infoFile, passwd: passwdFile, group: groupFile };

export class SandboxedProcess implements AgentProcess {
  readonly child: ChildProcessWithoutNullStreams;
  readonly exited: Promise<ProcessExit>;
  readonly #line: Writable;
  #grace: NodeJS.Timeout | undefined;

  constructor(argv: readonly string[], options: SandboxedOptions) {
    const { sandbox, view, relayAddress, socketPath, marker, limited } = options;
    const relay = [process.execPath, relayFile, relayAddress, socketPath, ...argv];
    const [program = '', ...rest] = limited([sandbox.program, '--args', `${argumentsFile}`, '--', ...relay]);
    const child = spawned(
      spawn(program, rest, {
        cwd: '/',
        env: { ...marker },
        // A group of its own, to be killed as one before bubblewrap has said who the init is.
        detached: true,
        stdio: Array.from({ length: groupFile + 1 }, () => 'pipe' as const),
      }),
    );
    this.child = child as ChildProcessWithoutNullStreams;
    const streams: readonly (Readable | Writable | null | undefined)[] = child.stdio;
    for (const stream of streams) stream?.on('error', () => {});
    const init = initOf(streams[infoFile] as Readable);
    this.#line = streams[lineFile] as Writable;
    this.exited = this.#exit(init);
    // Not as plain arguments: those are for everyone on this machine to read, and the environment holds the token.
    const { passwd, group } = accounts(sandbox, view.folders.homeFolder);
    const words = bubblewrapArguments(sandbox, { ...view, files });
    (streams[argumentsFile] as Writable).end(words.map((word) => `${word}\0`).join(''));
    (streams[passwdFile] as Writable).end(passwd);
    (streams[groupFile] as Writable).end(group);
  }

  end(): void {
    if (this.#grace || this.child.exitCode !== null || this.child.signalCode !== null) return;
    this.#line.write('.');
    this.#grace = setTimeout(() => this.#kill(), graceMs);
  }

  async kill(): Promise<void> {
    this.#kill();
    await this.exited;
  }

  #kill(): void {
    const { pid, exitCode, signalCode } = this.child;
    if (pid !== undefined && exitCode === null && signalCode === null) signal(-pid, 'SIGKILL');
  }

  async #exit(init: Promise<ProcessId | undefined>): Promise<ProcessExit> {
    const exit = await exitOf(this.child);
    clearTimeout(this.#grace);
    this.#line.destroy();
    const id = await init;
    if (id) await killAndWait(id);
    return exit;
  }
}

/** A program that could not be started has ended too, as a shell would say it. */
export function exitOf(child: ChildProcessWithoutNullStreams): Promise<ProcessExit> {
  return new Promise((resolve) => {
    child.once('error', () => resolve({ exitCode: 127, signal: null }));
    child.once('exit', (exitCode, by) => resolve({ exitCode, signal: by }));
  });
}

/** Undefined when bubblewrap gave up before there was one, or when it is gone already. */
async function initOf(info: Readable): Promise<ProcessId | undefined> {
  let text = '';
  try {
    for await (const piece of info) text += piece;
    return await processId(JSON.parse(text)['child-pid']);
  } catch {
    return undefined;
  }
}
