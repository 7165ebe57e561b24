import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import type { Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type GitAgentOptions, startGitAgent } from '../../../../../test/support/git-agent.ts';
import { type GitRemote, makeGitRemote } from '../../../../../test/support/git-remote.ts';
import { changedCiDefinitions } from '../workspace/changes.ts';
import { LocalRepository, localEnvironment } from '../workspace/git.ts';
import { Mirrors } from '../workspace/mirror.ts';

let folder: string;
let mirrors: Mirrors;
let remote: GitRemote;
const servers: Server[] = [];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'muster-receive-pack-'));
  await mkdir(join(folder, 'data'));
  mirrors = new Mirrors(join(folder, 'data'), process.env, []);
  remote = makeGitRemote(folder, 'app');
  remote.commit('main', { 'a.txt': 'one\n', '.github/workflows/test.yml': 'on: push\n' });
});
afterEach(async () => {
  for (const server of servers.splice(0)) server.close();
  await rm(folder, { recursive: true, force: true });
});

const startAgent = async (options: GitAgentOptions = {}) => {
  const agent = await startGitAgent({ folder, mirrors, remote, name: 'root' }, options);
  servers.push(agent.server);
  return agent;
};

const upstream = (branch: string) => remote.tip(branch);
const mirrorFolder = () => {
  const [name = ''] = readdirSync(join(folder, 'data', 'mirrors'));
  return join(folder, 'data', 'mirrors', name);
};
const hasObject = (id: string): boolean => {
  try {
    execFileSync('git', ['-c', 'safe.directory=*', `--git-dir=${mirrorFolder()}`, 'cat-file', '-e', id], {
      stdio: 'ignore',
    });
    return true;
  } catch {
    return false;
  }
};

describe('a push that changes CI definitions', () => {
  it('is refused, with a warning, and leaves nothing in the mirror, until the change is undone', async () => {
    const agent = await startAgent();
    const tip = await agent.commit({ '.github/workflows/test.yml': 'changed\n', 'a.txt': 'two\n' });
    const said = await agent.tryGit(['push']);
    expect(said.ok).toBe(false);
    expect(said.output).toContain('muster: the push changes CI definitions (.github/workflows/test.yml)');
    expect(remote.refs()).toEqual(['main']);
    expect(agent.items).toEqual([
      { type: 'WARNING', text: expect.stringContaining('set allowCiChanges: true in the workspace') },
    ]);
    expect(hasObject(tip)).toBe(false);
    expect(readdirSync(join(mirrorFolder(), 'quarantine'))).toEqual([]);

    const undone = await agent.commit({ '.github/workflows/test.yml': 'on: push\n' });
    await agent.git('push');
    expect(upstream(agent.branch)).toBe(undone);
  });

  it('is refused for every path that a CI system reads', async () => {
    const paths = [
      '.buildkite/pipeline.yml',
      '.circleci/config.yml',
      '.drone.yml',
      '.forgejo/workflows/x.yml',
      '.gitea/x',
      '.github/actions/set-up/action.yml',
      '.github/workflows/deep/new.yml',
      '.gitlab-ci.yml',
      '.gitlab/ci/build.yml',
      '.travis.yml',
      '.woodpecker.yml',
      '.woodpecker/x.yml',
      'Jenkinsfile',
      'azure-pipelines.yml',
    ];
    const beside = [
      '.github/CODEOWNERS',
      '.gitlab/issue_templates/x.md',
      'docs/Jenkinsfile',
      'x/.travis.yml',
    ];
    const files = Object.fromEntries([...paths, ...beside].map((path) => [path, 'x\n']));
    const tip = remote.commit('changed', files, 'main');
    const objects = new LocalRepository(remote.url, localEnvironment(process.env));
    const repository = { url: remote.url, shownUrl: remote.url, name: 'app', baseBranch: 'main', path: '.' };
    expect((await changedCiDefinitions(objects, repository, tip)).sort()).toEqual(paths);
  });

  it('is refused when a folder of them becomes a link, and when one is deleted', async () => {
    const agent = await startAgent();
    await rm(join(agent.workspace, '.github'), { recursive: true });
    const deleted = await agent.commit({});
    expect((await agent.tryGit(['push'])).output).toContain('(.github/workflows/test.yml)');
    await mkdir(join(agent.workspace, 'elsewhere'));
    await writeFile(join(agent.workspace, 'elsewhere', 'x'), '');
    await symlink('elsewhere', join(agent.workspace, '.gitlab'));
    expect(await agent.commit({})).not.toBe(deleted);
    expect((await agent.tryGit(['push'])).output).toContain('(.github/workflows/test.yml, .gitlab)');
    expect(remote.refs()).toEqual(['main']);
  });

  it('is accepted where the workspace allows it', async () => {
    const agent = await startAgent({ allowCiChanges: true });
    const tip = await agent.commit({ '.github/workflows/test.yml': 'changed\n' });
    await agent.git('push');
    expect(upstream(agent.branch)).toBe(tip);
  });

  it('is accepted when the base branch was changed; also after a rebase and a merge', async () => {
    const agent = await startAgent();
    const tip = await agent.commit({ 'mine.txt': 'mine\n' });
    remote.commit('main', { '.github/workflows/test.yml': 'on: [push, pull_request]\n' });
    await agent.git('push', '--quiet');
    expect(upstream(agent.branch)).toBe(tip);
    await agent.git('fetch', '--quiet');
    await agent.git('rebase', '--quiet', 'origin/main');
    await agent.git('push', '--quiet', '--force');
    remote.commit('main', { '.gitlab-ci.yml': 'test: {}\n' });
    await agent.git('fetch', '--quiet');
    await agent.git('merge', '--quiet', 'origin/main', '--message', 'Merge main');
    await agent.git('push', '--quiet');
    expect(upstream(agent.branch)).toBe(await agent.git('rev-parse', 'HEAD'));
    expect(agent.items).toEqual([]);
  });
});

