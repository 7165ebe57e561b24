import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { beforeAll, beforeEach, expect, test } from 'vitest';
import { gitIn } from '../support/git-remote.ts';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';
import { userOfSharedServer } from './cli.ts';

const ada = userOfSharedServer({ runner: false });
let t: TestTenant;
let remote = '';
let clone = '';
let base = '';
let agents = 0;

beforeAll(async () => {
  t = await newTestTenant(ada.api);
});

const folder = (): string => mkdtempSync(join(ada.home, 'folder-'));

beforeEach(() => {
  remote = folder();
  gitIn(remote, 'init', '-q', '--bare', '-b', 'main');
  clone = join(folder(), 'shop');
  execFileSync('git', ['clone', '-q', remote, clone], { stdio: 'pipe' });
  writeFileSync(join(clone, 'README.md'), 'shop\n');
  gitIn(clone, 'add', '.');
  gitIn(clone, 'commit', '-qm', 'base');
  gitIn(clone, 'push', '-q', 'origin', 'HEAD:main');
  base = gitIn(clone, 'rev-parse', 'HEAD');
});

/** An agent with one unpushed commit on `branch` and, by default, an uncommitted file; its checkpoint as the runner packs it. */
async function agentWithWork({ branch = 'work/fix', uncommitted = true, pushes = false } = {}) {
  const own = join(folder(), 'own');
  execFileSync('git', ['clone', '-q', remote, own], { stdio: 'pipe' });
  gitIn(own, 'checkout', '-q', '-b', branch);
  writeFileSync(join(own, 'fix.ts'), 'fixed\n');
  gitIn(own, 'add', '.');
  gitIn(own, 'commit', '-qm', 'unpushed');
  const head = gitIn(own, 'rev-parse', 'HEAD');
  if (pushes) gitIn(own, 'push', '-q', 'origin', `HEAD:${branch}`);
  const tips = [`refs/heads/${branch}`];
  if (uncommitted) {
    writeFileSync(join(own, 'draft.txt'), 'not committed');
    gitIn(own, 'rm', '-q', 'README.md');
    gitIn(own, 'add', '.');
    gitIn(own, 'commit', '-qm', 'Files that were not committed');
    gitIn(own, 'update-ref', 'refs/muster/work', 'HEAD');
    gitIn(own, 'reset', '-q', '--hard', 'HEAD~1');
    tips.push('refs/muster/work');
  }
  const packed = folder();
  mkdirSync(join(packed, 'repos'));
  gitIn(own, 'bundle', 'create', '-q', join(packed, 'repos', 'shop.bundle'), ...tips, `^${base}`);
  const refs = `refs/heads/${branch}\n${head} refs/heads/${branch} -\n`;
  writeFileSync(join(packed, 'repos', 'shop.refs'), refs);
  agents += 1;
  const name = `worker-${agents}`;
  await t.spawn(name);
  const claim = await t.start(name);
  if (pushes)
    await t.report(claim, {
      pushes: [{ repo: remote, ref: branch, commits: ['8e52d10c4b'], files: ['fix.ts'] }],
    });
  const save = (...more: string[]) =>
    t.runner.saveCheckpoint(claim, execFileSync('tar', ['-czP', '-C', packed, 'repos', ...more]));
  await save();
  return { name, head, own, packed, save };
}

test('checks out unpushed commits on a new branch, and uncommitted files as changes', async () => {
  const { name, head } = await agentWithWork();
  const { code, out, err } = await ada.muster(['checkout', name], { folder: clone });
  expect({ code, err }).toMatchObject({ code: 0, err: expect.stringContaining('working tree') });
  expect(out).toBe(`created branch muster/${name} at ${head.slice(0, 10)}\n`);
  expect(gitIn(clone, 'rev-parse', 'HEAD')).toBe(head);
  expect(gitIn(clone, 'status', '--porcelain')).toBe('D README.md\n?? draft.txt');
  // Now the tree has changes: they are not touched.
  expect(await ada.muster(['checkout', name], { folder: clone })).toMatchObject({
    code: 5,
    err: expect.stringContaining('commit or stash them first'),
  });
  expect(readFileSync(join(clone, 'draft.txt'), 'utf8')).toBe('not committed');
});

