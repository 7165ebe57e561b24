import type { MusterClient } from '@muster/sdk';
import type { Claim, EnvironmentDocument, ReportRequest } from '@muster/sdk/contract';
import type { Credit, Harness, HarnessListener, ProviderAccess, Work } from '../../harness/harness.ts';
import { messageOf } from '../../lib/errors.ts';
import { isPrivateRule } from '../../lib/host-rules.ts';
import type { RunnerLog } from '../../lib/log.ts';
import type { Repository } from '../../lib/repositories.ts';
import type { ValueMask } from '../../lib/value-mask.ts';
import { type AgentFolders, agentFolders, type KeptFacts } from '../agent-folders.ts';
import { CheckpointClient, type CheckpointListener } from '../checkpoint/checkpoint-client.ts';
import { CheckpointRestorer } from '../checkpoint/restorer.ts';
import { CheckpointSaver, saveLater } from '../checkpoint/saver.ts';
import type { Gateway, OpenEndpoint } from '../gateway/gateway.ts';
import { reportLostPush } from '../gateway/receive-pack.ts';
import { askCredit, RunCredit } from '../gateway/run-credit.ts';
import type { Observed } from '../observed.ts';
import type { Sandbox } from '../sandbox/bubblewrap.ts';
import { LimitMonitor } from '../sandbox/limit-monitor.ts';
import { groupFor, resourceLimits, type VmProfile } from '../sandbox/resource-limits.ts';
import { type TenantAllow, TenantRights } from '../tenant-allow.ts';
import { runSetup, unpushedCommits } from '../workspace/agent-commands.ts';
import { environmentOf } from '../workspace/environment.ts';
import { askCredential } from '../workspace/git-credentials.ts';
import { pullLfsFiles } from '../workspace/lfs-files.ts';
import { mcpServersOf } from '../workspace/mcp-servers.ts';
import type { Mirrors } from '../workspace/mirror.ts';
import {
  cloneRepositories,
  gitHost,
  type PreparedRepository,
  prepareRepositories,
} from '../workspace/prepare.ts';
import type { PreparedCopies } from '../workspace/prepared-copies.ts';
import {
  findSubmodules,
  knownSubmodules,
  notedSubmodules,
  type OpenedSubmodule,
  type Submodule,
  type SubmoduleOptions,
  updateSubmodules,
} from '../workspace/submodules.ts';
import { type AgentSandbox, openAgentSandbox, undoOnce } from './agent-sandbox.ts';
import { failingAs, gitFailure, isDiskFull, restoreFault, setupFault } from './prepare-failures.ts';
import { batchDigest } from './prompts.ts';
import { RunFailure } from './run-end.ts';
import type { RunTrace } from './run-trace.ts';
import { type WarmStart, type WarmStartOptions, warmStart } from './warm-start.ts';

export interface PrepareContext {
  readonly client: MusterClient;
  readonly runnerId: string;
  readonly dataFolder: string;
  readonly sandbox: Sandbox | null;
  readonly gateway: Gateway;
  readonly mirrors: Mirrors;
  readonly preparedCopies: PreparedCopies;
  readonly tenantAllow: TenantAllow;
  /** The runner's own environment, the source of `fromRunner` variables. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly observed: Pick<Observed, 'add'>;
  /** The minimum time between two checkpoints of a run. */
  readonly checkpointMs: number;
  readonly log: RunnerLog;
  /** The trace of the run, where traces are sent. */
  readonly trace?: RunTrace | undefined;
}

export interface RunListener extends HarnessListener, CheckpointListener {
  /** Called before a call of one of the agent's tools is sent to the service. */
  beforeTool(tool: string): Promise<void>;
}

/** What a run needs before its session can open. */
export interface PreparedRun {
  readonly work: Omit<Work, 'tools' | 'signal' | 'instructions'>;
  readonly repos: readonly PreparedRepository[];
  readonly gateway: OpenEndpoint;
  /** The git hosts that it was fetched from, as in `reached` of a report. */
  readonly reached: readonly string[];
  /** The session already contains the messages: the provider interrupted the run before. */
  readonly hasBatch: boolean;
  /** The number of commits that no remote has. */
  unpushedCommits(): Promise<number>;
  /** For the agent's prompt: which of its work could not be saved or restored. */
  notes(): readonly string[];
  /** If the session does not open: replaces it by the one saved before it. False: there is none. */
  restoreOlderSession(): Promise<boolean>;
  readonly checkpoints: CheckpointSaver;
  /** Stores what the next run on this runner has to know. */
  noteEnd(session: string, end: { readonly hasBatch: boolean; readonly notSaved: string }): Promise<void>;
  /** Resolves when nothing of the run can act: no process, no endpoint, no token. */
  end(): Promise<void>;
  /** Saves a checkpoint of a run that has ended so, if the service still accepts one. */
  saveLater(session: string, signal: AbortSignal): Promise<ReportRequest['unpushed']>;
  /** Resolves when nothing of the run is left. */
  clear(): Promise<void>;
}

