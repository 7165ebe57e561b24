import { mkdirSync, realpathSync } from 'node:fs';
import { userInfo } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import type { AgentProcess, Processes, StartOptions } from '../../harness/harness.ts';
import { type Sandbox, sandboxUser } from './bubblewrap.ts';
import type { Limits } from './cgroup.ts';
import { killMarked } from './proc.ts';
import { ProcessGroup } from './process-group.ts';
import { relayFile, SandboxedProcess } from './sandboxed-process.ts';

export interface AgentProcessesOptions {
  /** Null: the agent's processes are the runner's equals. */
  readonly sandbox: Sandbox | null;
  readonly folders: { readonly workspaceFolder: string; readonly homeFolder: string };
  /** Everything of the runner: out of sight, but for what is named here. */
  readonly dataFolder: string;
  /** What the runner keeps for this run; the agent may read it. */
  readonly runFolder: string;
  /** All that a process of the agent finds in its environment, as `baseEnvironment` makes it. */
  readonly environment: Readonly<Record<string, string>>;
  /** What else the agent may read, such as the mirrors of its repositories. */
  readonly reads?: readonly string[];
  readonly limits?: Pick<Limits, 'wrap'>;
  /** The most that each folder of memory of the sandbox may hold; no limit if absent or 0. */
  readonly scratchMb?: number;
  /** Called before the first process of the run starts. */
  readonly onFirstStart?: () => void;
  /** A socket where there is a sandbox, a port where there is none. */
  readonly gateway: { readonly socketPath: string } | { readonly port: number };
}

export interface AgentProcesses extends Processes {
  readonly endpoint: { readonly url: string };
  /** The folders of memory in which almost nothing more fits, in any sandbox of the run. */
  fullScratch(): Promise<readonly string[]>;
  /** Resolves when no process of the run is left. None can be started after. */
  killAll(): Promise<void>;
}

/**
 * Where the relay listens. The sandbox has a network of its own: the same port is free in each. Nor is it the address
 * that every program means by this machine: that one an environment may allow, and it then leads out by the proxy.
 */
const relayAddress = '127.0.0.2:31415';
const runVariable = 'MUSTER_RUN';

/** The URL of the run's gateway endpoint. It is known before the processes start, because it is part of their environment. */
export function endpointUrl(gateway: AgentProcessesOptions['gateway']): string {
  return `http://${'port' in gateway ? `127.0.0.1:${gateway.port}` : relayAddress}`;
}

export function agentProcesses(options: AgentProcessesOptions): AgentProcesses {
  const { sandbox, environment, gateway } = options;
  const start = sandbox ? sandboxed(sandbox, options) : unsandboxed(options);
  const running = new Set<Started>();
  let isOver = false;
  let hasStarted = false;
  return {
    endpoint: { url: endpointUrl(gateway) },
    start: (argv, startOptions = {}) => {
      if (isOver) throw new Error('the run is over: nothing is started for it any more');
      if (!hasStarted) options.onFirstStart?.();
      hasStarted = true;
      const started = start(argv, startOptions);
      running.add(started);
      void started.exited.then(() => running.delete(started));
      return started;
    },
    fullScratch: async () => {
      const full = await Promise.all([...running].map((one) => one.fullScratch?.()));
      return [...new Set(full.flatMap((folders) => folders ?? []))];
    },
    killAll: async () => {
      isOver = true;
      await Promise.all([...running].map((one) => one.kill()));
      const marker = environment[runVariable];
      // To read the environment of every process of the machine is most of the work of a run that starts none.
      if (hasStarted && marker) await killMarked(runVariable, marker);
    },
  };
}

type Started = AgentProcess & Partial<Pick<SandboxedProcess, 'fullScratch'>>;
type Start = (argv: readonly string[], options: StartOptions) => Started;

