import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Claim } from '@muster/sdk/contract';
import type { Credit, ProviderAccess } from '../../harness/harness.ts';
import type { RunnerLog } from '../../lib/log.ts';
import type { ValueMask } from '../../lib/value-mask.ts';
import type { EndpointOptions, Gateway, OpenEndpoint } from '../gateway/gateway.ts';
import { type GitEndpointOptions, gitEndpoint } from '../gateway/git.ts';
import type { OwnFolders, Sandbox } from '../sandbox/bubblewrap.ts';
import { type AgentProcesses, agentProcesses, endpointUrl } from '../sandbox/processes.ts';
import type { RunGroup } from '../sandbox/resource-limits.ts';
import { gitConfig, gitUrl, type PreparedRepository } from '../workspace/prepare.ts';

export interface AgentSandboxOptions {
  readonly context: {
    readonly dataFolder: string;
    readonly sandbox: Sandbox | null;
    readonly gateway: Gateway;
    readonly log: RunnerLog;
  };
  readonly claim: Claim;
  /** The gateway accepts only this. */
  readonly token: string;
  readonly provider: ProviderAccess | undefined;
  readonly usualAccount?: string;
  readonly isRetried?: boolean;
  readonly credit: Credit;
  /** The remote MCP servers of the workspace. */
  readonly mcpServers?: EndpointOptions['mcpServers'];
  readonly folders: OwnFolders;
  readonly repos: readonly PreparedRepository[];
  readonly submodules: readonly PreparedRepository[];
  readonly environment: {
    readonly allowHosts: readonly string[];
    readonly variables: Readonly<Record<string, string>>;
  };
  readonly limits: { readonly group: Pick<RunGroup, 'wrap'>; readonly scratchMb: number };
  readonly onFirstStart?: () => void;
  readonly listener: EndpointOptions['listener'] & GitEndpointOptions['listener'];
  readonly beforeTool?: EndpointOptions['beforeTool'];
  readonly trace?: EndpointOptions['trace'];
  readonly mask: ValueMask;
  readonly signal: AbortSignal;
}

export interface AgentSandbox {
  readonly gateway: OpenEndpoint;
  readonly endpoint: { readonly url: string; readonly token: string };
  readonly processes: AgentProcesses;
  /** The URL of a repository or submodule at the gateway. */
  readonly urlOf: (repository: PreparedRepository) => string;
  /** The runner's files for this sandbox; its processes may read them. */
  readonly runFolder: string;
  /** Resolves when no process, endpoint and token is left. */
  end(): Promise<void>;
}

/**
 * Opens a gateway endpoint, and prepares processes that reach the network only through it. `undo` gets what ends all of
 * this, to be called in reverse order.
 */
export async function openAgentSandbox(
  options: AgentSandboxOptions,
  undo: (() => Promise<unknown>)[],
): Promise<AgentSandbox> {
  const { context, claim, token, folders, environment, limits, listener, mask, signal } = options;
  const repos = [...options.repos, ...options.submodules];
  const { dataFolder, sandbox } = context;
  const { runFolder, socketPath } = await makeRunFolder(dataFolder, claim);
  undo.push(() => rm(runFolder, { recursive: true, force: true }));
  const git = gitEndpoint({
    ...claim,
    repos,
    allowCiChanges: claim.workspace.document.allowCiChanges === true,
    listener,
    signal,
    log: context.log,
  });
  const gateway = await context.gateway.open({
    token,
    listenAt: sandbox ? { socketPath } : { port: 0 },
    allowHosts: sandbox ? environment.allowHosts : undefined,
    ...{ provider: options.provider, usualAccount: options.usualAccount, credit: options.credit },
    isRetried: options.isRetried,
    git: git.handle,
    ...(options.mcpServers && { mcpServers: options.mcpServers }),
    listener,
    beforeTool: options.beforeTool,
    trace: options.trace,
    mask,
  });
  const steps = [() => git.close(), () => gateway.close()];
  const end = undoOnce(steps);
  undo.push(end);
  const address = sandbox ? { socketPath } : { port: gateway.port ?? 0 };
  const endpoint = { url: endpointUrl(address), token };
  const gitConfigFile = join(runFolder, 'gitconfig');
  await writeFile(gitConfigFile, gitConfig({ ...claim, token }, endpoint.url, repos), { mode: 0o600 });
  const processes = agentProcesses({
    sandbox,
    folders,
    dataFolder,
    runFolder,
    agentKey: claim.agentKey,
    runId: claim.runId,
    gitConfigFile,
    allowHosts: environment.allowHosts,
    variables: {
      ...(options.trace && { TRACEPARENT: options.trace.traceparent }),
      ...environment.variables,
    },
    reads: [...new Set(repos.map(({ mirror }) => mirror.objectsFolder))],
    limits: limits.group,
    scratchMb: limits.scratchMb,
    ...(options.onFirstStart && { onFirstStart: options.onFirstStart }),
    gateway: address,
  });
  steps.push(() => processes.killAll());
  const urlOf = (repository: PreparedRepository) => gitUrl(endpoint.url, repos.indexOf(repository));
  return { gateway, endpoint, processes, urlOf, runFolder, end };
}

/** Undoes all steps when it is called first; later calls wait for that. */
export function undoOnce(steps: readonly (() => Promise<unknown>)[]): () => Promise<void> {
  let undoing: Promise<void> | undefined;
  return () => {
    undoing ??= undoAll(steps);
    return undoing;
  };
}

/** In reverse order, whatever fails. */
export async function undoAll(steps: readonly (() => Promise<unknown>)[]): Promise<void> {
  for (const step of steps.toReversed()) await step().catch(() => {});
}

/** The maximum length of a unix socket's path that works on every system. */
const socketPathBytes = 100;

/** The runner's files for one run. In the temporary folder if the socket's path would be too long. */
async function makeRunFolder(
  dataFolder: string,
  { agentKey, runId }: Claim,
): Promise<{ runFolder: string; socketPath: string }> {
  const name = `${agentKey.slice(-8)}-${runId}-`;
  const runs = join(dataFolder, 'runs');
  const fits = Buffer.byteLength(join(runs, `${name}XXXXXX`, 'gateway')) <= socketPathBytes;
  if (fits) await mkdir(runs, { recursive: true, mode: 0o700 });
  const runFolder = await mkdtemp(fits ? join(runs, name) : join(tmpdir(), 'muster-run-'));
  return { runFolder, socketPath: join(runFolder, 'gateway') };
}