/**
 * Prepares, in this order: the agent's folders, its limits, its clones or a copy of prepared ones, the gateway endpoint
 * and its sandbox, its checkpoint, its setup. If a step fails, what was prepared before it is removed again.
 *
 * `signals.run` aborts when the run may no longer act; `signals.preparing` also when the run is stopped before it
 * starts. `mask` hides the values of the run's secrets before the first process starts.
 */
export async function prepareRun(
  claimed: Claim,
  harness: Harness,
  context: PrepareContext,
  listener: RunListener,
  signals: { readonly run: AbortSignal; readonly preparing: AbortSignal },
  mask: ValueMask,
): Promise<PreparedRun> {
  const undo: (() => Promise<unknown>)[] = [];
  const clear = undoOnce(undo);
  try {
    const provider = await failingAs(
      () => 'MODEL_UNKNOWN',
      'The model is not available',
      async () => harness.providerOf?.(claimed),
    );
    const folders = await agentFolders(context.dataFolder, claimed);
    const claim = withRepos(claimed, folders.repos);
    const rights = new TenantRights(context.tenantAllow, claim.agentId.tenant, claim.firstTenant);
    const warn = (text: string) => listener.item({ type: 'WARNING', text });
    const { trace } = context;
    const step: Preparation['step'] = (name, work) =>
      trace && folders.isFresh ? trace.step(name, work) : work();
    const credit = new RunCredit(askCredit(context, claim));
    const fixed = { claim, context, listener, signals, mask, folders, rights };
    const run: Preparation = { ...fixed, credit, warn, undo, step };
    return { ...(await prepare(run, harness, provider)), clear };
  } catch (error) {
    await clear();
    if (error instanceof RunFailure || !isDiskFull(error)) throw error;
    throw new RunFailure('DISK_FULL', `The run could not be prepared: ${messageOf(error)}`);
  }
}

/** Each step in order. */
async function prepare(
  run: Preparation,
  harness: Harness,
  provider: ProviderAccess | undefined,
): Promise<Omit<PreparedRun, 'clear'>> {
  const { claim, context, listener, signals, mask, folders, credit, step } = run;
  const { workspaceFolder, homeFolder, isFresh, heldBatch } = folders;
  const sources = await step('fetch repositories', () => openSources(run));
  const values = readValues(run, provider !== undefined);
  const limited = limitRun(run, () => own.processes.fullScratch());
  const shared = {
    ...{ context, claim, listener, mask, credit, repos: sources.repos, submodules: sources.submodules },
    environment: values.environment,
    limits: limited,
    signal: signals.run,
  };
  const { warm, kept } = await step('clone', () => fillWorkspace(run, sources, values.setup, shared));
  const own: AgentSandbox = await openAgentSandbox(
    {
      ...shared,
      token: claim.token,
      beforeTool: (tool) => listener.beforeTool(tool),
      ...{ provider, usualAccount: claim.account, isRetried: claim.retried, trace: context.trace },
      mcpServers: values.mcpServers,
      folders: { workspaceFolder, homeFolder, ...kept },
      onFirstStart: limited.onFirstStart,
    },
    run.undo,
  );
  const { gateway, endpoint, processes } = own;
  if (warm) await settingUp(() => warm.adopt(own, signals.preparing));
  const checkpoints = {
    ...{ claim, harness, listener, processes, repos: sources.repos, signal: signals.run },
    ...{ workspaceFolder, homeFolder, isFresh, trace: context.trace },
    client: new CheckpointClient(context.client, context.runnerId, claim),
    ...{ intervalMs: context.checkpointMs, observed: context.observed },
  };
  const restorer = new CheckpointRestorer(checkpoints);
  const resumes = await step('restore', () => restoring(() => restorer.restore(signals.preparing)));
  await step('set up', () => setUpWorkspace(run, sources, values, own, warm !== undefined));
  await folders.settle(kept);
  const { servers, environment } = values.mcpServers;
  const mcpServers = { servers, environment, commonVariables: processes.variables };
  return {
    work: { claim, workspaceFolder, homeFolder, resumes, endpoint, processes, mcpServers, mask, credit },
    repos: sources.repos,
    gateway,
    reached: isFresh ? hostsOf(sources.repos) : [],
    hasBatch: resumes && claim.attempt > 1 && heldBatch === batchDigest(claim, claim.session),
    unpushedCommits: () => unpushedCommits(processes, sources.repos),
    notes: () => [folders.notSaved, ...restorer.notes].filter((text) => text !== ''),
    restoreOlderSession: () => restoring(() => restorer.restoreOlderSession(signals.preparing)),
    checkpoints: new CheckpointSaver(checkpoints),
    noteEnd: (session, { hasBatch, notSaved }) =>
      folders.settle(kept, { heldBatch: hasBatch ? batchDigest(claim, session) : '', notSaved }),
    end: own.end,
    saveLater: (session, signal) =>
      saveLater({ ...checkpoints, processes: processes.later, signal }, session),
  };
}

