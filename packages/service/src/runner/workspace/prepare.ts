import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Claim } from '@muster/sdk/contract';
import { type Repository, readRepos } from '../../lib/repositories.ts';
import type { TenantRights } from '../tenant-allow.ts';
import { clone } from './clone.ts';
import type { Mirror, Mirrors } from './mirror.ts';

export interface PrepareOptions {
  readonly claim: Claim;
  readonly folder: string;
  readonly mirrors: Mirrors;
  readonly rights: TenantRights;
  /** Whatever is in the folder is worth nothing: a half-made clone, or one that the agent has moved away from. */
  readonly fresh: boolean;
  /** Gives up waiting; a fetch that others may wait for too goes on. */
  readonly signal: AbortSignal;
}

export interface PreparedRepository extends Repository {
  readonly mirror: Mirror;
  readonly folder: string;
}

export interface PreparedWorkspace {
  readonly repos: readonly PreparedRepository[];
  /** What the clones borrow from: the agent's processes must be able to read it. */
  readonly reads: readonly string[];
}

/** Brings the repositories of a workspace into its folder, before the agent's first process runs there. */
export async function prepareWorkspace(options: PrepareOptions): Promise<PreparedWorkspace> {
  const { claim, folder, mirrors, rights, fresh, signal } = options;
  const repos: PreparedRepository[] = [];
  for (const repository of readRepos(claim.workspace.document)) {
    const mirror = await mirrors.of(claim.agentId.tenant, rights, repository);
    repos.push({ ...repository, mirror, folder: join(folder, repository.path) });
  }
  signal.throwIfAborted();
  if (fresh) await empty(folder);
  const toFetch = fresh ? repos : await withoutObjects(repos);
  await unlessAborted(signal, Promise.all(toFetch.map(({ mirror }) => mirror.refresh())));
  if (fresh) {
    const { branch, startFrom } = claim;
    for (const repo of repos) {
      signal.throwIfAborted();
      await clone({ repository: repo, mirror: repo.mirror, folder: repo.folder, branch, startFrom, signal });
    }
  }
  return { repos, reads: [...new Set(repos.map(({ mirror }) => mirror.objectsFolder))] };
}

async function empty(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  for (const name of await readdir(folder)) await rm(join(folder, name), { recursive: true, force: true });
}

/** Mirrors that were lost while clones still borrow from them. */
async function withoutObjects(repos: readonly PreparedRepository[]): Promise<PreparedRepository[]> {
  const looked = await Promise.all(
    repos.map(async (repo) => ({ repo, isEmpty: await repo.mirror.isEmpty() })),
  );
  return looked.filter(({ isEmpty }) => isEmpty).map(({ repo }) => repo);
}

async function unlessAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  let abort: () => void = () => {};
  const aborted = new Promise<never>((_, reject) => {
    abort = () => reject(signal.reason);
    signal.addEventListener('abort', abort, { once: true });
    if (signal.aborted) abort();
  });
  return Promise.race([work, aborted]).finally(() => signal.removeEventListener('abort', abort));
}
