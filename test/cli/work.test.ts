import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { Claim } from '@muster/sdk/contract';
import { beforeAll, describe, expect, test } from 'vitest';
import { gitIn } from '../support/git-remote.ts';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';
import { userOfSharedServer } from './cli.ts';

const partBytes = 1024 * 1024;

const ada = userOfSharedServer({ runner: false });
let t: TestTenant;

beforeAll(async () => {
  t = await newTestTenant(ada.api);
});

const nameOf = (path: string): string => `${t.workspace}:${path}`;
const folder = (): string => mkdtempSync(join(ada.home, 'folder-'));

async function started(path: string): Promise<Claim> {
  await t.spawn(path);
  return t.start(path);
}

describe('work', () => {
  test('downloads the newest checkpoint to a file, and prints what it is', async () => {
    const claim = await started('saved');
    await t.spawn('saved/child');
    const child = await t.start('saved/child');
    await t.runner.saveCheckpoint(claim, randomBytes(10));
    const archive = randomBytes(2 * partBytes + 100);
    await t.runner.saveCheckpoint(claim, archive);
    await t.runner.saveCheckpoint(child, randomBytes(2048));
    const here = folder();
    const { code, out, err } = await ada.muster(['work', nameOf('saved')], { folder: here });
    expect({ code, out }).toEqual({ code: 0, out: '' });
    expect(err).toMatch(/^saved \d+[smh] ago in run 1, 2 MiB; written to saved-work\.tar\.gz$/m);
    expect(readFileSync(join(here, 'saved-work.tar.gz')).equals(archive)).toBe(true);
    expect(statSync(join(here, 'saved-work.tar.gz')).mode & 0o777).toBe(0o600);
    expect(await ada.data(['work', nameOf('saved/child')], { folder: here })).toEqual({
      file: 'saved-child-work.tar.gz',
      checkpointId: expect.any(String),
      runId: '1',
      completedAt: expect.any(String),
      bytes: '2048',
    });
    expect(readdirSync(here).sort()).toEqual(['saved-child-work.tar.gz', 'saved-work.tar.gz']);
  });

  test('replaces a file only with --force', async () => {
    const archive = randomBytes(100);
    await t.runner.saveCheckpoint(await started('twice'), archive);
    const file = ada.file('mine.tar.gz', 'mine');
    expect(await ada.muster(['work', nameOf('twice'), '-f', file])).toMatchObject({
      code: 5,
      err: `muster: ${file} already exists; --force replaces it\n`,
    });
    expect(readFileSync(file, 'utf8')).toBe('mine');
    await ada.prints(['work', nameOf('twice'), '-f', file, '--force']);
    expect(readFileSync(file).equals(archive)).toBe(true);
    const nowhere = join(ada.home, 'no-such-folder', 'x.tar.gz');
    expect(await ada.muster(['work', nameOf('twice'), '-f', nowhere])).toMatchObject({
      code: 2,
      err: expect.stringContaining(`can't write ${nowhere}`),
    });
  });

  test('-f - writes the archive alone to standard output', async () => {
    const archive = randomBytes(partBytes + 1);
    await t.runner.saveCheckpoint(await started('piped'), archive);
    const child = ada.start(['work', nameOf('piped'), '-f', '-', '-o', 'json']);
    const pieces: Buffer[] = [];
    child.stdout?.on('data', (piece: Buffer) => pieces.push(piece));
    const [code] = await once(child, 'close');
    expect(code).toBe(0);
    expect(Buffer.concat(pieces).equals(archive)).toBe(true);
  });

  test('reports a missing checkpoint, and a missing agent', async () => {
    await started('unsaved');
    expect(await ada.muster(['work', nameOf('unsaved')])).toMatchObject({
      code: 3,
      err: `muster: ${nameOf('unsaved')} has no checkpoint: nothing was saved yet, or it was removed after the agent ended\n`,
    });
    expect(await ada.muster(['work', 'nobody'])).toMatchObject({
      code: 3,
      err: expect.stringContaining('muster ps --all'),
    });
  });

  /** A proxy that saves a newer checkpoint before it forwards a request for part 1. */
  async function savingProxy(claim: Claim, archives: Buffer[]) {
    const front = createServer(async (request, reply) => {
      const pieces: Buffer[] = [];
      for await (const piece of request) pieces.push(piece as Buffer);
      const body = Buffer.concat(pieces);
      const newer = (JSON.parse(body.toString()) as { part: number }).part === 1 && archives.shift();
      if (newer) await t.runner.saveCheckpoint(claim, newer);
      const { authorization = '' } = request.headers;
      const headers = { authorization, 'content-type': 'application/json' };
      const answer = await fetch(`${ada.server.url}${request.url}`, { method: 'POST', headers, body });
      reply.writeHead(answer.status, { 'content-type': 'application/json' }).end(await answer.text());
    });
    await once(front.listen(0, '127.0.0.1'), 'listening');
    const url = `http://127.0.0.1:${(front.address() as AddressInfo).port}`;
    return { env: { MUSTER_URL: url }, close: () => front.close() };
  }

  test('starts over when a newer checkpoint replaces the one that it downloads, up to 5 times', async () => {
    const claim = await started('busy');
    const archives = Array.from({ length: 6 }, () => randomBytes(partBytes + 10));
    await t.runner.saveCheckpoint(claim, archives[0] as Buffer);
    const once = await savingProxy(claim, archives.slice(1, 2));
    const file = join(folder(), 'busy.tar.gz');
    await ada.prints(['work', nameOf('busy'), '-f', file], { env: once.env });
    expect(readFileSync(file).equals(archives[1] as Buffer)).toBe(true);
    once.close();

    const always = await savingProxy(claim, archives.slice(1));
    const here = folder();
    expect(await ada.muster(['work', nameOf('busy')], { env: always.env, folder: here })).toMatchObject({
      code: 5,
      err: expect.stringContaining('saved a newer checkpoint during each of 5 downloads'),
    });
    expect(readdirSync(here)).toEqual([]);
    always.close();
  });

  test('the printed commands bring the work into a clone', async () => {
    const clone = folder();
    const commit = (...args: string[]) => gitIn(clone, 'commit', '--allow-empty', '-qm', ...args);
    gitIn(clone, 'init', '-q', '-b', 'main');
    commit('base');
    const base = gitIn(clone, 'rev-parse', 'HEAD');
    commit('unpushed');
    writeFileSync(join(clone, 'draft.txt'), 'not committed');
    gitIn(clone, 'add', '.');
    gitIn(clone, 'commit', '-qm', 'work');
    gitIn(clone, 'update-ref', 'refs/muster/work', 'HEAD');
    gitIn(clone, 'reset', '-q', '--hard', 'HEAD~1');
    const packed = folder();
    mkdirSync(join(packed, 'repos'));
    const bundle = join(packed, 'repos', 'shop.bundle');
    gitIn(clone, 'bundle', 'create', '-q', bundle, 'main', 'refs/muster/work', `^${base}`);
    gitIn(clone, 'update-ref', '-d', 'refs/muster/work');
    gitIn(clone, 'reset', '-q', '--hard', base);
    await t.runner.saveCheckpoint(
      await started('bundled'),
      execFileSync('tar', ['-cz', '-C', packed, 'repos']),
    );

    const { err } = await ada.muster(['work', nameOf('bundled')], { folder: clone });
    const [, unpack = ''] = /(mkdir .* tar -xzf .*)$/m.exec(err) ?? [];
    const [, fetched = ''] = /(git fetch .*)$/m.exec(err) ?? [];
    execFileSync('sh', ['-c', `${unpack} && ${fetched.replace('<path>', 'shop')}`], {
      cwd: clone,
      stdio: 'pipe',
    });
    expect(gitIn(clone, 'show', 'refs/muster-work/muster/work:draft.txt')).toBe('not committed');
    expect(gitIn(clone, 'log', '-1', '--format=%s', 'refs/muster-work/heads/main')).toBe('unpushed');
  });
});

