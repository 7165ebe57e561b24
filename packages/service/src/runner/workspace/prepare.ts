import { appendFile, mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Claim } from '@muster/sdk/contract';
import { messageOf } from '../../lib/errors.ts';
import { type Repository, readRepos } from '../../lib/repositories.ts';
import { unlessAborted } from '../retry.ts';
import type { TenantRights } from '../tenant-allow.ts';
import { gitErrorText, runGit } from './git.ts';
import type { AskCredential } from './git-credentials.ts';
import { isLfsInstalled, writeLfsHook } from './git-lfs.ts';
import { isSharedBranch, type Mirror, type Mirrors } from './mirror.ts';

export interface PrepareOptions {
  readonly claim: Claim;
  readonly folder: string;
  readonly mirrors: Mirrors;
  readonly rights: TenantRights;
  /** Asks for the credential of the integration that covers a repository. */
  readonly askFor: (repository: Repository) => AskCredential;
  /** The agent has no clones yet, so the mirrors must be up to date. */
  readonly fresh: boolean;
  /** Stops waiting; a fetch continues, because other runs may wait for it. */
  readonly signal: AbortSignal;
}

export interface PreparedRepository extends Repository {
  readonly mirror: Mirror;
  readonly folder: string;
  readonly askCredential: AskCredential;
  /** Why nothing may be pushed to it; undefined if the agent's branch may be. */
  readonly readOnly?: string;
}

/** A repository could not be fetched from this host; empty for a path. */
export class FetchError extends Error {
  override readonly name = 'FetchError';
  readonly host: string;

  constructor(host: string, message: string, options: ErrorOptions) {
    super(message, options);
    this.host = host;
  }
}