function sandboxed(sandbox: Sandbox, options: AgentProcessesOptions): Start {
  const { folders, dataFolder, runFolder, environment, reads = [], limits, scratchMb = 0, gateway } = options;
  if (!('socketPath' in gateway))
    throw new Error('in a sandbox the gateway is reached by a socket, not by a port');
  const marker = environment[runVariable];
  return (argv, own) =>
    new SandboxedProcess(argv, {
      sandbox,
      view: {
        folders,
        hides: [...new Set([dataFolder, realpathSync(dataFolder)])],
        reads: [relayFile, runFolder, ...reads, ...(own.reads ?? [])],
        environment: { ...environment, ...own.environment },
        scratchMb,
        folder: own.folder ?? folders.workspaceFolder,
      },
      relayAddress,
      socketPath: gateway.socketPath,
      marker: marker ? { [runVariable]: marker } : {},
      limited: limits?.wrap ?? ((words) => words),
      gateway: own.gateway,
    });
}

function unsandboxed({ folders, environment, limits }: AgentProcessesOptions): Start {
  if (environment.TMPDIR) mkdirSync(environment.TMPDIR, { recursive: true });
  return (argv, own) =>
    new ProcessGroup(argv, {
      folder: own.folder ?? folders.workspaceFolder,
      environment: { ...environment, ...own.environment },
      limited: limits?.wrap ?? ((words) => words),
    });
}

export interface EnvironmentFacts {
  readonly isSandboxed: boolean;
  readonly homeFolder: string;
  readonly agentKey: string;
  readonly runId: number;
  /** The git configuration that the runner wrote for the agent. */
  readonly gitConfigFile?: string;
  /** In a sandbox the gateway endpoint is the proxy for every host: it lets through those that are allowed, and tells of others. */
  readonly proxy?: { readonly url: string; readonly allowHosts: readonly string[] };
  /** What the workspace's environment says; it has the last word. */
  readonly variables?: Readonly<Record<string, string>>;
}

/** Made from nothing: the runner's own environment holds secrets that are not the agent's. */
export function baseEnvironment(facts: EnvironmentFacts): Record<string, string> {
  const { isSandboxed, homeFolder, gitConfigFile, proxy } = facts;
  const user = isSandboxed ? sandboxUser : userInfo().username;
  return {
    PATH: isSandboxed ? systemPath : (process.env.PATH ?? systemPath),
    LANG: process.env.LANG ?? 'C.UTF-8',
    ...(process.env.TZ && { TZ: process.env.TZ }),
    TERM: 'dumb',
    SHELL: '/bin/bash',
    HOME: homeFolder,
    USER: user,
    LOGNAME: user,
    TMPDIR: isSandboxed ? '/tmp' : join(homeFolder, 'tmp'),
    GIT_TERMINAL_PROMPT: '0',
    GIT_CONFIG_NOSYSTEM: '1',
    ...(gitConfigFile && { GIT_CONFIG_GLOBAL: gitConfigFile }),
    ...(isSandboxed && proxy && proxied(proxy)),
    ...facts.variables,
    [runVariable]: `${facts.agentKey}/${facts.runId}`,
  };
}

const systemPath = [
  ...new Set([
    dirname(process.execPath),
    ...['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin'],
  ]),
].join(delimiter);

/**
 * Both spellings: curl heeds only the small one for http, others only the large one. This machine is the sandbox
 * itself, unless the environment allows it by that name: then it is the runner's.
 */
function proxied({ url, allowHosts }: NonNullable<EnvironmentFacts['proxy']>): Record<string, string> {
  const names = ['HTTP_PROXY', 'HTTPS_PROXY', 'http_proxy', 'https_proxy'];
  const own = ['127.0.0.1', 'localhost'].filter(
    (host) => !allowHosts.some((rule) => rule.split(':')[0] === host),
  );
  const direct = [new URL(url).hostname, ...own].join(',');
  return { ...Object.fromEntries(names.map((name) => [name, url])), NO_PROXY: direct, no_proxy: direct };
}