/** What every step knows. `undo` gets what removes again what a step has made. */
interface Preparation {
  readonly claim: Claim;
  readonly context: PrepareContext;
  readonly listener: RunListener;
  readonly signals: { readonly run: AbortSignal; readonly preparing: AbortSignal };
  readonly mask: ValueMask;
  readonly folders: AgentFolders;
  readonly rights: TenantRights;
  /** What the run may spend. */
  readonly credit: Credit;
  readonly warn: (text: string) => void;
  readonly undo: (() => Promise<unknown>)[];
  /** Measures a step of the preparation of new folders, where traces are sent. */
  readonly step: <T>(name: string, work: () => Promise<T>) => Promise<T>;
}

const preparingWorkspace = <T>(work: () => Promise<T>): Promise<T> =>
  work().catch(async (error: unknown) => {
    throw await gitFailure(error);
  });

const settingUp = <T>(work: () => Promise<T>): Promise<T> => failingAs(setupFault, setupFailed, work);

const restoring = (restore: () => Promise<boolean>): Promise<boolean> =>
  failingAs(restoreFault, "The agent's saved work could not be restored", restore);

interface Sources {
  readonly repos: readonly PreparedRepository[];
  /** Those that the agent's git may fetch. */
  readonly submodules: readonly OpenedSubmodule[];
  /** Those that are to be checked out in new clones. */
  readonly found: readonly Submodule[];
  readonly submoduleOptions: SubmoduleOptions;
}

/** Fetches the mirrors of the repositories and of their submodules. */
async function openSources(run: Preparation): Promise<Sources> {
  const { claim, context, listener, signals, folders, rights, warn } = run;
  const { mirrors, client, runnerId } = context;
  const { workspaceFolder, isFresh } = folders;
  const askFor = (repository: Repository, of?: Repository) =>
    askCredential(client, runnerId, claim, repository, signals.run, of);
  if (isFresh) listener.action('Preparing the workspace');
  const shared = { mirrors, rights, askFor, signal: signals.preparing };
  const repos = await preparingWorkspace(() =>
    prepareRepositories({ ...shared, claim, folder: workspaceFolder, fresh: isFresh }),
  );
  if (claim.attempt > 1) await reportLostPushes(claim, repos, listener, context.log);
  const submoduleOptions = { ...shared, tenant: claim.agentId.tenant, workspaceFolder, warn };
  const found = isFresh ? await preparingWorkspace(() => findSubmodules(repos, submoduleOptions)) : [];
  const submodules = isFresh ? found : await knownSubmodules(folders.kept, repos, submoduleOptions);
  return { repos, submodules, found, submoduleOptions };
}

/** The environment and the MCP servers. Their secret values are hidden from here on. */
function readValues({ claim, context, rights, mask, warn }: Preparation, hasTools: boolean) {
  const { setup, setupEach, secretValues, ...environment } = readEnvironment(claim, context, rights, warn);
  const mcpServers = readMcpServers(hasTools ? claim : null, context, rights);
  // An older service sends no earlier values.
  const earlier = (claim.secrets ?? []).flatMap((secret) => secret.earlier ?? []);
  mask.hide([...secretValues, ...mcpServers.secretValues, ...earlier]);
  return { setup, setupEach, environment, mcpServers };
}

/** Makes the control group of the run, and watches its limits from the first start of a process on. */
function limitRun(
  { claim, context, folders, warn, undo }: Preparation,
  fullScratch: () => Promise<readonly string[]>,
) {
  const { sandbox } = context;
  const profile = claim.workspace.vmProfile as VmProfile;
  const limits = resourceLimits(profile);
  // A built-in limit that this machine can't enforce is reported once, a configured one in every run.
  const notEnforced = (limit: keyof VmProfile, text: string) => {
    if (folders.isFresh || profile[limit] !== undefined) warn(text);
  };
  const group = groupFor(limits, `${claim.agentKey}-${claim.runId}`, notEnforced);
  undo.push(() => group.remove());
  const monitor = new LimitMonitor({ profile, limits, group, fullScratch, warn });
  undo.push(() => monitor.stop());
  return {
    group,
    scratchMb: limits.scratchMb,
    onFirstStart: () => {
      if (!sandbox) warn(noSandbox);
      else if (!sandbox.limitsScratch && limits.scratchMb > 0)
        notEnforced('scratchMb', `The limit scratchMb: ${limits.scratchMb} ${oldBubblewrap}`);
      monitor.start();
    },
  };
}