describe('status', () => {
  const unpushed = async (path: string) =>
    /^unpushed +(.*)$/m.exec(await ada.prints(['status', nameOf(path)]))?.[1];

  test('shows what is unpushed, and whether it was saved', async () => {
    const claim = await started('counted');
    expect(await unpushed('counted')).toBeUndefined();
    await t.report(claim, { unpushed: { commits: 2, files: 3, isSaved: false } });
    expect(await unpushed('counted')).toBe('2 commits, 3 changed files; not saved');
    await t.report(claim, { unpushed: { commits: 1, files: 0, isSaved: true } });
    expect(await unpushed('counted')).toMatch(/^1 commit; saved \d+[smh] ago$/);
    await t.report(claim, { unpushed: { commits: 0, files: 0, isSaved: false } });
    expect(await unpushed('counted')).toMatch(/^nothing; saved \d+[smh] ago$/);
    const ps = () => ada.prints(['ps', '--workspace', t.workspace]);
    expect(await ps()).not.toContain('commit');
    await t.report(claim, { unpushed: { commits: 1, files: 1, isSaved: true, isPartial: true } });
    expect(await unpushed('counted')).toMatch(/^1 commit, 1 changed file; partly saved \d+[smh] ago$/);
    expect(await ps()).toMatch(/ UNPUSHED[\s\S]* 1 commit, 1 changed file, partly saved \d+[smh] ago/);
  });

  test('of the work that a kill ends is named before and after it', async () => {
    const claim = await started('doomed');
    await t.spawn('doomed/child');
    const child = await t.start('doomed/child');
    await t.report(claim, { unpushed: { commits: 2, files: 8, isSaved: false } });
    await t.report(child, { unpushed: { commits: 1, files: 0, isSaved: true } });
    await t.queue('doomed/child', 'too late');
    const asked = await ada.muster(['kill', nameOf('doomed')]);
    expect(asked.code).toBe(2);
    expect(asked.err).toMatch(
      /^This ends doomed \(.*; unpushed: 2 commits, 8 changed files, not saved\) and 1 agent below it:\n {2}doomed\/child \(.*; unpushed: 1 commit, saved \d+[smh] ago\)\nA turn in progress may have changed more .*\nUnpushed work is kept only in a last checkpoint, for 30 days: .*\n1 undelivered message will be cleared\.\n/,
    );
    const killed = await ada.muster(['kill', nameOf('doomed'), '--yes']);
    expect(killed).toMatchObject({ code: 0, out: `ended ${nameOf('doomed')}\n` });
    expect(killed.err).toContain(
      `doomed had unpushed work (2 commits, 8 changed files); muster work ${nameOf('doomed')} downloads its last checkpoint\n`,
    );
    const archive = randomBytes(10);
    await t.runner.saveCheckpoint(claim, archive, true);
    const file = join(folder(), 'killed.tar.gz');
    await ada.prints(['work', nameOf('doomed'), '-f', file]);
    expect(readFileSync(file).equals(archive)).toBe(true);
  });
});

describe('diff', () => {
  test('shows what was pushed, or the working tree', async () => {
    const claim = await started('changed');
    const diff = { repo: 'https://git.example.com/shop', files: 1, insertions: 1, deletions: 0 };
    expect(await ada.muster(['diff', nameOf('changed'), '--working-tree'])).toMatchObject({
      code: 0,
      err: `the working tree of ${nameOf('changed')} has no changes\n`,
    });
    await t.report(claim, { diff: { ...diff, text: '+in the working tree', workingTree: true } });
    expect(await ada.muster(['diff', nameOf('changed')])).toMatchObject({
      code: 0,
      err: `${nameOf('changed')} has pushed nothing; --working-tree shows unpushed changes\n`,
    });
    await t.report(claim, { diff: { ...diff, text: '+pushed' } });
    expect(await ada.prints(['diff', nameOf('changed')])).toBe('+pushed\n');
    expect(await ada.prints(['diff', nameOf('changed'), '--working-tree'])).toBe('+in the working tree\n');
  });
});
