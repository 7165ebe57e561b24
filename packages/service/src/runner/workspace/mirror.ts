import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readdir, realpath, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join, sep } from 'node:path';
import type { GitCredential, Tenant } from '@muster/sdk/contract';
import type { HostRule } from '../../lib/host-rules.ts';
import type { Repository } from '../../lib/repositories.ts';
import type { TenantRights } from '../tenant-allow.ts';
import type { Environment } from './environment.ts';
import { type GitResult, gitErrorText, LocalRepository, localEnvironment, runGit } from './git.ts';
import type { AskCredential } from './git-credentials.ts';
import { type HttpAccess, integrationAccess, remoteAccess } from './remote-access.ts';
import { RemoteGit, type RemoteGitOptions } from './remote-git.ts';

/** No live git process holds a lock for longer; one that waits for a lock waits longer than this. */
const staleLockMs = 10_000;
const lockWaitMs = 15_000;

/** A branch that is not an agent's own. */
export const isSharedBranch = (ref: string): boolean =>
  ref.startsWith('refs/heads/') && !ref.startsWith('refs/heads/muster/');

/** All mirrors of a runner. */
export class Mirrors {
  readonly #dataFolder: string;
  readonly #environment: Environment;
  readonly #innerHosts: readonly HostRule[];
  readonly #mirrors = new Map<string, Mirror>();

  /**
   * `environment` is the runner's own, with the credentials for its git. `innerHosts` may be reached for every tenant
   * with the credential of an integration, though they have an address of an internal network.
   */
  constructor(dataFolder: string, environment: Environment, innerHosts: readonly HostRule[]) {
    this.#dataFolder = dataFolder;
    this.#environment = environment;
    this.#innerHosts = innerHosts;
  }

  /** The mirror of a repository, created if needed; not fetched yet. */
  of(tenant: Tenant, rights: TenantRights, repository: Repository): Promise<Mirror> {
    return this.#mirrorOf(tenant, rights, repository, '');
  }

  /** Not the mirror of the same repository in a workspace: that may be fetched with rights that a submodule lacks. */
  ofSubmodule(
    tenant: Tenant,
    rights: TenantRights,
    repository: Repository,
    { shownUrl }: Repository,
  ): Promise<Mirror> {
    return this.#mirrorOf(tenant, rights.ofNamedBy(shownUrl), repository, `\nsubmodule of ${shownUrl}`);
  }

