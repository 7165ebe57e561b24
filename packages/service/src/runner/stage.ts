import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { MusterClient } from '@muster/sdk';
import type { Claim } from '@muster/sdk/contract';
import type { Harness, HarnessListener, Work } from '../harness/harness.ts';
import { messageOf } from '../lib/message-of.ts';
import { type AgentFolders, agentFolders } from './agent-folders.ts';
import { batchDigest } from './batch-text.ts';
import { HeldRun } from './checkpoint/held-run.ts';
import { CheckpointRestorer } from './checkpoint/restorer.ts';
import { type CheckpointListener, CheckpointSaver } from './checkpoint/saver.ts';
import { sessionPatterns } from './checkpoint/session-files.ts';
import { isPrivateRule } from './gateway/egress.ts';
import type { Gateway, OpenEndpoint } from './gateway/gateway.ts';
import { gitEndpoint } from './gateway/git.ts';
import type { RunnerLog } from './log.ts';
import { RunFailure } from './run-end.ts';
import { limitsFor } from './sandbox/cgroup.ts';
import type { Sandbox } from './sandbox/probe.ts';
import { type AgentProcesses, agentProcesses, baseEnvironment, endpointUrl } from './sandbox/processes.ts';
import { LimitWatch, runLimits, type VmProfile } from './sandbox/run-limits.ts';
import { gitFault, isDiskFull } from './stage-fault.ts';
import { type TenantAllow, TenantRights } from './tenant-allow.ts';
import { environmentOf } from './workspace/environment.ts';
import { gitConfig } from './workspace/git-config.ts';
import type { Mirrors } from './workspace/mirror.ts';
import { type PreparedRepository, type PreparedWorkspace, prepareWorkspace } from './workspace/prepare.ts';
import { runSetup } from './workspace/setup.ts';
import { unpushedCommits } from './workspace/unpushed.ts';

export interface StageContext {
  readonly client: MusterClient;
  readonly runnerId: string;
  readonly dataFolder: string;
  readonly sandbox: Sandbox | null;
  readonly gateway: Gateway;
  readonly mirrors: Mirrors;
  /** What tenants other than the first may use of this machine. */
  readonly tenantAllow: TenantAllow;
  /** The runner's own environment: where `fromRunner` variables come from. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** The least time between two checkpoints of a run. */
  readonly checkpointMs: number;
  readonly log: RunnerLog;
}

export interface StageListener extends HarnessListener, CheckpointListener {}

export interface StageSignals {
  /** Aborts when the run may no longer act. */
  readonly run: AbortSignal;
  /** Aborts then, and when nobody waits for the stage any more: whatever is being put up is given up. */
  readonly setting: AbortSignal;
}

/** What a run stands on. */
export interface Stage
  extends Pick<Work, 'claim' | 'workspaceFolder' | 'homeFolder' | 'resumes' | 'endpoint' | 'processes'> {
  readonly repos: readonly PreparedRepository[];
  /** What the gateway hears from the provider. */
  readonly provider: OpenEndpoint;
  /** The session holds the batch: the provider cut the run before short. */
  readonly holdsBatch: boolean;
  /** Commits of the agent that no remote has. */
  unpushedCommits(): Promise<number>;
  /** What the agent is to be told before its messages: what of its work could not be saved or restored. */
  notes(): readonly string[];
  /** For a session that does not open: puts the one saved before it in its place. False: there is none. */
  restoreOlderSession(): Promise<boolean>;
  readonly checkpoints: CheckpointSaver;
  /** What the next run here has to know. */
  noteEnd(session: string, end: { readonly holdsBatch: boolean; readonly notSaved: string }): Promise<void>;
  /** Resolves when nothing of the run is left: no process, no gateway endpoint, no token. */
  clear(): Promise<void>;
}

/**
 * Puts up, in this order: the agent's folders, its clones, the run's gateway endpoint, its limits and its sandbox, what
 * was saved of it elsewhere, its set-up. Whatever is up when a step fails is taken down again.
 */
