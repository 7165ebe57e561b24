import { createHash } from 'node:crypto';
import { mkdir, readdir, realpath, rm, stat } from 'node:fs/promises';
import { join, sep } from 'node:path';
import type { Claim } from '@muster/sdk/contract';
import { type Repository, splitUrl } from '../../lib/repositories.ts';
import type { TenantRights } from '../tenant-allow.ts';
import type { Environment } from './environment.ts';
import {
  complaintOf,
  type GitResult,
  gitTimeoutMs,
  LocalRepository,
  localEnvironment,
  runGit,
} from './git.ts';
import { type RemoteAccess, remoteAccess } from './remote-access.ts';

/**
 * A mirror is the runner's own copy of a repository: one per tenant and URL, shared by the agents that work on it.
 * Their clones borrow its objects, so nothing is ever taken out of it; only the runner writes to it. It is fetched
 * before anybody is told what it holds, one fetch at a time: whoever asks during a fetch gets the next one, because
 * the one under way may have looked too early.
 *
 * Pushes write to it while a fetch goes on. A fetch that looked before such a push may set the branch back here; the
 * next one sets it right, and nobody is answered from in between.
 */
export interface MirrorsOptions {
  readonly dataFolder: string;
  /** The runner's own environment: where its git finds its credentials. */
  readonly environment: Environment;
}

type Tenant = Claim['agentId']['tenant'];

/** No git that is alive holds a lock for so long; a waiting one outlasts it. */
const staleLockMs = 10_000;
const lockWaitMs = 15_000;
/** As git ends when it dies. */
const refusedExit = 128;

/** A branch that is not an agent's own. */
export const isSharedBranch = (ref: string): boolean =>
  ref.startsWith('refs/heads/') && !ref.startsWith('refs/heads/muster/');

/** All mirrors of a runner. */
export class Mirrors {
  readonly #options: MirrorsOptions;
  readonly #mirrors = new Map<string, Mirror>();

  constructor(options: MirrorsOptions) {
    this.#options = options;
  }

  /** The mirror of a repository, made if need be; not fetched yet. */
  async of(tenant: Tenant, rights: TenantRights, repository: Repository): Promise<Mirror> {
    await this.#refuseOwnFiles(repository);
    const { environment } = this.#options;
    const access = await remoteAccess(repository, rights, environment);
    const key = `${tenant.provider}\n${tenant.org}\n${repository.url}`;
    const name = createHash('sha256').update(key).digest('hex').slice(0, 32);
    const folder = join(this.#options.dataFolder, 'mirrors', `${name}.git`);
    const mirror = this.#mirrors.get(folder) ?? new Mirror(folder, repository.url, environment, access);
    this.#mirrors.set(folder, mirror);
    await mirror.open();
    return mirror;
  }

  /**
   * By a path of this machine a workspace could name another tenant's mirror, or what an agent has written: in the data
   * folder, or, around its sandbox, by way of a process of it.
   */
  async #refuseOwnFiles({ url, shownUrl }: Repository): Promise<void> {
    if (!url.startsWith('/') && !/^file:/i.test(url)) return;
    const path = url.startsWith('/') ? url : decodeURIComponent(url.slice('file://'.length));
    const own = await realpath(this.#options.dataFolder);
    const places = await placesOn(path);
    const leadsInto = (folder: string) => places.some((place) => `${place}${sep}`.startsWith(folder + sep));
    if (leadsInto(own)) throw new Error(`${shownUrl} lies in the runner's own data folder`);
    if (leadsInto('/proc')) throw new Error(`${shownUrl} lies in /proc, where no repository is`);
  }
}

/**
 * Every place that a path leads through, as it really is. The last may not exist by that name and be found by git all
 * the same, which tries endings of its own.
 */
async function placesOn(path: string): Promise<string[]> {
  const places: string[] = [];
  const names = path.split(sep);
  for (const [index, name] of names.entries()) {
    const way = names.slice(0, index + 1).join(sep) || sep;
    places.push(await realpath(way).catch(() => join(places.at(-1) ?? sep, name)));
  }
  return places;
}

export interface UpstreamPush {
  readonly branch: string;
  readonly before: string;
  readonly commit: string;
  readonly objectsFolder: string;
}

export class Mirror extends LocalRepository {
  /** What clones borrow from: agents may read it. */
  readonly objectsFolder: string;
  /** The objects of pushes that the repository's host has not accepted yet, a folder for each. */
  readonly quarantineFolder: string;
  readonly #url: string;
  readonly #access: RemoteAccess;
  readonly #remote: Readonly<Record<string, string>>;
  readonly #credentials: readonly string[];
  #opening: Promise<void> | undefined;
  #running: Promise<void> | undefined;
  #next: Promise<void> | undefined;
  #headIsKnown = false;
  #holdsSomething = false;