/** The host in a URL, or in `user@host:path`; empty for a path. */
export const gitHost = (url: string): string =>
  (/^(?:https?|ssh):\/\/(?:[^/@]*@)?(\[[^\]]*\]|[^/:?#]*)/i.exec(url) ??
    /^(?:[^/@:]*@)([^/:]+):/.exec(url))?.[1]?.toLowerCase() ?? '';

/** The repositories of a workspace, with mirrors that have what their clones need. */
export async function prepareRepositories(options: PrepareOptions): Promise<readonly PreparedRepository[]> {
  const { claim, folder, mirrors, rights, askFor, fresh, signal } = options;
  const repos: PreparedRepository[] = [];
  for (const repository of readRepos(claim.workspace.document)) {
    const mirror = await mirrors.of(claim.agentId.tenant, rights, repository);
    const askCredential = askFor(repository);
    repos.push({ ...repository, mirror, askCredential, folder: join(folder, repository.path) });
  }
  signal.throwIfAborted();
  const toFetch = fresh ? repos : await withEmptyMirrors(repos);
  const fetched = toFetch.map(({ mirror, askCredential, shownUrl }) =>
    mirror.refresh(askCredential).catch((error: unknown) => {
      throw new FetchError(gitHost(shownUrl), messageOf(error), { cause: error });
    }),
  );
  await unlessAborted(signal, Promise.all(fetched));
  return repos;
}

export interface CloneOptions extends Pick<Claim, 'branch' | 'startFrom'> {
  /** Of each repository: its base commit is checked out, as it was then. */
  readonly atBase?: readonly BranchStart[];
  readonly signal: AbortSignal;
}

/** Clones the repositories into the folder of a workspace, before the agent's first process runs there. */
export async function cloneRepositories(
  folder: string,
  repos: readonly PreparedRepository[],
  options: CloneOptions,
): Promise<void> {
  await empty(folder);
  for (const [index, repo] of repos.entries()) {
    options.signal.throwIfAborted();
    const base = options.atBase?.[index];
    const start = base ? { ...base, commit: base.baseCommit } : await branchStart(repo, options);
    await clone(join(folder, repo.path), repo, start, options);
  }
}

async function empty(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  for (const name of await readdir(folder)) await rm(join(folder, name), { recursive: true, force: true });
}

/** Mirrors that were deleted while clones still use their objects. */
async function withEmptyMirrors(repos: readonly PreparedRepository[]): Promise<PreparedRepository[]> {
  const isEmpty = await Promise.all(repos.map(({ mirror }) => mirror.isEmpty()));
  return repos.filter((_, index) => isEmpty[index]);
}

type Refs = ReadonlyMap<string, string>;

/** Where the agent's branch in a repository starts. */
export interface BranchStart {
  readonly refs: Refs;
  readonly base: string;
  readonly baseCommit: string | undefined;
  /** Undefined if the repository has no branches but those of other agents. */
  readonly commit: string | undefined;
}

/** The branch continues where it was, or starts at the nearest parent's branch, or at the base branch. */
export async function branchStart(
  repo: PreparedRepository,
  { branch, startFrom }: Pick<Claim, 'branch' | 'startFrom'>,
): Promise<BranchStart> {
  const refs = await repo.mirror.refs();
  const base = await repo.mirror.baseBranch(repo);
  const commit = startCommit(repo, [branch, ...startFrom, base], refs, base);
  return { refs, base, baseCommit: refs.get(`refs/heads/${base}`), commit };
}

/**
 * The agent's own repository, with the mirror's objects as alternates. The folder is empty and was never the agent's:
 * git follows whatever is in there.
 */
async function clone(
  folder: string,
  repo: PreparedRepository,
  { refs, base, commit }: BranchStart,
  { branch, signal }: CloneOptions,
): Promise<void> {
  const { mirror } = repo;
  const git = async (...args: string[]): Promise<void> => {
    const result = await runGit(args, { folder, environment: mirror.environment, signal });
    if (result.exitCode !== 0) throw new Error(`git ${args[0]} failed: ${gitErrorText(result)}`);
  };
  await mkdir(folder, { recursive: true });
  await git('init', '--quiet', '--template=', `--initial-branch=${branch}`, '.');
  await writeFile(join(folder, '.git', 'objects', 'info', 'alternates'), `${mirror.objectsFolder}\n`);
  await writeFile(join(folder, '.git', 'packed-refs'), packedRefs(refs));
  await appendFile(join(folder, '.git', 'config'), configText(originConfig(repo, branch, refs)));
  if (refs.has(`refs/heads/${base}`)) {
    const origin = join(folder, '.git', 'refs', 'remotes', 'origin');
    await mkdir(origin, { recursive: true });
    await writeFile(join(origin, 'HEAD'), `ref: refs/remotes/origin/${base}\n`);
  }
  if (commit === undefined) return;
  await git('reset', '--quiet', '--hard', commit);
  if (isLfsInstalled() && (await mirror.usesLfs(commit))) await writeLfsHook(folder);
}

function startCommit(
  { shownUrl }: Repository,
  candidates: readonly string[],
  refs: Refs,
  base: string,
): string | undefined {
  const found = candidates.find((name) => refs.has(`refs/heads/${name}`));
  if (found !== undefined) return refs.get(`refs/heads/${found}`);
  if (![...refs.keys()].some(isSharedBranch)) return undefined;
  throw new Error(
    `${shownUrl} has no branch "${base}"; set baseBranch of this repository in the workspace to an existing branch`,
  );
}

/** The refs of a clone: the branches of its remote, and the tags. */
export const packedRefs = (refs: Refs): string =>
  [...refs].map(([ref, id]) => `${id} ${ref.replace(/^refs\/heads\//, 'refs/remotes/origin/')}\n`).join('');

function originConfig({ shownUrl }: Repository, branch: string, refs: Refs): Section[] {
  const fetch = '+refs/heads/*:refs/remotes/origin/*';
  const origin: Section = ['remote "origin"', { url: shownUrl, fetch }];
  if (!refs.has(`refs/heads/${branch}`)) return [origin];
  return [origin, [`branch "${branch}"`, { remote: 'origin', merge: `refs/heads/${branch}` }]];
}

/**
 * The git configuration of the agent in one run: its identity, and the gateway as the way to the repositories of its
 * workspace, under the URLs that they have for everyone. `repos` are in the order in which the gateway numbers them.
 */
export function gitConfig(
  { agentId, token }: Claim,
  endpointUrl: string,
  repos: readonly Repository[],
): string {
  return configText([
    ['user', { name: `Muster agent ${agentId.agent.join('/')}`, email: 'agent@muster.invalid' }],
    ['push', { default: 'current', autoSetupRemote: 'true' }],
    ['init', { defaultBranch: 'main' }],
    ['advice', { detachedHead: 'false' }],
    ['safe', { directory: '*' }],
    [`http "${endpointUrl}/"`, { extraHeader: `Authorization: Bearer ${token}`, proxy: '' }],
    ...(isLfsInstalled() ? lfsConfig : []),
    ...[...firstByUrl(repos)].map(
      ([shownUrl, index]): Section => [`url "${gitUrl(endpointUrl, index)}"`, { insteadOf: shownUrl }],
    ),
  ]);
}

/** What `git lfs install` writes. The gateway serves no locks. */
const lfsConfig: readonly Section[] = [
  [
    'filter "lfs"',
    {
      clean: 'git-lfs clean -- %f',
      smudge: 'git-lfs smudge -- %f',
      process: 'git-lfs filter-process',
      required: 'true',
    },
  ],
  ['lfs', { locksverify: 'false' }],
];

/** The URL of a repository at the gateway, by its number. */
export const gitUrl = (endpointUrl: string, index: number): string => `${endpointUrl}/git/${index}/`;

/** A submodule may also be a repository of the workspace, which comes first. */
const firstByUrl = (repos: readonly Repository[]): Map<string, number> =>
  new Map([...repos.entries()].toReversed().map(([index, { shownUrl }]) => [shownUrl, index]));

type Section = readonly [name: string, settings: Readonly<Record<string, string>>];

const configText = (sections: readonly Section[]): string =>
  sections.map(([name, settings]) => `[${name}]\n${settingLines(settings)}`).join('');

const settingLines = (settings: Section[1]): string =>
  Object.entries(settings)
    .map(([key, value]) => `\t${key} = "${value.replace(/["\\]/g, '\\$&').replaceAll('\n', '\\n')}"\n`)
    .join('');
