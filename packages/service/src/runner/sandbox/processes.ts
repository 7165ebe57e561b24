import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdirSync, realpathSync } from 'node:fs';
import { userInfo } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { AgentProcess, ProcessExit, Processes, StartOptions } from '../../harness/harness.ts';
import { type OwnFolders, type Sandbox, sandboxUser } from './bubblewrap.ts';
import { assertSpawned, exitOf, isGroupRunning, killMarked, signal } from './proc.ts';
import type { RunGroup } from './resource-limits.ts';
import { graceMs, relayAddress, relayFile, SandboxedProcess } from './sandboxed-process.ts';

export interface AgentProcessesOptions {
  /** Null: the agent's processes have all rights of the runner's user. */
  readonly sandbox: Sandbox | null;
  readonly folders: OwnFolders;
  /** The runner's own files: hidden except for what is named here. */
  readonly dataFolder: string;
  /** The runner's files for this run; the agent may read them. */
  readonly runFolder: string;
  readonly agentKey: string;
  readonly runId: number;
  /** The git configuration that the runner wrote for the agent. */
  readonly gitConfigFile?: string;
  /** The hosts that the workspace's environment allows. */
  readonly allowHosts?: readonly string[];
  /** From the workspace's environment; they override the others. */
  readonly variables?: Readonly<Record<string, string>>;
  /** What else the agent may read, such as the mirrors of its repositories. */
  readonly reads?: readonly string[];
  readonly limits?: Pick<RunGroup, 'wrap'>;
  /** The size limit of each tmpfs of the sandbox; none if absent or 0. */
  readonly scratchMb?: number;
  /** Called before the first process of the run starts. */
  readonly onFirstStart?: () => void;
  /** A socket with a sandbox, a port without one. */
  readonly gateway: { readonly socketPath: string } | { readonly port: number };
}

export interface AgentProcesses extends Processes {
  /** The names of the variables that every process has. */
  readonly variables: readonly string[];
  /** The tmpfs folders that are almost full, in any sandbox of the run. */
  fullScratch(): Promise<readonly string[]>;
  /** Resolves when no process of the run is left. Only `later` can start one after that. */
  killAll(): Promise<void>;
  /** For the runner's own work in the agent's folders after the run. */
  readonly later: Processes;
}

const runVariable = 'MUSTER_RUN';
/** In the environment of what must not outlive the runner. */
export const folderVariable = 'MUSTER_DATA_FOLDER';

/**
 * Kills what an earlier process of the runner with this data folder left: bubblewrap, killed together with the runner
 * while it still sets up a sandbox, leaves a process that waits for it forever.
 */
export const killLeftovers = (dataFolder: string): Promise<void> => killMarked(folderVariable, dataFolder);

/** The URL of the run's gateway endpoint. It is known before the processes start, because it is part of their environment. */
export function endpointUrl(gateway: AgentProcessesOptions['gateway']): string {
  return `http://${'port' in gateway ? `127.0.0.1:${gateway.port}` : relayAddress}`;
}

export function agentProcesses(options: AgentProcessesOptions): AgentProcesses {
  const { sandbox, folders, dataFolder, runFolder, reads = [], limits, scratchMb = 0, gateway } = options;
  const mark = `${options.agentKey}/${options.runId}`;
  const marker = { [runVariable]: mark, [folderVariable]: dataFolder };
  const marks = sandbox ? { [runVariable]: mark } : marker;
  // The marks come first: only the beginning of an environment is searched.
  const base: Record<string, string> = { ...marks, ...environmentOf(options), ...marks };
  const limited = limits?.wrap ?? ((argv) => argv);
  const running = new Set<Started>();
  let isOver = false;
  let hasStarted = false;
  if (!sandbox && base.TMPDIR) mkdirSync(base.TMPDIR, { recursive: true });
  const start = (argv: readonly string[], own: StartOptions): Started => {
    const environment = { ...base, ...own.environment };
    if (!sandbox) return new ProcessGroup(argv, { folder: folders.workspaceFolder, environment, limited });
    if (!('socketPath' in gateway))
      throw new Error('a sandbox reaches the gateway by a socket, not by a port');
    return new SandboxedProcess(argv, {
      sandbox,
      view: {
        folders,
        hides: [...new Set([dataFolder, realpathSync(dataFolder)])],
        reads: [relayFile, runFolder, ...reads, ...(own.reads ?? [])],
        environment,
        scratchMb,
      },
      socketPath: gateway.socketPath,
      marker,
      limited,
      gateway: own.gateway,
    });
  };
  const startTracked = (argv: readonly string[], startOptions: StartOptions = {}): Started => {
    if (!hasStarted) options.onFirstStart?.();
    hasStarted = true;
    const started = start(argv, startOptions);
    running.add(started);
    void started.exited.then(() => running.delete(started));
    return started;
  };
  return {
    variables: Object.keys(base),
    start: (argv, startOptions) => {
      if (isOver) throw new Error('the run has ended: no more processes can be started for it');
      return startTracked(argv, startOptions);
    },
    later: { start: startTracked },
    fullScratch: async () => {
      const full = await Promise.all([...running].map((one) => one.fullScratch?.()));
      return [...new Set(full.flatMap((folders) => folders ?? []))];
    },
    killAll: async () => {
      isOver = true;
      await Promise.all([...running].map((one) => one.kill()));
      // The init of a sandbox has proved the end. Otherwise the environment of every process is searched.
      if (hasStarted && !sandbox) await killMarked(runVariable, mark);
    },
  };
}