describe('the objects of a push', () => {
  it.each([
    ['few, kept one by one', 1],
    ['many, kept as a pack', 150],
  ])('are in the mirror once it was accepted: %s', async (_, count) => {
    const agent = await startAgent();
    const files = Object.fromEntries(Array.from({ length: count }, (_, i) => [`f${i}.txt`, `${i}\n`]));
    const tip = await agent.commit(files);
    await agent.git('push');
    expect(hasObject(tip)).toBe(true);
    expect(readdirSync(join(mirrorFolder(), 'quarantine'))).toEqual([]);
  });

  it('are gone when the pack is damaged or the host refuses it', async () => {
    const agent = await startAgent();
    await writeFile(join(remote.url, 'hooks', 'pre-receive'), '#!/bin/sh\nexit 1\n', { mode: 0o755 });
    const tip = await agent.commit({ 'a.txt': 'two\n' });
    expect((await agent.tryGit(['push'])).output).toContain('refused the push');
    const zero = '0'.repeat(40);
    const command = `${zero} ${tip} refs/heads/${agent.branch}\0 report-status`;
    const line = `${(command.length + 4).toString(16).padStart(4, '0')}${command}0000`;
    const reply = await fetch(`${agent.endpointUrl}/git/0/git-receive-pack`, {
      method: 'POST',
      body: new Blob([line, Buffer.from('PACK\0\0\0\x02\0\0\x10\0damaged')]),
    });
    expect(await reply.text()).toContain('unpacker error');
    expect(hasObject(tip)).toBe(false);
    expect(readdirSync(join(mirrorFolder(), 'quarantine'))).toEqual([]);
  });
});

describe('a fetch that fails', () => {
  it('leaves no temporary pack', async () => {
    const agent = await startAgent();
    const files = Object.fromEntries(
      Array.from({ length: 300 }, (_, i) => [`f${i}.txt`, `${i}\n`.repeat(i + 1)]),
    );
    remote.commit('main', files);
    const broken = remote.git('rev-parse', 'main:f200.txt');
    const object = join(remote.url, 'objects', broken.slice(0, 2), broken.slice(2));
    remote.git('repack', '-adq');
    expect(existsSync(object)).toBe(false);
    const packs = join(remote.url, 'objects', 'pack');
    const pack = readdirSync(packs).find((name) => name.endsWith('.pack')) ?? '';
    const bytes = execFileSync('cat', [join(packs, pack)]);
    bytes.fill(0, Math.floor(bytes.length * 0.6), Math.floor(bytes.length * 0.7));
    await rm(join(packs, pack));
    await writeFile(join(packs, pack), bytes);
    expect((await agent.tryGit(['fetch'])).output).toContain("can't fetch");
    const left = readdirSync(join(mirrorFolder(), 'objects'), { recursive: true, encoding: 'utf8' });
    expect(left.filter((path) => /tmp_|incoming/.test(path))).toEqual([]);
  });
});
