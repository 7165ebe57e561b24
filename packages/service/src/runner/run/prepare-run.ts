import type { MusterClient } from '@muster/sdk';
import type { Claim, EnvironmentDocument, FaultCode } from '@muster/sdk/contract';
import type { Harness, HarnessListener, Work } from '../../harness/harness.ts';
import { messageOf } from '../../lib/errors.ts';
import { isPrivateRule } from '../../lib/host-rules.ts';
import type { RunnerLog } from '../../lib/log.ts';
import type { ValueMask } from '../../lib/value-mask.ts';
import { agentFolders, type KeptFacts } from '../agent-folders.ts';
import { CheckpointClient, type CheckpointListener } from '../checkpoint/checkpoint-client.ts';
import { CheckpointRestorer } from '../checkpoint/restorer.ts';
import { CheckpointSaver } from '../checkpoint/saver.ts';
import type { Gateway, OpenEndpoint } from '../gateway/gateway.ts';
import { reportLostPush } from '../gateway/receive-pack.ts';
import type { Sandbox } from '../sandbox/bubblewrap.ts';
import { groupFor, LimitMonitor, resourceLimits, type VmProfile } from '../sandbox/resource-limits.ts';
import { type TenantAllow, TenantRights } from '../tenant-allow.ts';
import { runSetup, unpushedCommits } from '../workspace/agent-commands.ts';
import { environmentOf } from '../workspace/environment.ts';
import { askCredential, notAsked } from '../workspace/git-credentials.ts';
import { pullLfsFiles } from '../workspace/lfs-files.ts';
import { mcpServersOf } from '../workspace/mcp-servers.ts';
import type { Mirrors } from '../workspace/mirror.ts';
import { cloneRepositories, type PreparedRepository, prepareRepositories } from '../workspace/prepare.ts';
import type { PreparedCopies } from '../workspace/prepared-copies.ts';
import {
  findSubmodules,
  knownSubmodules,
  notedSubmodules,
  type SubmoduleOptions,
  updateSubmodules,
} from '../workspace/submodules.ts';
import { openAgentSandbox, undoAll } from './agent-sandbox.ts';
import { batchDigest } from './prompts.ts';
import { RunFailure } from './run-end.ts';
import { warmStart } from './warm-start.ts';

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
  /** The minimum time between two checkpoints of a run. */
  readonly checkpointMs: number;
  readonly log: RunnerLog;
}

export interface RunListener extends HarnessListener, CheckpointListener {}