  constructor(folder: string, url: string, environment: Environment, access: RemoteAccess) {
    const { shownUrl, username, password } = splitUrl(url);
    super(folder, localEnvironment(environment));
    this.objectsFolder = join(folder, 'objects');
    this.quarantineFolder = join(folder, 'quarantine');
    this.#url = shownUrl;
    this.#credentials = credentialSettings(shownUrl, username, password);
    this.#access = access;
    this.#remote = {
      ...access.environment,
      ...(password && { MUSTER_GIT_USERNAME: username, MUSTER_GIT_PASSWORD: password }),
      ...(!password && usernameSetting(shownUrl, username, access.environment)),
    };
  }

  /** Makes it, or mends what a killed runner left. */
  open(): Promise<void> {
    this.#opening ??= this.#make().catch((error: unknown) => {
      this.#opening = undefined;
      throw error;
    });
    return this.#opening;
  }

  /** Resolves when a fetch that was begun after this call has ended. */
  refresh(): Promise<void> {
    if (!this.#running) return this.#start();
    this.#next ??= this.#running.catch(() => {}).then(() => this.#start());
    return this.#next;
  }

  /** Asked before every run, so what is known is not looked up: nothing is ever taken out. */
  async isEmpty(): Promise<boolean> {
    this.#holdsSomething ||= (await this.refs()).size > 0;
    return !this.#holdsSomething;
  }

  /** Moves a branch upstream from `before` (empty: it is new) to a commit that is in `objectsFolder`. */
  pushUpstream(
    { branch, before, commit, objectsFolder }: UpstreamPush,
    signal: AbortSignal,
  ): Promise<GitResult> {
    const ref = `refs/heads/${branch}`;
    const manners = ['--porcelain', '--no-verify', '--no-follow-tags', '--recurse-submodules=no'];
    const lease = `--force-with-lease=${ref}:${before}`;
    const args = ['push', ...manners, lease, this.#url, `${commit}:${ref}`];
    return this.#remoteGit(args, { signal, environment: { GIT_OBJECT_DIRECTORY: objectsFolder } });
  }

  /** Remembers what a push has moved upstream. */
  async setBranch(branch: string, commit: string): Promise<void> {
    await this.git([...lockPatience, 'update-ref', `refs/heads/${branch}`, commit]);
  }

  async #make(): Promise<void> {
    await mkdir(this.folder, { recursive: true, mode: 0o700 });
    await rm(this.quarantineFolder, { recursive: true, force: true });
    await this.#removeTemporaryFiles();
    await this.#removeStaleLocks();
    // On what is there already it only fills in what is missing.
    const init = ['init', '--quiet', '--bare', '--template=', '--initial-branch=main', this.folder];
    const result = await runGit(init, { environment: this.environment });
    if (result.exitCode !== 0)
      throw new Error(`the mirror of ${this.#url} can't be made: ${complaintOf(result)}`);
  }

  #start(): Promise<void> {
    this.#next = undefined;
    const running = this.#fetch().finally(() => {
      if (this.#running === running) this.#running = undefined;
    });
    this.#running = running;
    return running;
  }

  async #fetch(): Promise<void> {
    await this.open();
    let result = await this.#fetchOnce();
    if (result.exitCode !== 0 && /\.lock'?: File exists/.test(result.stderr)) {
      await this.#removeStaleLocks();
      result = await this.#fetchOnce();
    }
    if (result.exitCode !== 0) {
      await this.#removeTemporaryFiles();
      throw new Error(`${this.#url} can't be fetched: ${complaintOf(result)}`);
    }
    await this.#followHead();
  }

  #fetchOnce(): Promise<GitResult> {
    const manners = ['--quiet', '--prune', '--no-tags', '--no-write-fetch-head', '--no-recurse-submodules'];
    const refs = ['+refs/heads/*:refs/heads/*', '+refs/tags/*:refs/tags/*'];
    return this.#remoteGit([
      ...lockPatience,
      'fetch',
      '--no-auto-maintenance',
      ...manners,
      this.#url,
      ...refs,
    ]);
  }

  /**
   * Looked up once in the life of a runner, and again when the branch it named is gone. A host may call the first
   * branch that was pushed its HEAD; an agent's never is the one that others start from.
   */
  async #followHead(): Promise<void> {
    const branches = [...(await this.refs()).keys()].filter(isSharedBranch);
    const named = `refs/heads/${await this.headBranch()}`;
    if (branches.length === 0 && isSharedBranch(named)) return;
    if (this.#headIsKnown && branches.includes(named)) return;
    const { stdout } = await this.#remoteGit(['ls-remote', '--symref', this.#url, 'HEAD']);
    const answered = /^ref: (\S+)\tHEAD$/m.exec(stdout)?.[1] ?? '';
    const usual = [answered, named, 'refs/heads/main', 'refs/heads/master'];
    const head = usual.find((ref) => branches.includes(ref)) ?? branches[0] ?? 'refs/heads/main';
    if (head !== named) await this.git(['symbolic-ref', 'HEAD', head]);
    this.#headIsKnown = true;
  }

  async #remoteGit(
    args: readonly string[],
    { signal, environment = {} }: { signal?: AbortSignal; environment?: Record<string, string> } = {},
  ): Promise<GitResult> {
    const allowed = await this.#access.settings().catch((error: Error) => error);
    if (allowed instanceof Error) return { exitCode: refusedExit, stdout: '', stderr: allowed.message };
    const settings = [`--git-dir=${this.folder}`, '-c', 'gc.auto=0', ...allowed, ...this.#credentials];
    return runGit([...settings, ...args], {
      isRemote: true,
      environment: { ...this.#remote, ...environment },
      timeoutMs: gitTimeoutMs,
      signal,
    });
  }

  /** Git leaves what it was writing when a fetch fails. Only fetches write there, one at a time. */
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

const lockPatience = ['core.filesRefLockTimeout', 'core.packedRefsTimeout'].flatMap((name) => [
  '-c',
  `${name}=${lockWaitMs}`,
]);

const originOf = (url: string): string | undefined => /^https?:\/\/[^/?#]*/i.exec(url)?.[0];

/** A name without a password may be a token: it goes to git by the environment, which nobody else can read. */
function usernameSetting(
  shownUrl: string,
  username: string,
  environment: Environment,
): Record<string, string> {
  const origin = originOf(shownUrl);
  if (!origin || !username) return {};
  const at = Number(environment.GIT_CONFIG_COUNT ?? 0) || 0;
  return {
    GIT_CONFIG_COUNT: `${at + 1}`,
    [`GIT_CONFIG_KEY_${at}`]: `credential.${origin}.username`,
    [`GIT_CONFIG_VALUE_${at}`]: username,
  };
}

/** A password goes to git by its credential protocol: a URL is shown in process lists and in messages. */
function credentialSettings(shownUrl: string, username: string, password: string): string[] {
  const origin = originOf(shownUrl);
  if (!origin || !username || !password) return [];
  const answer = `printf 'username=%s\\npassword=%s\\n' "$MUSTER_GIT_USERNAME" "$MUSTER_GIT_PASSWORD"`;
  const helper = `credential.${origin}.helper`;
  return ['-c', `${helper}=`, '-c', `${helper}=!f() { test "$1" = get && ${answer}; }; f`];
}
