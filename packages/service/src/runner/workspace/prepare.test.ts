import { existsSync, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Claim } from '@muster/sdk/contract';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type GitRemote, gitIn, makeGitRemote } from '../../../../../test/support/git-remote.ts';
import { TenantRights } from '../tenant-allow.ts';
import { gitErrorText, localEnvironment, runGit } from './git.ts';
import { noCredential } from './git-credentials.ts';
import { Mirrors } from './mirror.ts';
import { cloneRepositories, type PrepareOptions, prepareRepositories } from './prepare.ts';

let folder: string;
let dataFolder: string;
let workspace: string;
let remote: GitRemote;
let base: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'muster-workspace-'));
  dataFolder = join(folder, 'data');
  workspace = join(dataFolder, 'workspace');
  await mkdir(dataFolder);
  remote = makeGitRemote(folder, 'app');
  base = remote.commit('main', { 'a.txt': 'one\n', 'b/c.txt': 'two\n' });
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const claimFor = (repos: unknown[], extra: Partial<Claim> = {}): Claim =>
  ({
    agentId: { tenant: { provider: 'PROVIDER_UNSPECIFIED', org: 'acme' }, agent: ['root'] },
    branch: 'muster/root',
    startFrom: [],
    workspace: { document: { repos }, environment: {}, vmProfile: {} },
    ...extra,
  }) as unknown as Claim;

const newMirrors = () => new Mirrors(dataFolder, process.env, []);

const prepare = async (claim: Claim, given: Partial<PrepareOptions> = {}) => {
  const options = {
    claim,
    folder: workspace,
    mirrors: newMirrors(),
    rights: new TenantRights(new Map(), claim.agentId.tenant, true),
    askFor: () => noCredential,
    fresh: true,
    signal: new AbortController().signal,
    ...given,
  };
  const repos = await prepareRepositories(options);
  if (options.fresh) await cloneRepositories(options.folder, repos, { ...claim, signal: options.signal });
  return repos;
};

const headOf = (at: string) => gitIn(at, 'rev-parse', 'HEAD');
const branchOf = (at: string) => gitIn(at, 'symbolic-ref', '--short', 'HEAD');