  async #mirrorOf(
    tenant: Tenant,
    rights: TenantRights,
    repository: Repository,
    use: string,
  ): Promise<Mirror> {
    await this.#refuseRunnerFiles(repository);
    const environment = this.#environment;
    const access = await remoteAccess(repository, rights, environment, this.#innerHosts);
    const key = `${tenant.provider}\n${tenant.org}\n${repository.url}${use}`;
    const name = createHash('sha256').update(key).digest('hex').slice(0, 32);
    const folder = join(this.#dataFolder, 'mirrors', `${name}.git`);
    const accessWith = (credential: GitCredential) =>
      integrationAccess(credential, rights, environment, this.#innerHosts);
    const mirror = this.#mirrors.get(folder) ?? new Mirror(folder, environment, { access, accessWith });
    this.#mirrors.set(folder, mirror);
    await mirror.open();
    return mirror;
  }

  /**
   * With a local path a workspace could name another tenant's mirror or files that an agent wrote: in the data folder,
   * or through /proc, which bypasses the sandbox.
   */
  async #refuseRunnerFiles({ url, shownUrl }: Repository): Promise<void> {
    if (!url.startsWith('/') && !/^file:/i.test(url)) return;
    const path = url.startsWith('/') ? url : decodeURIComponent(url.slice('file://'.length));
    const dataFolder = await realpath(this.#dataFolder);
    const real = await realPrefixes(path);
    const isInside = (folder: string) => real.some((prefix) => `${prefix}${sep}`.startsWith(folder + sep));
    if (isInside(dataFolder))
      throw new Error(`${shownUrl} is in the runner's data folder, which must not contain repositories`);
    if (isInside('/proc')) throw new Error(`${shownUrl} is in /proc, which must not contain repositories`);
  }
}

/** The real path of each prefix of a path. The last may not exist under that name: git also tries suffixes. */
async function realPrefixes(path: string): Promise<string[]> {
  const real: string[] = [];
  const names = path.split(sep);
  for (const [index, name] of names.entries()) {
    const prefix = names.slice(0, index + 1).join(sep) || sep;
    real.push(await realpath(prefix).catch(() => join(real.at(-1) ?? sep, name)));
  }
  return real;
}

/**
 * The runner's own copy of a repository: one per tenant and URL, shared by the agents that work on it. Their clones use
 * its objects, so nothing is ever deleted from it; only the runner writes to it. It is fetched before its refs are used,
 * one fetch at a time: a caller that comes during a fetch gets the next one, because the current one may have read the
 * remote's refs too early.
 *
 * Pushes write to it while a fetch runs. A fetch that read the refs before such a push may reset the branch here; the
 * next fetch corrects that, and no request is answered in between.
 */
export class Mirror extends LocalRepository {
  /** The objects that clones use: agents may read them. */
  readonly objectsFolder: string;
  /** The objects of pushes that the repository's host has not accepted yet, one folder per push. */
  readonly quarantineFolder: string;
  readonly #remote: RemoteGit;
  /** Of the callers whose fetch has not started. */
  #asks: AskCredential[] = [];
  #opening: Promise<void> | undefined;
  #running: Promise<void> | undefined;
  #next: Promise<void> | undefined;
  #headIsKnown = false;
  #hasRefs = false;

  constructor(
    folder: string,
    environment: Environment,
    access: Pick<RemoteGitOptions, 'access' | 'accessWith'>,
  ) {
    super(folder, localEnvironment(environment));
    this.objectsFolder = join(folder, 'objects');
    this.quarantineFolder = join(folder, 'quarantine');
    this.#remote = new RemoteGit({ ...access, folder });
  }

  /** Creates it, or repairs what a killed runner left. */
  open(): Promise<void> {
    this.#opening ??= this.#create().catch((error: unknown) => {
      this.#opening = undefined;
      throw error;
    });
    return this.#opening;
  }

  /** Resolves when a fetch that started after this call has finished. */
  refresh(ask: AskCredential): Promise<void> {
    this.#asks.push(ask);
    if (!this.#running) return this.#start();
    this.#next ??= this.#running.catch(() => {}).then(() => this.#start());
    return this.#next;
  }

  /** Called before every run. Nothing is ever deleted, so a mirror that has refs keeps some. */
  async isEmpty(): Promise<boolean> {
    this.#hasRefs ||= (await this.refs()).size > 0;
    return !this.#hasRefs;
  }

  async has(commit: string): Promise<boolean> {
    return (await this.tryGit(['cat-file', '-e', `${commit}^{commit}`])).exitCode === 0;
  }

  httpAccess(ask: AskCredential): Promise<HttpAccess> {
    return this.#remote.http(ask);
  }

  /** Whether files of a commit are stored in LFS. */
  async usesLfs(commit: string): Promise<boolean> {
    const search = ['grep', '--quiet', '--fixed-strings', 'filter=lfs', commit, '--'];
    return (await this.tryGit([...search, ':(glob)**/.gitattributes'])).exitCode === 0;
  }

  /** Moves a branch upstream from `before` (empty: it is new) to a commit that is in `objectsFolder`. */
  pushUpstream(
    push: { branch: string; before: string; commit: string; objectsFolder: string },
    ask: AskCredential,
    signal: AbortSignal,
  ): Promise<GitResult> {
    const { branch, before, commit, objectsFolder } = push;
    const ref = `refs/heads/${branch}`;
    const options = ['--porcelain', '--no-verify', '--no-follow-tags', '--recurse-submodules=no'];
    const lease = `--force-with-lease=${ref}:${before}`;
    const args = (url: string) => ['push', ...options, lease, url, `${commit}:${ref}`];
    return this.#remote.git(args, [ask], { signal, environment: { GIT_OBJECT_DIRECTORY: objectsFolder } });
  }

  /** After a push has moved the branch upstream. */
  async setBranch(branch: string, commit: string): Promise<void> {
    await this.git([...lockTimeouts, 'update-ref', `refs/heads/${branch}`, commit]);
  }

  async #create(): Promise<void> {
    await mkdir(this.folder, { recursive: true, mode: 0o700 });
    await rm(this.quarantineFolder, { recursive: true, force: true });
    await this.#removeTemporaryFiles();
    await this.#removeStaleLocks();
    // In an existing repository this only adds what is missing.
    const init = ['init', '--quiet', '--bare', '--template=', '--initial-branch=main', this.folder];
    const result = await runGit(init, { environment: this.environment });
    if (result.exitCode !== 0)
      throw new Error(`can't create the mirror of ${this.#remote.url}: ${gitErrorText(result)}`);
  }

  #start(): Promise<void> {
    this.#next = undefined;
    const asks = this.#asks;
    this.#asks = [];
    const running = this.#fetch(asks).finally(() => {
      if (this.#running === running) this.#running = undefined;
    });
    this.#running = running;
    return running;
  }

  async #fetch(asks: readonly AskCredential[]): Promise<void> {
    await this.open();
    let result = await this.#fetchOnce(asks);
    if (result.exitCode !== 0 && /\.lock'?: File exists/.test(result.stderr)) {
      await this.#removeStaleLocks();
      result = await this.#fetchOnce(asks);
    }
    if (result.exitCode !== 0) {
      await this.#removeTemporaryFiles();
      throw new Error(`can't fetch ${this.#remote.url}: ${gitErrorText(result)}`);
    }
    await this.#followHead(asks);
  }

  #fetchOnce(asks: readonly AskCredential[]): Promise<GitResult> {
    const options = ['--quiet', '--prune', '--no-tags', '--no-write-fetch-head', '--no-recurse-submodules'];
    const refs = ['+refs/heads/*:refs/heads/*', '+refs/tags/*:refs/tags/*'];
    const fetch = ['fetch', '--no-auto-maintenance', ...options];
    return this.#remote.git((url) => [...lockTimeouts, ...fetch, url, ...refs], asks);
  }

  /**
   * Looks up the default branch once per runner process, and again when that branch is gone. A host may make the first
   * pushed branch its HEAD, but an agent's branch is never the one that other agents start from.
   */
  async #followHead(asks: readonly AskCredential[]): Promise<void> {
    const branches = [...(await this.refs()).keys()].filter(isSharedBranch);
    const named = `refs/heads/${await this.headBranch()}`;
    if (branches.length === 0 && isSharedBranch(named)) return;
    if (this.#headIsKnown && branches.includes(named)) return;
    const { stdout } = await this.#remote.git((url) => ['ls-remote', '--symref', url, 'HEAD'], asks);
    const remoteHead = /^ref: (\S+)\tHEAD$/m.exec(stdout)?.[1] ?? '';
    const candidates = [remoteHead, named, 'refs/heads/main', 'refs/heads/master'];
    const head = candidates.find((ref) => branches.includes(ref)) ?? branches[0] ?? 'refs/heads/main';
    if (head !== named) await this.git(['symbolic-ref', 'HEAD', head]);
    this.#headIsKnown = true;
  }

  /** Git leaves temporary files when a fetch fails. Only fetches write there, one at a time. */
  async #removeTemporaryFiles(): Promise<void> {
    const entries = await readdir(this.objectsFolder, { recursive: true }).catch(() => []);
    const temporary = entries.filter((path) => /(^|\/)(tmp_|incoming-)[^/]*$/.test(path));
    for (const path of temporary) await rm(join(this.objectsFolder, path), { recursive: true, force: true });
  }

  async #removeStaleLocks(): Promise<void> {
    const entries = await readdir(this.folder, { recursive: true }).catch(() => []);
    const locks = entries.filter((path) => path.endsWith('.lock') && !path.startsWith('objects/'));
    for (const lock of locks) {
      const path = join(this.folder, lock);
      const since = await stat(path).catch(() => undefined);
      if (since && Date.now() - since.mtimeMs >= staleLockMs) await rm(path, { force: true });
    }
  }
}

