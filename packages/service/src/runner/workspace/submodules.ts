import { readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { limits, type Tenant } from '@muster/sdk/contract';
import type { Processes } from '../../harness/harness.ts';
import { messageOf } from '../../lib/errors.ts';
import { packageFile } from '../../lib/package-file.ts';
import { type Repository, splitUrl, urlProblem } from '../../lib/repositories.ts';
import type { KeptFacts } from '../agent-folders.ts';
import type { TenantRights } from '../tenant-allow.ts';
import { runScript } from './agent-commands.ts';
import type { AskCredential } from './git-credentials.ts';
import type { Mirror, Mirrors } from './mirror.ts';
import { branchStart, type PreparedRepository } from './prepare.ts';

/** A submodule of a repository of the workspace, or of another submodule. */
export interface Submodule extends PreparedRepository {
  /** The repository of the workspace that contains it. */
  readonly of: Repository;
  /** The path in the workspace of the repository that contains it directly. */
  readonly parentPath: string;
  readonly pathInParent: string;
  /** Its name in .gitmodules. */
  readonly moduleName: string;
  readonly commit: string;
}

export type OpenedSubmodule = Omit<Submodule, 'parentPath' | 'pathInParent' | 'moduleName' | 'commit'>;

export interface SubmoduleOptions {
  readonly tenant: Tenant;
  readonly mirrors: Mirrors;
  readonly rights: TenantRights;
  readonly askFor: (repository: Repository, of: Repository) => AskCredential;
  readonly workspaceFolder: string;
  readonly warn: (text: string) => void;
  readonly signal: AbortSignal;
}

const script = readFileSync(packageFile('scripts/update-submodules.sh'), 'utf8');
const mostModulesBytes = 256 * 1024;
const readOnly =
  'a submodule is read-only; to push to it, add its repository to the workspace and push from that clone';

/**
 * The submodules that the base branches of the workspace name. Never those of other branches: an agent could write a URL
 * there that the runner would then fetch with credentials that the agent does not have. One that can't be fetched is a
 * warning.
 */
export async function findSubmodules(
  repos: readonly PreparedRepository[],
  options: SubmoduleOptions,
): Promise<Submodule[]> {
  const found: Submodule[] = [];
  for (const of of repos) {
    const { baseCommit } = await branchStart(of, { branch: '', startFrom: [] }).catch(() => noStart);
    if (baseCommit === undefined) continue;
    const waiting: Containing[] = [{ of, repository: of, commit: baseCommit, depth: 1 }];
    for (let next = waiting.shift(); next; next = waiting.shift())
      for (const entry of await entriesOf(next, options)) {
        options.signal.throwIfAborted();
        if (found.length >= limits.submodulesPerRun || next.depth > limits.submoduleDepth) {
          options.warn(`${of.shownUrl} has too many submodules; ${tooMany}: ${entry.path} and later ones`);
          return found;
        }
        const submodule = await fetchSubmodule(next, entry, options);
        if (!submodule) continue;
        found.push(submodule);
        waiting.push({ of, repository: submodule, commit: entry.commit, depth: next.depth + 1 });
      }
  }
  return found;
}

const noStart = { baseCommit: undefined };
const tooMany = `${limits.submodulesPerRun}, ${limits.submoduleDepth} levels deep, are fetched, and these are not`;

interface Containing {
  readonly of: PreparedRepository;
  readonly repository: PreparedRepository;
  readonly commit: string;
  readonly depth: number;
}

interface Entry {
  readonly name: string;
  readonly path: string;
  readonly url: string;
  readonly commit: string;
}

/** What .gitmodules of a commit names and the commit has. */
async function entriesOf({ repository, commit }: Containing, { warn }: SubmoduleOptions): Promise<Entry[]> {
  const { mirror, shownUrl } = repository;
  const blob = `${commit}:.gitmodules`;
  const size = Number((await mirror.tryGit(['cat-file', '-s', blob])).stdout);
  if (!(size > 0)) return [];
  if (size > mostModulesBytes) {
    warn(
      `.gitmodules of ${shownUrl} has more than ${mostModulesBytes} bytes; its submodules are not fetched`,
    );
    return [];
  }
  const { stdout } = await mirror.tryGit(['config', `--blob=${blob}`, '--null', '--list']);
  const modules = new Map<string, { path?: string; url?: string }>();
  for (const line of stdout.split('\0')) {
    const [, name = '', field = '', value = ''] = /^submodule\.(.+)\.(path|url)\n(.*)$/s.exec(line) ?? [];
    if (name) modules.set(name, { ...modules.get(name), [field]: value });
  }
  const named = [...modules].flatMap(([name, { path, url }]) => (path && url ? [{ name, path, url }] : []));
  const links = await linksAt(mirror, commit, named.slice(0, 2 * limits.submodulesPerRun));
  return named.flatMap((entry) => {
    const link = links.get(entry.path);
    return link ? [{ ...entry, commit: link }] : [];
  });
}

/** The commits of submodules by their path. */
async function linksAt(
  mirror: Mirror,
  commit: string,
  named: readonly { readonly path: string }[],
): Promise<Map<string, string>> {
  if (named.length === 0) return new Map();
  const paths = named.map(({ path }) => path);
  const list = ['--literal-pathspecs', 'ls-tree', '-z', '--full-tree', commit, '--', ...paths];
  const { stdout } = await mirror.tryGit(list);
  const links = stdout.split('\0').flatMap((line): [path: string, commit: string][] => {
    const [, id, path] = /^160000 commit ([0-9a-f]{40,64})\t(.*)$/s.exec(line) ?? [];
    return id && path ? [[path, id]] : [];
  });
  return new Map(links);
}

async function fetchSubmodule(
  { of, repository: parent }: Containing,
  entry: Entry,
  options: SubmoduleOptions,
): Promise<Submodule | undefined> {
  const url = resolveUrl(parent.url, entry.url);
  const shown = url === undefined ? entry.url : splitUrl(url).shownUrl;
  try {
    const problem = url === undefined ? 'is not a URL below that of its repository' : urlProblem(url);
    if (url === undefined || problem) throw new Error(`its URL ${problem}`);
    const repository: Repository = {
      ...{ name: entry.name, url, shownUrl: shown, baseBranch: '' },
      path: posix.join(parent.path, entry.path),
    };
    const opened = await openSubmodule(repository, of, options);
    if (!(await opened.mirror.has(entry.commit))) await opened.mirror.refresh(opened.askCredential);
    if (!(await opened.mirror.has(entry.commit)))
      throw new Error(`its commit ${entry.commit} is on no branch or tag`);
    const { name: moduleName, path: pathInParent, commit } = entry;
    return { ...opened, parentPath: parent.path, pathInParent, moduleName, commit };
  } catch (error) {
    options.signal.throwIfAborted();
    options.warn(notFetched(entry.path, parent, shown, messageOf(error)));
    return undefined;
  }
}

const notFetched = (path: string, { shownUrl }: Repository, url: string, reason: string): string =>
  `The submodule ${JSON.stringify(path)} of ${shownUrl} was not fetched from ${url}: ${reason}`;

/** Not fetched yet. Throws if the tenant may not use it. */
async function openSubmodule(
  repository: Repository,
  of: Repository,
  { tenant, mirrors, rights, askFor, workspaceFolder }: SubmoduleOptions,
): Promise<OpenedSubmodule> {
  const mirror = await mirrors.ofSubmodule(tenant, rights, repository, of);
  const folder = join(workspaceFolder, repository.path);
  return { ...repository, of, mirror, folder, askCredential: askFor(repository, of), readOnly };
}

type Noted = NonNullable<KeptFacts['submodules']>;

/** For the next runs of the agent. */
export const notedSubmodules = (found: readonly Submodule[], repos: readonly Repository[]): Noted =>
  found.map(({ url, path, of }) => ({ url, path, of: repos.indexOf(of) }));

/** The submodules of clones that the agent has already, so that its git can fetch them. */
export async function knownSubmodules(
  { submodules = [] }: KeptFacts,
  repos: readonly PreparedRepository[],
  options: SubmoduleOptions,
): Promise<OpenedSubmodule[]> {
  const opened: OpenedSubmodule[] = [];
  for (const { url, path, of: index } of submodules) {
    const of = repos[index];
    if (!of) continue;
    const { shownUrl } = splitUrl(url);
    const repository: Repository = { name: path, url, shownUrl, baseBranch: '', path };
    try {
      opened.push(await openSubmodule(repository, of, options));
    } catch (error) {
      options.warn(`The submodule ${JSON.stringify(path)} can't be fetched: ${messageOf(error)}`);
    }
  }
  return opened;
}

/** Relative URLs begin with ./ or ../ and continue the URL of the repository that contains the submodule. */
export function resolveUrl(parentUrl: string, url: string): string | undefined {
  if (!/^\.{1,2}\//.test(url)) return url;
  const [, root = '', path = ''] = /^([a-z]+:\/\/[^/]*|[^/:]+:)?(.*)$/is.exec(parentUrl) ?? [];
  const names = path.split('/').filter(Boolean);
  for (const name of url.split('/')) {
    if (name === '..' && names.pop() === undefined) return undefined;
    if (name !== '..' && name !== '.' && name !== '') names.push(name);
  }
  return `${root}${path.startsWith('/') ? '/' : ''}${names.join('/')}`;
}

/** Checks the submodules out, as the agent. `urlOf` is the URL of one at the gateway. */
export async function updateSubmodules(
  submodules: readonly Submodule[],
  processes: Processes,
  urlOf: (submodule: Submodule) => string,
  { warn, signal }: Pick<SubmoduleOptions, 'warn' | 'signal'>,
): Promise<void> {
  if (submodules.length === 0) return;
  const args = submodules.flatMap((submodule) => [
    ...[submodule.parentPath, submodule.pathInParent, submodule.moduleName, submodule.mirror.folder],
    ...[urlOf(submodule), submodule.shownUrl],
  ]);
  const lines = await runScript(processes, [script, ...args], 'the submodules were not updated', signal);
  for (const line of lines.slice(0, limits.submodulesPerRun)) {
    const [path = '', reason = ''] = line.split('\t');
    const submodule = submodules.find(({ pathInParent }) => pathInParent === path);
    if (submodule) warn(notFetched(path, submodule.of, submodule.shownUrl, reason));
  }
}