test('a branch with other commits is not changed; a file that git does not know is not overwritten', async () => {
  const { name, head } = await agentWithWork({ uncommitted: false });
  gitIn(clone, 'checkout', '-q', '-b', `muster/${name}`);
  gitIn(clone, 'commit', '-q', '--allow-empty', '-m', 'mine');
  const mine = gitIn(clone, 'rev-parse', 'HEAD');
  writeFileSync(join(clone, 'fix.ts'), 'my file');
  expect(await ada.muster(['checkout', name], { folder: clone })).toMatchObject({
    code: 1,
    err: expect.stringContaining('fix.ts'),
  });
  expect(readFileSync(join(clone, 'fix.ts'), 'utf8')).toBe('my file');
  execFileSync('rm', [join(clone, 'fix.ts')]);
  expect(await ada.data(['checkout', name], { folder: clone })).toMatchObject({
    branch: `muster/${name}-2`,
    commit: head,
    created: true,
    uncommitted: 'none',
  });
  expect(gitIn(clone, 'rev-parse', `muster/${name}`)).toBe(mine);
});

test('when the pushed branch has newer commits, the uncommitted files get their own branch', async () => {
  const { name, own } = await agentWithWork({ pushes: true });
  gitIn(own, 'commit', '-q', '--allow-empty', '-m', 'newer');
  gitIn(own, 'push', '-q', 'origin', 'HEAD:work/fix');
  expect(await ada.data(['checkout', name], { folder: clone })).toMatchObject({
    branch: 'work/fix',
    commit: gitIn(own, 'rev-parse', 'HEAD'),
    uncommitted: 'branch work/fix-uncommitted',
  });
  expect(gitIn(clone, 'show', 'work/fix-uncommitted:draft.txt')).toBe('not committed');
  expect(gitIn(clone, 'status', '--porcelain')).toBe('');
});

test('nothing in the archive becomes a file, a link or a hook of the clone', async () => {
  const { name, own, packed, save } = await agentWithWork({ uncommitted: false });
  mkdirSync(join(own, 'hooks'));
  const marker = join(ada.home, 'hook-ran');
  for (const hook of ['post-checkout', 'reference-transaction']) {
    writeFileSync(join(own, 'hooks', hook), `#!/bin/sh\ntouch ${marker}\n`);
    chmodSync(join(own, 'hooks', hook), 0o755);
  }
  gitIn(own, 'add', '.');
  gitIn(own, 'commit', '-qm', 'hooks');
  gitIn(own, 'bundle', 'create', '-q', join(packed, 'repos', 'shop.bundle'), 'work/fix', `^${base}`);
  const head = gitIn(own, 'rev-parse', 'HEAD');
  writeFileSync(join(packed, 'repos', 'shop.refs'), `${head}\n`);
  const outside = join(ada.home, 'outside.refs');
  writeFileSync(join(ada.home, 'secret'), 'secret');
  symlinkSync(join(ada.home, 'secret'), join(packed, 'repos', 'link.refs'));
  writeFileSync(outside, 'refs/heads/x\n');
  await save(outside);
  gitIn(clone, 'config', 'core.hooksPath', 'hooks');
  expect(await ada.data(['checkout', name], { folder: clone })).toMatchObject({ commit: head });
  expect(existsSync(marker)).toBe(false);
});

test('says what is missing: a clone, work, the right repository, a valid archive', async () => {
  const { name } = await agentWithWork();
  expect(await ada.muster(['checkout', name], { folder: folder() })).toMatchObject({ code: 2 });
  const other = folder();
  gitIn(other, 'init', '-q');
  gitIn(other, 'remote', 'add', 'origin', other);
  expect(await ada.muster(['checkout', name], { folder: other })).toMatchObject({
    code: 1,
    err: expect.stringContaining('is it of the same repository?'),
  });
  expect(await ada.muster(['checkout', name, '--repo', 'x'], { folder: clone })).toMatchObject({
    code: 2,
    err: expect.stringContaining('--repo: the checkpoint has shop; got "x"'),
  });
  await t.spawn('empty');
  const claim = await t.start('empty');
  expect(await ada.muster(['checkout', 'empty'], { folder: clone })).toMatchObject({
    code: 3,
    err: expect.stringContaining('there is nothing to check out'),
  });
  await t.runner.saveCheckpoint(claim, Buffer.from('not an archive'));
  expect(await ada.muster(['checkout', 'empty'], { folder: clone })).toMatchObject({
    code: 1,
    err: expect.stringContaining('the checkpoint is not a valid archive'),
  });
});