describe('a clone', () => {
  it("is on the agent's branch at the base branch, and takes every object from the mirror", async () => {
    const repos = await prepare(claimFor([remote.url]));
    expect(repos).toMatchObject([{ shownUrl: remote.url, folder: workspace, path: '.' }]);
    expect(readFileSync(join(workspace, 'b/c.txt'), 'utf8')).toBe('two\n');
    expect(branchOf(workspace)).toBe('muster/root');
    expect(headOf(workspace)).toBe(base);
    expect(gitIn(workspace, 'status', '--porcelain')).toBe('');
    expect(gitIn(workspace, 'count-objects', '-v')).toMatch(/^count: 0\n.*in-pack: 0\n/s);
    expect(readFileSync(join(workspace, '.git/objects/info/alternates'), 'utf8')).toBe(
      `${repos[0]?.mirror.objectsFolder}\n`,
    );
    expect(gitIn(workspace, 'remote', 'get-url', 'origin')).toBe(remote.url);
    expect(gitIn(workspace, 'rev-parse', 'origin/HEAD', 'origin/main')).toBe(`${base}\n${base}`);
    expect(gitIn(workspace, 'fsck', '--connectivity-only')).toBe('');
  });

  it("starts at the nearest parent's branch that exists, or at its own branch if that exists", async () => {
    const parents = remote.commit('muster/parent', { 'p.txt': 'p' }, 'main');
    const startFrom = ['muster/parent-missing', 'muster/parent', 'main'];
    await prepare(claimFor([remote.url], { startFrom }));
    expect(headOf(workspace)).toBe(parents);
    const own = remote.commit('muster/root', { 'own.txt': 'o' }, 'main');
    await prepare(claimFor([remote.url], { startFrom }));
    expect(headOf(workspace)).toBe(own);
    expect(gitIn(workspace, 'rev-parse', '@{upstream}')).toBe(own);
    expect(existsSync(join(workspace, 'p.txt'))).toBe(false);
  });

  it('uses the base branch that the workspace names, or fails if it does not exist', async () => {
    const dev = remote.commit('dev', { 'd.txt': 'd' }, 'main');
    await prepare(claimFor([{ url: remote.url, baseBranch: 'dev' }]));
    expect(headOf(workspace)).toBe(dev);
    await expect(prepare(claimFor([{ url: remote.url, baseBranch: 'gone' }]))).rejects.toThrow(
      `${remote.url} has no branch "gone"; set baseBranch of this repository in the workspace to an existing branch`,
    );
  });

  it("follows the remote's HEAD, whatever it is called", async () => {
    const trunk = remote.commit('trunk', { 't.txt': 't' }, 'main');
    remote.git('symbolic-ref', 'HEAD', 'refs/heads/trunk');
    await prepare(claimFor([`file://${remote.url}`]));
    expect(headOf(workspace)).toBe(trunk);
  });

  it('of an empty repository has the branch and no commit', async () => {
    const empty = makeGitRemote(folder, 'empty');
    await prepare(claimFor([empty.url]));
    expect(branchOf(workspace)).toBe('muster/root');
    expect(gitIn(workspace, 'status', '--porcelain')).toBe('');
  });

  it.each(['refs/heads/main', 'refs/heads/muster/first'])(
    "of a repository that has only another agent's branch starts empty, with HEAD at %s",
    async (head) => {
      const empty = makeGitRemote(folder, `empty-${head.at(-1)}`);
      empty.commit('muster/first', { 'first.txt': 'f' });
      empty.git('symbolic-ref', 'HEAD', head);
      await prepare(claimFor([empty.url]));
      expect(branchOf(workspace)).toBe('muster/root');
      expect(existsSync(join(workspace, 'first.txt'))).toBe(false);
      expect(gitIn(workspace, 'status', '--porcelain')).toBe('');
      const base = empty.commit('main', { 'base.txt': 'b' });
      await prepare(claimFor([empty.url]));
      expect(headOf(workspace)).toBe(base);
    },
  );

  it('of several repositories is made in one folder each', async () => {
    const lib = makeGitRemote(folder, 'lib');
    const libBase = lib.commit('main', { 'l.txt': 'l' });
    await prepare(claimFor([remote.url, { url: lib.url, path: 'deps/lib' }]));
    expect(headOf(join(workspace, 'app'))).toBe(base);
    expect(headOf(join(workspace, 'deps/lib'))).toBe(libBase);
    expect(branchOf(join(workspace, 'deps/lib'))).toBe('muster/root');
  });

  it('is not changed when it is not fresh, and made again when it is', async () => {
    const claim = claimFor([remote.url]);
    await prepare(claim);
    await writeFile(join(workspace, 'mine.txt'), 'mine');
    await prepare(claim, { fresh: false });
    expect(existsSync(join(workspace, 'mine.txt'))).toBe(true);
    await prepare(claim);
    expect(existsSync(join(workspace, 'mine.txt'))).toBe(false);
  });

  it('is not made after the run was stopped', async () => {
    await expect(prepare(claimFor([remote.url]), { signal: AbortSignal.abort() })).rejects.toThrow('aborted');
  });
});

