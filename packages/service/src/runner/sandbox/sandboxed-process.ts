import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { openSync, readdirSync, readFileSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import type { Duplex, Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import type { AgentProcess, ProcessExit, StartOptions } from '../../harness/harness.ts';
import { packageFile } from '../../lib/package-file.ts';
import { accounts, bubblewrapArguments, type Sandbox, scratchFolders, type View } from './bubblewrap.ts';
import { assertSpawned, exitOf, isRunning, killAndWait, type ProcessId, processId, signal } from './proc.ts';
import { seccompFilter } from './seccomp.ts';

/**
 * A command in its own sandbox. Its processes:
 *
 *   bubblewrap, outside → the init of its pid namespace → the command → whatever that starts
 *                                                       → the relay, beside it
 *
 * bubblewrap dies with the runner; the init exits with the command, and the kernel then kills its whole namespace. A
 * control pipe connects the runner with the relay: when it closes, whichever side is left kills everything. The init
 * also proves a kill: the kernel lets it go only when no process of its namespace is left.
 *
 * The relay is a Node process, which takes as long to start as a harness. So a command that does not need the gateway at
 * first is started at the same time, one that never uses it has no relay, and any other waits until the relay listens.
 */
export interface SandboxedOptions {
  readonly sandbox: Sandbox;
  readonly view: Omit<View, 'files'>;
  /** The socket to which the relay forwards. */
  readonly socketPath: string;
  /** The environment of bubblewrap itself, outside: nothing that the agent can choose. */
  readonly marker: Readonly<Record<string, string>>;
  /** Applies the run's limits to a command line. */
  readonly limited: (argv: readonly string[]) => readonly string[];
  /** `later`: the command need not wait for the relay. `never`: there is none. */
  readonly gateway?: StartOptions['gateway'];
}

/**
 * Where the relay listens. Each sandbox has its own network, so the same port is free in each. The address is not
 * 127.0.0.1: an environment may allow that host, and requests to it then go out through the proxy.
 */
export const relayAddress = '127.0.0.2:31415';
/** Must be readable in the sandbox. */
export const relayFile = fileURLToPath(packageFile('bin/relay.cjs'));

/** How long a command may take to exit after it was asked to. */
export const graceMs = 1000;
/** The file descriptors of bubblewrap and the relay. */
const [controlFile, argumentsFile, infoFile, passwdFile, groupFile, filterFile] = [3, 4, 5, 6, 7, 8] as const;
const files = { info: infoFile, passwd: passwdFile, group: groupFile, filter: filterFile };

/**
 * Files that the program which started the runner left open would be inherited by every process, also in a sandbox,
 * where an agent could reach through them what is hidden from it. /dev/null replaces them. Node's own files close on
 * exec.
 */
const lastFile = Math.max(...inheritedFiles(), filterFile);
const devNull = lastFile > filterFile ? openSync('/dev/null', 'r') : -1;
const stdio = Array.from({ length: lastFile + 1 }, (_, file) => (file <= filterFile ? 'pipe' : devNull));

function inheritedFiles(): number[] {
  try {
    return readdirSync('/proc/self/fd')
      .map(Number)
      .filter((file) => file > 2 && !closesOnExec(file));
  } catch {
    return [];
  }
}

function closesOnExec(file: number): boolean {
  try {
    const [, flags = ''] = /^flags:\s*(\d+)/m.exec(readFileSync(`/proc/self/fdinfo/${file}`, 'utf8')) ?? [];
    return (Number.parseInt(flags, 8) & 0o2000000) !== 0;
  } catch {
    // The descriptor by which the folder itself was read is closed by now.
    return true;
  }
}

/**
 * The command's own process starts the relay in the background and becomes the command. When the relay listens, it
 * closes its output, which is what the shell waits for.
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
  readonly #control: Duplex;
  readonly #init: Promise<ProcessId | undefined>;
  #grace: NodeJS.Timeout | undefined;

  constructor(argv: readonly string[], options: SandboxedOptions) {
    const { sandbox, view, socketPath, marker, limited, gateway = 'now' } = options;
    const filter = seccompFilter(process.arch);
    const relay = [process.execPath, relayFile, relayAddress, socketPath];
    const bubblewrap = [sandbox.program, '--args', `${argumentsFile}`, '--'];
    const script = ['/bin/sh', '-c', startScripts[gateway]];
    const [program = '', ...rest] = limited([...bubblewrap, ...script, ...relay, ...argv]);
    const child = assertSpawned(
      spawn(program, rest, {
        cwd: '/',
        env: { ...marker },
        // Its own process group, to be killed as one before bubblewrap has reported the pid of the init.
        detached: true,
        stdio,
      }),
    );
    this.child = child as ChildProcessWithoutNullStreams;
    const streams: readonly (Readable | Writable | null | undefined)[] = child.stdio;
    for (const stream of streams) stream?.on('error', () => {});
    this.#init = initOf(streams[infoFile] as Readable);
    this.#control = streams[controlFile] as Duplex;
    this.exited = this.#exit();
    this.gatewayReady = new Promise((resolve) => {
      this.#control.on('data', resolve);
      void this.exited.then(() => resolve());
    });
    // Either everything is exiting, or only the relay is gone.
    if (gateway !== 'never') this.#control.once('close', () => this.#killSoon());
    // Not as plain arguments: every user of this machine can read those, and the environment contains the token.
    const { passwd, group } = accounts(sandbox, view.folders.homeFolder);
    const args = bubblewrapArguments(sandbox, { ...view, files });
    (streams[argumentsFile] as Writable).end(args.map((arg) => `${arg}\0`).join(''));
    (streams[passwdFile] as Writable).end(passwd);
    (streams[groupFile] as Writable).end(group);
    (streams[filterFile] as Writable).end(filter);
  }

  end(): void {
    if (this.#grace || this.child.exitCode !== null || this.child.signalCode !== null) return;
    this.#control.write('.');
    this.#killSoon();
  }

  /** The tmpfs folders that are almost full. */
  async fullScratch(): Promise<string[]> {
    const id = await this.#init;
    if (!id) return [];
    const full: string[] = [];
    for (const folder of scratchFolders) {
      const space = await statfs(`/proc/${id.pid}/root${folder}`).catch(() => undefined);
      if (space && space.blocks > 0 && space.bavail * 100 < space.blocks) full.push(folder);
    }
    // Another process may have got this pid meanwhile.
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
    this.#control.destroy();
    const id = await this.#init;
    if (id) await killAndWait(id);
    return exit;
  }
}

/** Undefined if bubblewrap failed before there was an init, or if the init is gone. */
async function initOf(info: Readable): Promise<ProcessId | undefined> {
  let text = '';
  try {
    for await (const piece of info) text += piece;
    return await processId(JSON.parse(text)['child-pid']);
  } catch {
    return undefined;
  }
}