/** Copies a prepared workspace into new folders, or clones the repositories there. Other folders stay as they are. */
async function fillWorkspace(
  { claim, context, folders, signals }: Preparation,
  { repos, found }: Sources,
  setup: readonly string[],
  shared: Omit<WarmStartOptions, 'copies' | 'setup' | 'folders' | 'submodules'>,
): Promise<{ readonly warm: WarmStart | undefined; readonly kept: KeptFacts }> {
  if (!folders.isFresh) return { warm: undefined, kept: folders.kept };
  const prepared = await preparingWorkspace(() =>
    warmStart({ ...shared, submodules: found, folders, copies: context.preparedCopies, setup }),
  );
  const isCopied = prepared && (await settingUp(() => prepared.copy(signals.preparing)));
  const warm = isCopied ? prepared : undefined;
  if (!warm)
    await preparingWorkspace(() =>
      cloneRepositories(folders.workspaceFolder, repos, { ...claim, signal: signals.preparing }),
    );
  return { warm, kept: { preparedAt: warm?.preparedAt, submodules: notedSubmodules(found, repos) } };
}

/** What processes of the agent do in new folders: submodules, large files, the commands of the environment. */
async function setUpWorkspace(
  { claim, listener, signals, folders, mask, warn }: Preparation,
  { repos, found, submoduleOptions }: Sources,
  { setup, setupEach }: Pick<ReturnType<typeof readValues>, 'setup' | 'setupEach'>,
  { processes, urlOf }: AgentSandbox,
  isWarm: boolean,
): Promise<void> {
  const { preparing } = signals;
  if (folders.isFresh) {
    await preparingWorkspace(async () => {
      await updateSubmodules(found, processes, urlOf, submoduleOptions);
      await pullLfsFiles({ ...claim, repos, submodules: found, processes, warn, signal: preparing });
    });
    const commands = [...(isWarm ? [] : setup), ...setupEach];
    await settingUp(() => runSetup(commands, processes, listener, preparing, mask));
  }
  preparing.throwIfAborted();
}

/** A host that does not answer now does not keep the run from starting. */
async function reportLostPushes(
  { branch, startFrom, pushed }: Claim,
  repos: readonly PreparedRepository[],
  listener: RunListener,
  log: RunnerLog,
): Promise<void> {
  for (const repository of repos) {
    const options = { repository, branch, startFrom, listener };
    await reportLostPush(options, pushed?.[repository.shownUrl]).catch((error: unknown) =>
      log.warn({ err: error }, 'not known whether a push was lost'),
    );
  }
}

const setupFailed = 'The setup of the environment failed (its output is in the timeline)';

const noSandbox =
  "No sandbox: the processes of this run have all rights of the runner's user. Install bubblewrap on the runner's " +
  'machine, and do not set MUSTER_SANDBOX to auto or off.';

const oldBubblewrap = 'is not enforced on this runner: its bubblewrap is too old (0.7 or newer is needed)';

/** Changes of a workspace's repositories apply to new agents: this one keeps the repositories that it has cloned. */
const withRepos = (claim: Claim, repos: unknown): Claim => ({
  ...claim,
  workspace: { ...claim.workspace, document: { ...claim.workspace.document, repos } },
});

const hostsOf = (repos: readonly PreparedRepository[]): string[] =>
  [...new Set(repos.map(({ shownUrl }) => gitHost(shownUrl)))].flatMap((host) =>
    host ? [`git:${host}`] : [],
  );

function readEnvironment(
  { workspace, secrets }: Claim,
  context: PrepareContext,
  rights: TenantRights,
  warn: (text: string) => void,
) {
  const { setup = [], setupEach = [], allowHosts = [] } = workspace.environment as EnvironmentDocument;
  try {
    const refused = rights.isFirst ? [] : allowHosts.filter(isPrivateRule);
    const sources = { runner: context.environment, rights, secrets };
    const resolved = environmentOf(workspace.environment, sources);
    for (const host of refused)
      warn(
        `allowHosts of the environment: ${host} is in an internal network, which this tenant may not reach.`,
      );
    return {
      ...resolved,
      setup,
      setupEach,
      allowHosts: allowHosts.filter((host) => !refused.includes(host)),
    };
  } catch (error) {
    throw new RunFailure('ENVIRONMENT_INVALID', `The environment is invalid: ${messageOf(error)}`);
  }
}

function readMcpServers(claim: Claim | null, context: PrepareContext, rights: TenantRights) {
  const sources = { runner: context.environment, rights, secrets: claim?.secrets };
  try {
    return mcpServersOf(claim?.workspace.document.mcpServers, sources);
  } catch (error) {
    throw new RunFailure('ENVIRONMENT_INVALID', `The workspace is invalid: ${messageOf(error)}`);
  }
}