/** What a run needs before its session can open. */
export interface PreparedRun {
  readonly work: Omit<Work, 'tools' | 'signal' | 'instructions'>;
  readonly repos: readonly PreparedRepository[];
  readonly gateway: OpenEndpoint;
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
  /** Resolves when nothing of the run is left: no process, no endpoint, no token. */
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
  let clearing: Promise<void> | undefined;
  const clear = (): Promise<void> => {
    clearing ??= undoAll(undo);
    return clearing;
  };
  const warn = (text: string) => listener.item({ type: 'WARNING', text });
  const { client, runnerId, sandbox, dataFolder } = context;
  const { preparing } = signals;
  try {
    const provider = await failingAs(
      () => 'MODEL_UNKNOWN',
      'The model is not available',
      async () => harness.providerOf?.(claimed),
    );
    const folders = await agentFolders(dataFolder, claimed);
    const { homeFolder, workspaceFolder, isFresh } = folders;
    const claim = withRepos(claimed, folders.repos);
    const rights = new TenantRights(context.tenantAllow, claim.agentId.tenant, claim.firstTenant);
    if (isFresh) listener.action('Preparing the workspace');
    const preparingWorkspace = <T>(work: () => Promise<T>) =>
      failingAs(gitFault, 'The workspace could not be prepared', work);
    const repos = await preparingWorkspace(() =>
      prepareRepositories({
        claim,
        folder: workspaceFolder,
        mirrors: context.mirrors,
        rights,
        askFor: (repository) => askCredential(client, runnerId, claim, repository, signals.run),
        fresh: isFresh,
        signal: preparing,
      }),
    );
    if (claim.attempt > 1) await reportLostPushes(claim, repos, listener, context.log);
    const submoduleOptions: SubmoduleOptions = {
      tenant: claim.agentId.tenant,
      mirrors: context.mirrors,
      rights,
      askFor: (submodule, of) => askCredential(client, runnerId, claim, submodule, signals.run, of),
      workspaceFolder,
      warn,
      signal: preparing,
    };
    const found = isFresh ? await preparingWorkspace(() => findSubmodules(repos, submoduleOptions)) : [];
    const submodules = isFresh ? found : await knownSubmodules(folders.kept, repos, submoduleOptions);
    const { setup, setupEach, secretValues, ...environment } = readEnvironment(claim, context, rights, warn);
    // A rehearsal has no tools.
    const mcpServers = readMcpServers(provider ? claim : null, context, rights);
    mask.hide([...secretValues, ...mcpServers.secretValues]);
    const profile = claim.workspace.vmProfile as VmProfile;
    const limits = resourceLimits(profile);
    // A built-in limit that this machine can't enforce is reported once, a configured one in every run.
    const notEnforced = (limit: keyof VmProfile, text: string) => {
      if (isFresh || profile[limit] !== undefined) warn(text);
    };
    const group = groupFor(limits, `${claim.agentKey}-${claim.runId}`, notEnforced);
    undo.push(() => group.remove());
    const fullScratch = () => processes.fullScratch();
    const monitor = new LimitMonitor({ profile, limits, group, fullScratch, warn });
    undo.push(() => monitor.stop());
    const shared = {
      context,
      claim,
      repos,
      submodules,
      environment,
      limits: { group, scratchMb: limits.scratchMb },
      listener,
      mask,
      signal: signals.run,
    };
    const warm = isFresh
      ? await preparingWorkspace(() =>
          warmStart({ ...shared, submodules: found, folders, copies: context.preparedCopies, setup }),
        )
      : undefined;
    const kept: KeptFacts = isFresh
      ? { preparedAt: warm?.preparedAt, submodules: notedSubmodules(found, repos) }
      : folders.kept;
    const setUp = <T>(work: () => Promise<T>) => failingAs(setupFault, setupFailed, work);
    if (warm) await setUp(() => warm.copy(preparing));
    else if (isFresh)
      await preparingWorkspace(() =>
        cloneRepositories(workspaceFolder, repos, { ...claim, signal: preparing }),
      );
    const own = await openAgentSandbox(
      {
        ...shared,
        token: claim.token,
        provider,
        mcpServers,
        folders: { workspaceFolder, homeFolder, ...kept },
        onFirstStart: () => {
          if (!sandbox) warn(noSandbox);
          else if (!sandbox.limitsScratch && limits.scratchMb > 0)
            notEnforced('scratchMb', `The limit scratchMb: ${limits.scratchMb} ${oldBubblewrap}`);
          monitor.start();
        },
      },
      undo,
    );
    const { gateway, endpoint, processes } = own;
    if (warm) await setUp(() => warm.adopt(own, preparing));
    const { servers, environment: serverEnvironment } = mcpServers;
    const forHarness = { servers, environment: serverEnvironment, commonVariables: processes.variables };
    const checkpoints = {
      client: new CheckpointClient(client, runnerId, claim),
      claim,
      harness,
      workspaceFolder,
      homeFolder,
      isFresh,
      repos,
      processes,
      listener,
      intervalMs: context.checkpointMs,
      signal: signals.run,
    };
    const restorer = new CheckpointRestorer(checkpoints);
    const restoring = (restore: () => Promise<boolean>) =>
      failingAs(restoreFault, "The agent's saved work could not be restored", restore);
    const resumes = await restoring(() => restorer.restore(preparing));
    if (isFresh)
      await preparingWorkspace(async () => {
        await updateSubmodules(found, processes, own.urlOf, submoduleOptions);
        await pullLfsFiles({ ...claim, repos, submodules: found, processes, warn, signal: preparing });
      });
    const commands = isFresh ? [...(warm ? [] : setup), ...setupEach] : [];
    await setUp(() => runSetup(commands, processes, listener, preparing, mask));
    preparing.throwIfAborted();
    await folders.settle(kept);
    return {
      work: {
        claim,
        workspaceFolder,
        homeFolder,
        resumes,
        endpoint,
        processes,
        mcpServers: forHarness,
        mask,
      },
      repos,
      gateway,
      hasBatch: resumes && claim.attempt > 1 && folders.heldBatch === batchDigest(claim, claim.session),
      unpushedCommits: () => unpushedCommits(processes, repos),
      notes: () => [folders.notSaved, ...restorer.notes].filter((text) => text !== ''),
      restoreOlderSession: () => restoring(() => restorer.restoreOlderSession(preparing)),
      checkpoints: new CheckpointSaver(checkpoints),
      noteEnd: (session, { hasBatch, notSaved }) =>
        folders.settle(kept, { heldBatch: hasBatch ? batchDigest(claim, session) : '', notSaved }),
      clear,
    };
  } catch (error) {
    await clear();
    if (error instanceof RunFailure || !isDiskFull(error)) throw error;
    throw new RunFailure('DISK_FULL', `The run could not be prepared: ${messageOf(error)}`);
  }
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

async function failingAs<T>(
  codeOf: (error: unknown) => FaultCode,
  what: string,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw new RunFailure(codeOf(error), `${what}: ${messageOf(error)}`);
  }
}

const isDiskFull = (error: unknown): boolean =>
  /no space left on device|disk quota exceeded|ENOSPC|EDQUOT/i.test(messageOf(error));

const setupFault = (error: unknown): FaultCode => (isDiskFull(error) ? 'DISK_FULL' : 'SETUP_FAILED');

const restoreFault = (error: unknown): FaultCode => (isDiskFull(error) ? 'DISK_FULL' : 'SESSION_NOT_OPENED');

/** Errors of git, curl and ssh when the host or the network is down; a refusal by the host has other texts. */
const networkErrors = new RegExp(
  [
    "(could not|can't be) resolve",
    'temporary failure in name resolution',
    '(failed|could not) (to )?connect',
    'connect to host',
    'connection (timed out|refused|reset|closed)',
    'operation timed out',
    'network is unreachable',
    'no route to host',
    'returned error: 5\\d\\d',
    'HTTP 5\\d\\d',
    'early EOF',
    'unexpected disconnect',
    'remote end hung up',
    'empty reply from server',
    'it took too long',
    notAsked,
  ].join('|'),
  'i',
);

export function gitFault(error: unknown): FaultCode {
  if (isDiskFull(error)) return 'DISK_FULL';
  return networkErrors.test(messageOf(error)) ? 'GIT_UNREACHABLE' : 'WORKSPACE_NOT_PREPARED';
}

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