export async function setStage(
  claimed: Claim,
  harness: Harness,
  context: StageContext,
  listener: StageListener,
  { run, setting }: StageSignals,
): Promise<Stage> {
  const undo: (() => Promise<unknown>)[] = [];
  const undone = async (): Promise<void> => {
    for (const step of undo.toReversed()) await step().catch(() => {});
  };
  let clearing: Promise<void> | undefined;
  const clear = (): Promise<void> => {
    clearing ??= undone();
    return clearing;
  };
  try {
    const { client, runnerId, sandbox } = context;
    const folders = await agentFolders(context.dataFolder, claimed);
    const claim = withRepos(claimed, folders.repos);
    const rights = new TenantRights(context.tenantAllow, claim.agentId.tenant, claim.firstTenant);
    const workspace = await prepared(claim, folders, { ...context, rights }, listener, setting);
    const { runFolder, socketPath } = await makeRunFolder(context.dataFolder, claim);
    undo.push(() => rm(runFolder, { recursive: true, force: true }));
    const { allowHosts, setup, variables } = environmentIn(claim, context, rights, listener);
    const git = gitEndpoint({
      ...claim,
      repos: workspace.repos,
      allowCiChanges: claim.workspace.document.allowCiChanges === true,
      listener,
      signal: run,
      log: context.log,
    });
    undo.push(() => git.close());
    const provider = await context.gateway.open({
      token: claim.token,
      listenAt: sandbox ? { socketPath } : { port: 0 },
      allowHosts: sandbox ? allowHosts : undefined,
      provider: harness.providerOf?.(claim),
      git: git.handle,
      listener,
    });
    undo.push(() => provider.close());
    const gateway = sandbox ? { socketPath } : { port: provider.port ?? 0 };
    const endpoint = { url: endpointUrl(gateway), token: claim.token };
    const gitConfigFile = join(runFolder, 'gitconfig');
    const { token, agentId } = claim;
    const config = gitConfig({
      endpointUrl: endpoint.url,
      token,
      repos: workspace.repos,
      agent: agentId.agent,
    });
    await writeFile(gitConfigFile, config, { mode: 0o600 });
    const warn = (text: string) => listener.item({ type: 'WARNING', text });
    const profile = claim.workspace.vmProfile as VmProfile;
    const values = runLimits(profile);
    // A builtin limit that this machine can't enforce is told once, one that somebody asked for in every run.
    const notEnforced = (limit: keyof VmProfile, text: string) => {
      if (folders.isFresh || profile[limit] !== undefined) warn(text);
    };
    const limits = limitsFor(values, `${claim.agentKey}-${claim.runId}`, notEnforced);
    undo.push(() => limits.remove());
    const watch = new LimitWatch({
      profile,
      values,
      groups: limits,
      fullScratch: () => processes.fullScratch(),
      warn,
    });
    undo.push(() => watch.stop());
    const processes: AgentProcesses = agentProcesses({
      sandbox,
      folders,
      dataFolder: context.dataFolder,
      runFolder,
      environment: baseEnvironment({
        isSandboxed: sandbox !== null,
        homeFolder: folders.homeFolder,
        agentKey: claim.agentKey,
        runId: claim.runId,
        gitConfigFile,
        proxy: { url: endpoint.url, allowHosts },
        variables,
      }),
      reads: workspace.reads,
      limits,
      scratchMb: values.scratchMb,
      onFirstStart: () => {
        if (!sandbox) warn(noSandbox);
        else if (!sandbox.limitsScratch && values.scratchMb > 0)
          notEnforced('scratchMb', `The limit scratchMb: ${values.scratchMb} ${oldBubblewrap}`);
        watch.start();
      },
      gateway,
    });
    undo.push(() => processes.killAll());
    const { homeFolder, workspaceFolder } = folders;
    const heldRun = new HeldRun(client, runnerId, claim);
    const restorer = new CheckpointRestorer({
      run: heldRun,
      claim,
      patterns: sessionPatterns(harness, claim.session),
      homeFolder,
      repos: workspace.repos,
      processes,
      isFresh: folders.isFresh,
      warn,
    });
    const resumes = await restored(() => restorer.restore(setting));
    if (folders.isFresh) await setUp(setup, () => runSetup(setup, processes, listener, setting));
    setting.throwIfAborted();
    await folders.settle();
    return {
      claim,
      workspaceFolder,
      homeFolder,
      resumes,
      endpoint,
      processes,
      repos: workspace.repos,
      provider,
      holdsBatch: resumes && claim.attempt > 1 && folders.heldBatch === batchDigest(claim, claim.session),
      unpushedCommits: () => unpushedCommits(processes, workspace.repos),
      notes: () => [folders.notSaved, ...restorer.notes].filter((text) => text !== ''),
      restoreOlderSession: () => restored(() => restorer.restoreOlderSession(setting)),
      checkpoints: new CheckpointSaver({
        run: heldRun,
        harness,
        workspaceFolder,
        repos: workspace.repos,
        processes,
        listener,
        intervalMs: context.checkpointMs,
        signal: run,
      }),
      noteEnd: (session, { holdsBatch, notSaved }) =>
        folders.settle({ heldBatch: holdsBatch ? batchDigest(claim, session) : '', notSaved }),
      clear,
    };
  } catch (error) {
    await clear();
    if (error instanceof RunFailure || !isDiskFull(error)) throw error;
    throw new RunFailure('DISK_FULL', `The run could not be prepared: ${messageOf(error)}`);
  }
}

