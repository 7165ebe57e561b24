import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Claim } from '@muster/sdk/contract';
import { packageFile } from '../../lib/package-file.ts';
import { runScript, runSetup } from '../workspace/agent-commands.ts';
import { pullLfsFiles } from '../workspace/lfs-files.ts';
import {
  type BranchStart,
  branchStart,
  cloneRepositories,
  type PreparedRepository,
  packedRefs,
} from '../workspace/prepare.ts';
import type { PreparedCopies } from '../workspace/prepared-copies.ts';
import { type Submodule, updateSubmodules } from '../workspace/submodules.ts';
import { type AgentSandbox, type AgentSandboxOptions, openAgentSandbox, undoAll } from './agent-sandbox.ts';

/** An agent's first start from a prepared copy of its workspace. */
export interface WarmStart {
  /** The path at which set-up saw the copy, and at which the agent's processes see their own folders too. */
  readonly preparedAt: string;
  /** Copies it into the agent's folders, after making it if needed. False: it can't be copied. */
  copy(signal: AbortSignal): Promise<boolean>;
  /** Turns its clones into those of the agent. */
  adopt(own: Pick<AgentSandbox, 'processes' | 'runFolder'>, signal: AbortSignal): Promise<void>;
}

export interface WarmStartOptions extends Omit<AgentSandboxOptions, 'token' | 'provider' | 'onFirstStart'> {
  readonly copies: PreparedCopies;
  readonly submodules: readonly Submodule[];
  readonly setup: readonly string[];
}

/** The branch of the clones in a prepared copy. */
const preparedBranch = 'muster/prepared';
const adoptScript = readFileSync(packageFile('scripts/adopt-copy.sh'), 'utf8');

/**
 * The results of `setup` are shared by the agents of a workspace. So it runs in a sandbox that has nothing of an agent:
 * no token, no tools, no session, and clones of the base branches to which nothing can be pushed. Undefined if there is
 * nothing to share, or no sandbox that would keep agents from the copy; then `setup` runs for each agent.
 */
export async function warmStart(options: WarmStartOptions): Promise<WarmStart | undefined> {
  const { claim, context, copies, environment, folders, listener, repos, setup } = options;
  if (setup.length === 0 || !context.sandbox) return undefined;
  const starts = await Promise.all(repos.map((repo) => branchStart(repo, claim)));
  // Without its base branch, a repository has nothing from which a copy could be made.
  if (starts.some(({ baseCommit, commit }) => baseCommit === undefined && commit !== undefined))
    return undefined;
  const preparedAt = await copies.folderFor(factsOf(options, starts));
  return {
    preparedAt,
    copy: async (signal) => {
      listener.action('Waiting for the setup of the workspace');
      const result = await copies.copyTo(dirname(folders.workspaceFolder), preparedAt, {
        group: JSON.stringify([claim.agentId.tenant, claim.agentId.workspace]),
        make: (copy, heard) =>
          makeCopy({ ...options, environment, listener: { ...silent, ...heard }, signal }, copy, starts),
        listener: { item: (item) => listener.item(item), action: (action) => listener.action(action) },
        signal,
      });
      if (result === 'too deep') listener.item({ type: 'WARNING', text: tooDeepText });
      if (result === 'found') listener.item({ type: 'SETUP_OUTPUT', text: foundText(repos, starts) });
      return result !== 'too deep';
    },
    adopt: async ({ processes, runFolder }, signal) => {
      const args = await Promise.all(
        starts.map(async ({ refs, commit = '', baseCommit = '' }, index) => {
          const file = join(runFolder, `refs-${index}`);
          await writeFile(file, packedRefs(refs));
          const pushed = refs.has(`refs/heads/${claim.branch}`) ? 'pushed' : '';
          return [repos[index]?.path ?? '.', commit, baseCommit, pushed, file];
        }),
      );
      if (args.length === 0) return;
      const what = 'the prepared copy could not be put on the branch of the agent';
      await runScript(processes, [adoptScript, claim.branch, ...args.flat()], what, signal);
    },
  };
}

/** What the result of set-up depends on. */
const factsOf = (
  { claim, environment, repos, setup }: WarmStartOptions,
  starts: readonly BranchStart[],
): unknown => ({
  tenant: claim.agentId.tenant,
  workspace: claim.agentId.workspace,
  version: claim.workspace.environmentVersion ?? '',
  setup,
  environment,
  repos: repos.map(({ url, path }, index) => [url, path, starts[index]?.base, starts[index]?.baseCommit]),
});

async function makeCopy(
  options: WarmStartOptions,
  copy: string,
  starts: readonly BranchStart[],
): Promise<void> {
  const { claim, listener, mask, setup, signal } = options;
  const folders = { workspaceFolder: join(copy, 'workspace'), homeFolder: join(copy, 'home') };
  const repos = options.repos.map((repo) => ({ ...repo, readOnly: repo.readOnly ?? readOnlyText }));
  const clones = { branch: preparedBranch, startFrom: [], atBase: starts, signal };
  await cloneRepositories(folders.workspaceFolder, repos, clones);
  const neutral: Claim = { ...claim, agentId: { ...claim.agentId, agent: ['setup'] } };
  const token = randomBytes(32).toString('hex');
  const undo: (() => Promise<unknown>)[] = [];
  try {
    const sandboxOptions = { ...options, claim: neutral, token, provider: undefined, folders, repos };
    const { processes, urlOf } = await openAgentSandbox(sandboxOptions, undo);
    // Each agent that starts from the copy tries again and is warned.
    const { submodules } = options;
    const quiet = { warn: () => {}, signal };
    await updateSubmodules(submodules, processes, urlOf, quiet);
    await pullLfsFiles({ branch: '', startFrom: [], repos, submodules, processes, ...quiet });
    await runSetup(setup, processes, listener, signal, mask);
  } finally {
    await undoAll(undo);
  }
}

/** Set-up has no model and can't push. */
const silent = { usage: () => {}, push: () => {}, diff: () => {} };

const tooDeepText =
  'The setup commands nest folders too deeply: their result can not be copied for other agents, so they run for each agent.';

const readOnlyText = 'the setup of a workspace may not push';

const foundText = (repos: readonly PreparedRepository[], starts: readonly BranchStart[]): string => {
  const at = starts.map(({ baseCommit = '' }, index) => `${repos[index]?.name} ${baseCommit.slice(0, 12)}`);
  return `The setup commands ran before, for another agent${at.length > 0 ? ` at ${at.join(', ')}` : ''}. Their result was copied.\n`;
};
