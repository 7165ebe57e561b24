import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { openSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import type { Duplex, Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import type { AgentProcess, ProcessExit, StartOptions } from '../../harness/harness.ts';
import { packageFile } from '../../lib/package-file.ts';
import { spawned } from '../spawned.ts';
import { accounts, bubblewrapArguments, type Sandbox, scratchFolders, type View } from './bubblewrap.ts';
import { leftOpen } from './left-open.ts';
import { isRunning, killAndWait, type ProcessId, processId, signal } from './proc.ts';
import { seccompFilter } from './seccomp.ts';

/**
 * A command in a sandbox of its own. What it consists of:
 *
 *   bubblewrap, outside → the init of its pid namespace → the command → whatever that starts
 *                                                       → the relay, beside it
 *
 * The first dies with the runner; the init ends with the command, and takes its whole namespace along. A line leads
 * from the runner to the relay: when it is cut, whichever of the two is left ends everything. The proof of a kill is
 * the init, too: the kernel lets it go only when nothing of its namespace is left.
 *
 * The relay is a Node, which takes as long to start as a whole harness may. So a command that can do without the gateway
 * at first is started at the same time, one that never goes there has no relay, and any other waits until it listens.
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
  /** `later`: the command need not wait for the relay. `never`: there is none. */
  readonly gateway?: StartOptions['gateway'];
}

/** Also to be seen in the sandbox. */
export const relayFile = fileURLToPath(packageFile('bin/relay.cjs'));

/** How long a command that is asked to end may tidy up. */
const graceMs = 1000;
/** The numbers of the open files that bubblewrap and the relay find. */
const [lineFile, argumentsFile, infoFile, passwdFile, groupFile, filterFile] = [3, 4, 5, 6, 7, 8] as const;
const files = { info: infoFile, passwd: passwdFile, group: groupFile, filter: filterFile };

/** Whatever was left open is covered by nothing at all; what Node opens itself reaches no program. */
const covered = Math.max(...leftOpen(), filterFile);
const nothing = covered > filterFile ? openSync('/dev/null', 'r') : -1;
const stdio = Array.from({ length: covered + 1 }, (_, file) => (file <= filterFile ? 'pipe' : nothing));

/**
 * The command's own process starts the relay, lets go of it and becomes the command. The output of a relay that
 * listens ends, and with it what the shell waits for.
 */
const relayed = '"$0" "$1" "$2" "$3" $$ < /dev/null 2> /dev/null';
const becomeCommand = 'shift 3; exec "$@" 3>&-';
const startScripts = {
  now: `: "$(${relayed} &)"; ${becomeCommand}`,
  later: `(${relayed} > /dev/null &); ${becomeCommand}`,
  never: becomeCommand,
} as const;

export class SandboxedProcess implements AgentProcess {
  readonly child: ChildProcessWithoutNullStreams;
  readonly exited: Promise<ProcessExit>;
  readonly gatewayReady: Promise<void>;
  readonly #line: Duplex;
  readonly #init: Promise<ProcessId | undefined>;
  #grace: NodeJS.Timeout | undefined;

  constructor(argv: readonly string[], options: SandboxedOptions) {
    const { sandbox, view, relayAddress, socketPath, marker, limited, gateway = 'now' } = options;
    const filter = seccompFilter(process.arch);
    const relay = [process.execPath, relayFile, relayAddress, socketPath];
    const bubblewrap = [sandbox.program, '--args', `${argumentsFile}`, '--'];
    const [program = '', ...rest] = limited([
      ...bubblewrap,
      '/bin/sh',
      '-c',
      startScripts[gateway],
      ...relay,
      ...argv,
    ]);
    const child = spawned(
      spawn(program, rest, {
        cwd: '/',
        env: { ...marker },
        // A group of its own, to be killed as one before bubblewrap has said who the init is.
        detached: true,
        stdio,
      }),
    );
    this.child = child as ChildProcessWithoutNullStreams;
    const streams: readonly (Readable | Writable | null | undefined)[] = child.stdio;
    for (const stream of streams) stream?.on('error', () => {});
    this.#init = initOf(streams[infoFile] as Readable);
    this.#line = streams[lineFile] as Duplex;
    this.exited = this.#exit();
    this.gatewayReady = new Promise((resolve) => {
      this.#line.on('data', resolve);
      void this.exited.then(() => resolve());
    });
    // Either everything ends just now, or the relay alone is gone.
    if (gateway !== 'never') this.#line.once('close', () => this.#killSoon());
    // Not as plain arguments: those are for everyone on this machine to read, and the environment holds the token.
    const { passwd, group } = accounts(sandbox, view.folders.homeFolder);
    const words = bubblewrapArguments(sandbox, { ...view, files });
    (streams[argumentsFile] as Writable).end(words.map((word) => `${word}\0`).join(''));
    (streams[passwdFile] as Writable).end(passwd);
    (streams[groupFile] as Writable).end(group);
    (streams[filterFile] as Writable).end(filter);
  }

  end(): void {
    if (this.#grace || this.child.exitCode !== null || this.child.signalCode !== null) return;
    this.#line.write('.');
    this.#killSoon();
  }

  /** The folders of memory in which almost nothing more fits. */
  async fullScratch(): Promise<string[]> {
    const id = await this.#init;
    if (!id) return [];
    const full: string[] = [];
    for (const folder of scratchFolders) {
      const space = await statfs(`/proc/${id.pid}/root${folder}`).catch(() => undefined);
      if (space && space.blocks > 0 && space.bavail * 100 < space.blocks) full.push(folder);
    }
    // Another process may have got the number meanwhile, and another root.
    return (await isRunning(id)) ? full : [];
  }

  async kill(): Promise<void> {
    this.#kill();
    await this.exited;
  }

  #killSoon(): void {
    this.#grace ??= setTimeout(() => this.#kill(), graceMs);
  }

  #kill(): void {
    const { pid, exitCode, signalCode } = this.child;
    if (pid !== undefined && exitCode === null && signalCode === null) signal(-pid, 'SIGKILL');
  }

  async #exit(): Promise<ProcessExit> {
    const exit = await exitOf(this.child);
    clearTimeout(this.#grace);
    this.#line.destroy();
    const id = await this.#init;
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
