import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { NotFoundError, PermissionDeniedError } from '@muster/sdk';
import { ageOf, pathOf } from '@muster/sdk/contract';
import type { Command } from 'commander';
import { readRepositories, type SavedRepository } from './checkpoint-archive.ts';
import { addCommand, type Flags, type Invocation } from './command.ts';
import { CommandError, exitCodes, usageError } from './errors.ts';
import { download } from './runs.ts';

export function addCheckoutCommand(program: Command): void {
  const text = "check out an agent's branch in this clone, with its unpushed commits and uncommitted files";
  addCommand(program, 'checkout <agent>', text, checkout)
    .option('--remote <name>', 'the remote that the agent pushes to', 'origin')
    .option('--repo <path>', "the repository's path in the agent's workspace, if it has several");
}

interface CheckedOut {
  readonly branch: string;
  readonly commit: string;
  readonly created: boolean;
  /** Where the files are that the agent has not committed. */
  readonly uncommitted: 'none' | 'working tree' | `branch ${string}`;
  readonly savedAt: string | null;
  /** Everything that the checkpoint has: other branches, stashes, tags. */
  readonly refs: string | null;
}

type CheckoutFlags = Flags<'repo'> & { readonly remote: string };

async function checkout(invocation: Invocation<CheckoutFlags>, agent: string): Promise<void> {
  const { flags, client, output, signal } = invocation;
  const git = await Git.here(signal);
  if (await git.text('status', '--porcelain', '--untracked-files=no'))
    throw new CommandError(
      'the working tree has changes that are not committed; commit or stash them first (git stash)',
      exitCodes.conflict,
    );
  const { agentId, branch: pushed } = await client().status(agent, { signal });
  const saved = await savedWork(invocation, agent);
  if (pushed === '' && !saved)
    throw new CommandError(
      `${agent} has pushed no branch and has no checkpoint: there is nothing to check out`,
      exitCodes.notFound,
    );
  const fetching = git.run('fetch', '--no-tags', '--no-recurse-submodules', '--', flags.remote);
  await output.progress.during(`fetching from ${flags.remote}`, fetching);
  const work = new AgentWork(git, flags.remote, `refs/muster-work/${agentId.agent.map(refWord).join('+')}`);
  if (saved) await work.fetchBundle(saved.repository);
  const name = pushed || `muster/${agentId.agent.map(refWord).join('/')}`;
  const result = { ...(await work.checkOut(name, saved?.repository)), savedAt: saved?.completedAt ?? null };
  output.answer(result, () => {
    output.line(
      `${result.created ? 'created' : 'updated'} branch ${result.branch} at ${result.commit.slice(0, 10)}`,
    );
    if (result.branch !== name) output.note(`your branch ${name} has other commits and was not changed`);
    if (result.savedAt !== null)
      output.note(
        `with what ${pathOf(agentId)} saved ${ageOf(result.savedAt)} ago: all of it is in ${result.refs}`,
      );
    if (result.uncommitted === 'working tree')
      output.note('the files that it had not committed are changes of the working tree');
    else if (result.uncommitted !== 'none')
      output.note(
        `its branch has newer commits; the files that it had not committed are on ${result.uncommitted}`,
      );
  });
}

/** The names of an agent as part of a ref. */
const refWord = (name: string): string => name.replace(/[^\w-]/g, '_');

/** The newest checkpoint, if there is one and the caller may read it. */
async function savedWork({ flags, client, output, signal }: Invocation<CheckoutFlags>, agent: string) {
  try {
    const { content, completedAt } = await output.progress.during(
      'downloading the checkpoint',
      download(client(), agent, signal),
    );
    const repository = chosen(await readRepositories(content), flags.repo);
    return repository && { repository, completedAt };
  } catch (error) {
    const isMissing = error instanceof CommandError && error.exitCode === exitCodes.notFound;
    if (error instanceof PermissionDeniedError)
      output.note(`you may not read the checkpoint of ${agent}: only what it has pushed is checked out`);
    else if (!(isMissing || error instanceof NotFoundError)) throw error;
    return undefined;
  }
}

function chosen(repositories: readonly SavedRepository[], path: string | undefined) {
  const keys = repositories.map(({ key }) => key).join(', ');
  const fitting = path === undefined ? repositories : repositories.filter(({ key }) => key === path);
  if (path !== undefined && fitting.length === 0)
    throw usageError(`--repo: the checkpoint has ${keys || 'no repository'}; got "${path}"`);
  if (fitting.length > 1)
    throw usageError(`the agent has several repositories; use --repo with one of ${keys}`);
  return fitting[0];
}

/** What an agent has pushed and saved, in the clone of a person. */
class AgentWork {
  readonly #git: Git;
  readonly #remote: string;
  readonly #refs: string;

  constructor(git: Git, remote: string, refs: string) {
    this.#git = git;
    this.#remote = remote;
    this.#refs = refs;
  }