type Started = AgentProcess & Partial<Pick<SandboxedProcess, 'fullScratch'>>;

/**
 * Runs a command without a sandbox in its own process group, so that killing it kills what it started. The group must
 * not outlive the runner either: a watcher in the group reads from a pipe whose other end only the runner has, and kills
 * the group when the pipe closes. The outer shell reaps the watcher when the command exits. Processes that leave the
 * group are found by a variable in their environment, if the system has /proc.
 */
export const groupScript = [
  // The command handles TERM itself; a trap, unlike an ignored signal, is not inherited.
  'trap : TERM',
  '(trap - TERM; read -r _ <&3; kill -KILL 0) >/dev/null 2>&1 & watcher=$!',
  '"$@" 3<&-; status=$?',
  'kill -KILL $watcher 2>/dev/null; wait $watcher 2>/dev/null',
  'exit $status',
].join('\n');

/** How long to wait for a killed group. */
const goneMs = 500;
const processVariable = 'MUSTER_PROCESS';

interface ProcessGroupOptions {
  readonly folder: string;
  readonly environment: Readonly<Record<string, string>>;
  /** Applies the run's limits to a command line. */
  readonly limited: (argv: readonly string[]) => readonly string[];
}

class ProcessGroup implements AgentProcess {
  readonly child: ChildProcessWithoutNullStreams;
  readonly exited: Promise<ProcessExit>;
  readonly gatewayReady = Promise.resolve();
  readonly #id = randomUUID();
  #isGone = false;
  #grace: NodeJS.Timeout | undefined;

  constructor(argv: readonly string[], { folder, environment, limited }: ProcessGroupOptions) {
    const [program = '', ...rest] = limited(['/bin/sh', '-c', groupScript, 'sh', ...argv]);
    const child = assertSpawned(
      spawn(program, rest, {
        cwd: folder,
        env: { [processVariable]: this.#id, ...environment },
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
    // Later another group may have the same id.
    if (!this.#isGone) this.#signal('SIGKILL');
    await this.exited;
  }

  async #exit(): Promise<ProcessExit> {
    const exit = await exitOf(this.child);
    clearTimeout(this.#grace);
    // Background processes of the command are killed too.
    this.#signal('SIGKILL');
    await killMarked(processVariable, this.#id);
    await this.#gone();
    this.#isGone = true;
    return exit;
  }

  #signal(name: NodeJS.Signals | 0): boolean {
    return this.child.pid !== undefined && signal(-this.child.pid, name);
  }

  /** With a timeout, because without an init that reaps them zombies stay visible forever. */
  async #gone(): Promise<void> {
    const group = this.child.pid;
    if (group === undefined) return;
    const until = performance.now() + goneMs;
    for (let ms = 1; (await isGroupRunning(group)) && performance.now() < until; ms = Math.min(2 * ms, 50))
      await pause(ms);
  }
}

/** Not based on the runner's own environment, which contains secrets. */
function environmentOf(options: AgentProcessesOptions): Record<string, string> {
  const { sandbox, folders, gitConfigFile, allowHosts = [] } = options;
  const user = sandbox ? sandboxUser : userInfo().username;
  return {
    PATH: sandbox ? systemPath : (process.env.PATH ?? systemPath),
    LANG: process.env.LANG ?? 'C.UTF-8',
    ...(process.env.TZ && { TZ: process.env.TZ }),
    TERM: 'dumb',
    SHELL: '/bin/bash',
    HOME: folders.homeFolder,
    USER: user,
    LOGNAME: user,
    TMPDIR: sandbox ? '/tmp' : join(folders.homeFolder, 'tmp'),
    GIT_TERMINAL_PROMPT: '0',
    GIT_CONFIG_NOSYSTEM: '1',
    ...(gitConfigFile && { GIT_CONFIG_GLOBAL: gitConfigFile }),
    ...(sandbox && proxied(endpointUrl(options.gateway), allowHosts)),
    ...options.variables,
  };
}

/** Where the processes of an agent find programs. */
export const programFolders: readonly string[] = [
  ...new Set([
    dirname(process.execPath),
    ...['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin'],
  ]),
];

const systemPath = programFolders.join(delimiter);

/**
 * The gateway endpoint is the proxy for every host: it refuses those that are not allowed. In both spellings: curl reads
 * only lower case for http, other programs only upper case. Local addresses are not proxied, unless the environment
 * allows them: then they mean the runner's machine.
 */
function proxied(url: string, allowHosts: readonly string[]): Record<string, string> {
  const names = ['HTTP_PROXY', 'HTTPS_PROXY', 'http_proxy', 'https_proxy'];
  const own = ['127.0.0.1', 'localhost'].filter(
    (host) => !allowHosts.some((rule) => rule.split(':')[0] === host),
  );
  const direct = [new URL(url).hostname, ...own].join(',');
  return { ...Object.fromEntries(names.map((name) => [name, url])), NO_PROXY: direct, no_proxy: direct };
}
