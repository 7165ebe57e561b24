import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Claim, limits } from '@muster/sdk/contract';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type GitRemote, makeGitRemote } from '../../../../../test/support/git-remote.ts';
import { TenantRights } from '../tenant-allow.ts';
import { noCredential } from './git-credentials.ts';
import { pullLfsFiles } from './lfs-files.ts';
import { Mirrors } from './mirror.ts';
import { prepareRepositories } from './prepare.ts';
import { findSubmodules, resolveUrl } from './submodules.ts';

let folder: string;
let lib: GitRemote;
let libCommit: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'muster-submodules-'));
  await mkdir(join(folder, 'data'));
  lib = makeGitRemote(folder, 'lib');
  libCommit = lib.commit('main', { 'lib.txt': 'lib\n', '.gitattributes': '*.bin filter=lfs\n' });
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const signal = new AbortController().signal;

/** The submodules that are found in a repository, and the warnings. */
async function find(remote: GitRemote) {
  const tenant = { provider: 'PROVIDER_UNSPECIFIED', org: 'acme' } as const;
  const rights = new TenantRights(new Map(), tenant, true);
  const mirrors = new Mirrors(join(folder, 'data'), process.env, []);
  const workspace = { document: { repos: [remote.url] }, environment: {}, vmProfile: {} };
  const claim = { agentId: { tenant, agent: ['a'] }, workspace } as unknown as Claim;
  const shared = { mirrors, rights, askFor: () => noCredential, signal };
  const repos = await prepareRepositories({ ...shared, claim, folder: join(folder, 'w'), fresh: true });
  const warnings: string[] = [];
  const warn = (text: string) => warnings.push(text);
  const submodules = await findSubmodules(repos, {
    ...shared,
    tenant,
    workspaceFolder: join(folder, 'w'),
    warn,
  });
  return { repos, submodules, warnings };
}

const modules = (count: number): string =>
  Array.from({ length: count }, (_, n) => `[submodule "m${n}"]\npath = m/${n}\nurl = ../lib.git\n`).join('');

const links = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, n) => [`m/${n}`, libCommit]));

it('limits the number of submodules and the length of .gitmodules', async () => {
  const remote = makeGitRemote(folder, 'many');
  remote.commit('main', { '.gitmodules': modules(100) }, 'main', links(100));
  const many = await find(remote);
  expect(many.submodules).toHaveLength(limits.submodulesPerRun);
  expect(many.warnings).toEqual([
    expect.stringContaining('has too many submodules; 64, 5 levels deep, are fetched'),
  ]);
  remote.commit('main', { '.gitmodules': modules(10_000) });
  const long = await find(remote);
  expect(long.submodules).toEqual([]);
  expect(long.warnings).toEqual([expect.stringContaining('has more than 262144 bytes')]);
});

it('finds submodules that contain each other only so deep', async () => {
  // The commit of a submodule can't be known before it is made, so each level is another repository.
  let commit = libCommit;
  let url = '../lib.git';
  for (let level = 1; level <= limits.submoduleDepth + 1; level += 1) {
    const remote = makeGitRemote(folder, `level-${level}`);
    commit = remote.commit('main', { '.gitmodules': `[submodule "x"]\npath = x\nurl = ${url}\n` }, 'main', {
      x: commit,
    });
    url = `../level-${level}.git`;
  }
  const top = makeGitRemote(folder, 'top');
  top.commit('main', { '.gitmodules': `[submodule "x"]\npath = x\nurl = ${url}\n` }, 'main', { x: commit });
  const { submodules, warnings } = await find(top);
  expect(submodules.map(({ path }) => path).at(-1)).toBe('x/x/x/x/x');
  expect(warnings).toEqual([expect.stringContaining('has too many submodules')]);
});

it('warns once if files are in LFS and git-lfs is not installed', async () => {
  const { repos, warnings } = await find(lib);
  const processes = { start: () => expect.unreachable() };
  const warn = (text: string) => void warnings.push(text);
  const options = { branch: '', startFrom: [], repos, submodules: [], processes, warn, signal };
  await pullLfsFiles({ ...options, isInstalled: false });
  expect(warnings).toEqual([
    `git-lfs is not installed on this runner: files in LFS of ${lib.url} are pointers. Install git-lfs on the runner's machine.`,
  ]);
});

it.each([
  ['https://h/team/app.git', '../lib.git', 'https://h/team/lib.git'],
  ['https://h/team/app.git/', './sub', 'https://h/team/app.git/sub'],
  ['https://u:p@h/team/app', '../../x/y', 'https://u:p@h/x/y'],
  ['https://h/team/app', '../../../x', undefined],
  ['git@h:team/app.git', '../lib.git', 'git@h:team/lib.git'],
  ['git@h:app.git', '../lib.git', 'git@h:lib.git'],
  ['/srv/git/app.git', '../lib.git', '/srv/git/lib.git'],
  ['https://h/app', 'https://other/x', 'https://other/x'],
])('resolves against %s the URL %s', (parent, url, resolved) => {
  expect(resolveUrl(parent, url)).toBe(resolved);
});