  /** Everything in the bundle becomes a ref below `refs/muster-work`, which no other command uses. */
  async fetchBundle({ bundle }: SavedRepository): Promise<void> {
    if (!bundle) return;
    const folder = mkdtempSync(join(tmpdir(), 'muster-checkout-'));
    try {
      const file = join(folder, 'work.bundle');
      writeFileSync(file, bundle, { mode: 0o600 });
      const options = [
        '--no-tags',
        '--no-write-fetch-head',
        '--no-recurse-submodules',
        '--no-auto-maintenance',
      ];
      const source = ['--', file, `+refs/*:${this.#refs}/*`];
      await this.#git.run('-c', 'fetch.fsckObjects=true', 'fetch', '-q', '--prune', ...options, ...source);
    } catch (error) {
      const { message } = error as Error;
      throw /prerequisite/.test(message)
        ? new CommandError(
            `this clone lacks the commits that the work is based on; is it of the same repository? ${message}`,
          )
        : error;
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }

  async checkOut(wanted: string, saved: SavedRepository | undefined): Promise<Omit<CheckedOut, 'savedAt'>> {
    const git = this.#git;
    if (wanted.startsWith('-') || !(await git.succeeds('check-ref-format', `refs/heads/${wanted}`)))
      throw new CommandError(`the agent's branch "${wanted}" is not a valid name of a branch`);
    const pushed = await git.commit(`refs/remotes/${this.#remote}/${wanted}`);
    const commit = await this.#newest(pushed, saved);
    if (!commit)
      throw new CommandError(
        `${this.#remote} has no branch ${wanted}; is this a clone of the agent's repository?`,
        exitCodes.notFound,
      );
    const { branch, created } = await this.#freeBranch(wanted, commit);
    await git.run('checkout', '-q', '--no-recurse-submodules', '-B', branch, commit);
    return {
      ...{ branch, commit, created },
      uncommitted: saved?.bundle ? await this.#checkOutFiles(branch, commit) : 'none',
      refs: saved?.bundle ? this.#refs : null,
    };
  }

  /** What was checked out when it was saved, unless the pushed branch has newer commits. */
  async #newest(pushed: string, saved: SavedRepository | undefined): Promise<string> {
    const [head = '', ...branches] = saved?.refs.split('\n') ?? [];
    const line = branches.find((each) => each.split(' ')[1] === head) ?? head;
    const [id = ''] = line.split(' ');
    const here = /^[0-9a-f]{40,64}$/.test(id) ? await this.#git.commit(id) : '';
    if (!here || !pushed) return here || pushed;
    return (await this.#git.isAncestor(here, pushed)) ? pushed : here;
  }

  /** A branch that is there is only moved forward. One with other commits stays, and the work gets another name. */
  async #freeBranch(wanted: string, commit: string): Promise<{ branch: string; created: boolean }> {
    for (let count = 1; ; count += 1) {
      const branch = count === 1 ? wanted : `${wanted}-${count}`;
      const before = await this.#git.commit(`refs/heads/${branch}`);
      if (!before) return { branch, created: true };
      if (await this.#git.isAncestor(before, commit)) return { branch, created: false };
    }
  }

  async #checkOutFiles(branch: string, commit: string): Promise<CheckedOut['uncommitted']> {
    const git = this.#git;
    const work = await git.commit(`${this.#refs}/muster/work`);
    if (!work) return 'none';
    if ((await git.commit(`${work}^`)) === commit) {
      // Refuses to overwrite a file that git does not know.
      await git.run('read-tree', '-m', '-u', commit, work);
      await git.run('reset', '-q');
      return 'working tree';
    }
    const { branch: other } = await this.#freeBranch(`${branch}-uncommitted`, work);
    await git.run('branch', '-f', '--no-track', other, work);
    return `branch ${other}`;
  }
}

const execute = promisify(execFile);

/** Git in the clone of a person. No hook runs: with `core.hooksPath` inside of the clone, hooks would be the agent's. */
class Git {
  readonly #folder: string;
  readonly #signal: AbortSignal;

  private constructor(folder: string, signal: AbortSignal) {
    this.#folder = folder;
    this.#signal = signal;
  }

  static async here(signal: AbortSignal): Promise<Git> {
    const found = await new Git(process.cwd(), signal).text('rev-parse', '--show-toplevel').catch(() => '');
    if (found === '')
      throw usageError(
        'this folder is not a clone of a git repository; run it in one, such as after git clone',
      );
    return new Git(found, signal);
  }

  async run(...args: string[]): Promise<string> {
    const options = ['core.hooksPath=/dev/null', 'core.fsmonitor=false'];
    const given = options.flatMap((option) => ['-c', option]);
    try {
      const { stdout } = await execute('git', [...given, ...args], {
        cwd: this.#folder,
        signal: this.#signal,
        maxBuffer: 64 * 1024 ** 2,
      });
      return stdout;
    } catch (error) {
      this.#signal.throwIfAborted();
      const { stderr = '', message } = error as Error & { stderr?: string };
      throw new CommandError(
        `git ${args.find((arg) => /^[a-z-]{3,}$/.test(arg))} failed: ${stderr.trim() || message}`,
      );
    }
  }

  text = async (...args: string[]): Promise<string> => (await this.run(...args)).trim();

  succeeds(...args: string[]): Promise<boolean> {
    return this.run(...args).then(
      () => true,
      () => false,
    );
  }

  /** Empty if there is none. */
  commit(name: string): Promise<string> {
    return this.text('rev-parse', '-q', '--verify', '--end-of-options', `${name}^{commit}`).catch(() => '');
  }

  isAncestor(before: string, after: string): Promise<boolean> {
    return this.succeeds('merge-base', '--is-ancestor', before, after);
  }
}