describe('a mirror', () => {
  const mirrorFolders = () => readdir(join(dataFolder, 'mirrors'));

  it('is shared by the agents of a tenant, and not with another tenant', async () => {
    const mirrors = newMirrors();
    const claims = ['a', 'b', 'c'].map((name) => claimFor([remote.url], { branch: `muster/${name}` }));
    await Promise.all(
      claims.map((claim) => prepare(claim, { mirrors, folder: join(dataFolder, claim.branch) })),
    );
    expect(claims.map(({ branch }) => headOf(join(dataFolder, branch)))).toEqual([base, base, base]);
    expect(await mirrorFolders()).toHaveLength(1);
    const tenant = { provider: 'PROVIDER_UNSPECIFIED', org: 'other' } as const;
    await prepare(claimFor([remote.url], { agentId: { tenant } as Claim['agentId'] }), { mirrors });
    expect(await mirrorFolders()).toHaveLength(2);
  });

  it('drops branches that were deleted upstream, and keeps the objects that clones use', async () => {
    const dev = remote.commit('dev', { 'd.txt': 'd' }, 'main');
    const repos = await prepare(claimFor([{ url: remote.url, baseBranch: 'dev' }]));
    remote.git('branch', '-D', 'dev');
    await repos[0]?.mirror.refresh(noCredential);
    expect([...((await repos[0]?.mirror.refs()) ?? new Map()).keys()]).toEqual(['refs/heads/main']);
    expect(gitIn(workspace, 'fsck', '--connectivity-only')).toBe('');
    expect(headOf(workspace)).toBe(dev);
  });

  it('is repaired after a runner was killed', async () => {
    const repos = await prepare(claimFor([remote.url]));
    const at = repos[0]?.mirror.folder ?? '';
    const next = remote.commit('main', { 'n.txt': 'n' });
    await Promise.all(['HEAD', 'packed-refs'].map((name) => rm(join(at, name), { force: true })));
    for (const lock of ['refs/heads/main.lock', 'packed-refs.lock', 'config.lock', 'HEAD.lock']) {
      await writeFile(join(at, lock), '');
      await utimes(join(at, lock), 1, 1);
    }
    await prepare(claimFor([remote.url]));
    expect(headOf(workspace)).toBe(next);
  });

  it('that was deleted is fetched again for the clones that use it', async () => {
    await prepare(claimFor([remote.url]));
    await rm(join(dataFolder, 'mirrors'), { recursive: true });
    await prepare(claimFor([remote.url]), { fresh: false });
    expect(gitIn(workspace, 'fsck', '--connectivity-only')).toBe('');
  });

  it("is never made of the runner's own files", async () => {
    const repos = await prepare(claimFor([remote.url]));
    const inside = repos[0]?.mirror.folder ?? '';
    const unended = inside.replace(/\.git$/, '');
    const around = unended.replace(dataFolder, `${remote.url}/../data`);
    const encoded = `file://${around.replace('..', '%2e%2e')}`;
    for (const url of [inside, `file://${inside}`, dataFolder, unended, around, encoded])
      await expect(prepare(claimFor([url]))).rejects.toThrow("is in the runner's data folder");
  });

  it('is never made of files in /proc', async () => {
    for (const url of [`/proc/${process.pid}/root${remote.url}`, `/tmp/../proc/self/root${remote.url}`])
      await expect(prepare(claimFor([url]))).rejects.toThrow('is in /proc');
  });

  it("fails with git's error, and works as soon as the repository exists", async () => {
    const missing = join(folder, 'later.git');
    await expect(prepare(claimFor([missing]))).rejects.toThrow(`can't fetch ${missing}: fatal:`);
    makeGitRemote(folder, 'later').commit('main', { 'x.txt': 'x' });
    await prepare(claimFor([missing]));
    expect(existsSync(join(workspace, 'x.txt'))).toBe(true);
  });

  it('sends the password of a URL to its host and shows it nowhere', async () => {
    const seen: string[] = [];
    const host = createServer((request, response) => {
      const { authorization } = request.headers;
      if (authorization) seen.push(Buffer.from(authorization.slice('Basic '.length), 'base64').toString());
      response.writeHead(authorization ? 403 : 401, { 'www-authenticate': 'Basic realm="x"' }).end();
    });
    await new Promise<void>((resolve) => host.listen(0, '127.0.0.1', resolve));
    const at = `127.0.0.1:${(host.address() as AddressInfo).port}/app.git`;
    const failed = await prepare(claimFor([`http://me:s3%20cret@${at}`])).catch((error: Error) => error);
    host.close();
    expect(seen[0]).toBe('me:s3 cret');
    expect((failed as Error).message).toContain(`can't fetch http://${at}:`);
    expect((failed as Error).message).not.toMatch(/cret|me:/);
  });
});

it.each([
  ['takes too long', 'sleep 600', { timeoutMs: 50 }, 0],
  ['prints too much', 'yes', { maxBytes: 1000 }, 1000],
  ['prints too much while its output is discarded', 'yes', { maxBytes: 1000, discardsOutput: true }, 0],
])('git is killed when it %s', async (_, command, limits, keptBytes) => {
  const environment = localEnvironment(process.env);
  const result = await runGit(['-c', `alias.x=!${command}`, 'x'], { environment, ...limits });
  expect([result.exitCode, result.stdout.length]).toEqual([null, keptBytes]);
  expect(gitErrorText(result)).toBe('git was killed: it took too long, printed too much, or its run ended');
});