const lockTimeouts = ['core.filesRefLockTimeout', 'core.packedRefsTimeout'].flatMap((name) => [
  '-c',
  `${name}=${lockWaitMs}`,
]);

/**
 * The objects of one push, kept apart from the mirror until the repository's host has accepted them. Git commands in it
 * read both. The objects of a refused push are deleted with the folder.
 */
export class Quarantine extends LocalRepository {
  readonly objectsFolder: string;
  readonly #mirror: Mirror;

  private constructor(mirror: Mirror, objectsFolder: string) {
    super(mirror.folder, { ...mirror.environment, GIT_OBJECT_DIRECTORY: objectsFolder });
    this.objectsFolder = objectsFolder;
    this.#mirror = mirror;
  }

  static async open(mirror: Mirror): Promise<Quarantine> {
    await mkdir(mirror.quarantineFolder, { recursive: true, mode: 0o700 });
    const folder = await mkdtemp(join(mirror.quarantineFolder, 'push-'));
    await mkdir(join(folder, 'info'));
    await writeFile(join(folder, 'info', 'alternates'), `${mirror.objectsFolder}\n`);
    return new Quarantine(mirror, folder);
  }

  /** Moves the objects into the mirror. An index makes its pack visible, so it comes after the pack. */
  async accept(): Promise<void> {
    for (const folder of await readdir(this.objectsFolder)) {
      if (!/^(pack|[0-9a-f]{2})$/.test(folder)) continue;
      const from = join(this.objectsFolder, folder);
      const to = join(this.#mirror.objectsFolder, folder);
      await mkdir(to, { recursive: true });
      const names = await readdir(from);
      const isIndex = (name: string) => Number(name.endsWith('.idx'));
      for (const name of names.sort((a, b) => isIndex(a) - isIndex(b)))
        await rename(join(from, name), join(to, name));
    }
  }

  async remove(): Promise<void> {
    await rm(this.objectsFolder, { recursive: true, force: true });
  }
}