const noSandbox =
  "No sandbox: the processes of this run have all rights of the runner's user. Install bubblewrap on the runner's " +
  'machine, and do not set MUSTER_SANDBOX to auto or off.';

const oldBubblewrap = 'is not enforced on this runner: its bubblewrap is too old for it (0.7 is new enough)';

/** The claim as this agent's clones have it: a workspace that is changed later changes for agents that come later. */
const withRepos = (claim: Claim, repos: unknown): Claim => ({
  ...claim,
  workspace: { ...claim.workspace, document: { ...claim.workspace.document, repos } },
});

async function prepared(
  claim: Claim,
  { workspaceFolder, isFresh }: AgentFolders,
  { mirrors, rights }: StageContext & { readonly rights: TenantRights },
  listener: StageListener,
  signal: AbortSignal,
): Promise<PreparedWorkspace> {
  try {
    if (isFresh) listener.action('Preparing the workspace');
    return await prepareWorkspace({
      claim,
      folder: workspaceFolder,
      mirrors,
      rights,
      fresh: isFresh,
      signal,
    });
  } catch (error) {
    throw new RunFailure(gitFault(error), `The workspace could not be prepared: ${messageOf(error)}`);
  }
}

interface Environment {
  readonly variables: Record<string, string>;
  readonly setup: readonly string[];
  readonly allowHosts: readonly string[];
}

function environmentIn(
  { workspace }: Claim,
  context: StageContext,
  rights: TenantRights,
  listener: StageListener,
): Environment {
  const { setup = [], allowHosts = [] } = workspace.environment as Partial<Environment>;
  try {
    const variables = environmentOf(workspace.environment, context.environment, rights);
    const withheld = rights.isFirst ? [] : allowHosts.filter(isPrivateRule);
    for (const host of withheld) {
      const text = `\`allowHosts\` of the environment: ${host} is in an inner network, which this tenant may not reach.`;
      listener.item({ type: 'WARNING', text });
    }
    return { variables, setup, allowHosts: allowHosts.filter((host) => !withheld.includes(host)) };
  } catch (error) {
    throw new RunFailure('ENVIRONMENT_INVALID', `The environment can't be used: ${messageOf(error)}`);
  }
}

async function restored(restore: () => Promise<boolean>): Promise<boolean> {
  try {
    return await restore();
  } catch (error) {
    const code = isDiskFull(error) ? 'DISK_FULL' : 'SESSION_NOT_OPENED';
    throw new RunFailure(
      code,
      `What was saved of the earlier runs could not be restored: ${messageOf(error)}`,
    );
  }
}

async function setUp(commands: readonly string[], run: () => Promise<void>): Promise<void> {
  try {
    if (commands.length > 0) await run();
  } catch (error) {
    throw new RunFailure(
      'SETUP_FAILED',
      `The set-up failed: ${messageOf(error)}. Its output is in the timeline.`,
    );
  }
}

/** The most that a unix socket's path may have, on every system. */
const socketPathBytes = 100;

/** What the runner keeps for one run; a socket's path must be short, so a long data folder is left for the temporary one. */
async function makeRunFolder(
  dataFolder: string,
  { agentKey, runId }: Claim,
): Promise<{ runFolder: string; socketPath: string }> {
  const name = `${agentKey.slice(-8)}-${runId}-`;
  const runs = join(dataFolder, 'runs');
  const fits = Buffer.byteLength(join(runs, `${name}XXXXXX`, 'door')) <= socketPathBytes;
  if (fits) await mkdir(runs, { recursive: true, mode: 0o700 });
  const runFolder = await mkdtemp(fits ? join(runs, name) : join(tmpdir(), 'muster-run-'));
  return { runFolder, socketPath: join(runFolder, 'door') };
}
