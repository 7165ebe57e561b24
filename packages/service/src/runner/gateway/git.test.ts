import { execFile, execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, writeFileSync } from 'node:fs';
import { appendFile, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { Server } from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { limits } from '@muster/sdk/contract';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { eventually } from '../../../../../test/support/async.ts';
import { type GitAgentOptions, startGitAgent } from '../../../../../test/support/git-agent.ts';
import { type GitRemote, makeGitRemote } from '../../../../../test/support/git-remote.ts';
import { Mirrors } from '../workspace/mirror.ts';

let folder: string;
let mirrors: Mirrors;
let remote: GitRemote;
let base: string;
let servers: Server[] = [];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'muster-git-endpoint-'));
  await mkdir(join(folder, 'data'));
  mirrors = new Mirrors(join(folder, 'data'), process.env, []);
  remote = makeGitRemote(folder, 'app');
  base = remote.commit('main', { 'a.txt': 'one\n', 'b.txt': 'two\n' });
});
afterEach(async () => {
  for (const server of servers) server.close();
  servers = [];
  await rm(folder, { recursive: true, force: true });
});

const startAgent = async (name = 'root', options: GitAgentOptions = {}) => {
  const agent = await startGitAgent({ folder, mirrors, remote, name }, options);
  servers.push(agent.server);
  return agent;
};

const upstream = (branch: string) => remote.tip(branch);

/** What the repository's host says to a push. */
function guardRemote(script: string): void {
  const hook = join(remote.url, 'hooks', 'pre-receive');
  writeFileSync(hook, `#!/bin/sh\n${script}\n`);
  chmodSync(hook, 0o755);
}

describe("a push of the agent's branch", () => {
  it('has reached the upstream when git reports success; its commits, files and diff are reported', async () => {
    const agent = await startAgent();
    const first = await agent.commit({ 'a.txt': 'one\nmore\n' });
    const second = await agent.commit({ 'ü.txt': 'new\n' });
    await agent.git('push');
    expect(upstream(agent.branch)).toBe(second);
    expect(remote.git('log', '-1', '--format=%an <%ae>', agent.branch)).toBe(
      'Muster agent root/root <agent@muster.invalid>',
    );
    expect(agent.pushes).toEqual([
      {
        repo: remote.url,
        ref: agent.branch,
        tip: second,
        commits: [first, second],
        files: ['a.txt', 'ü.txt'],
      },
    ]);
    expect(agent.diffs).toMatchObject([{ repo: remote.url, files: 2, insertions: 2, deletions: 0 }]);
    expect(agent.diffs[0]?.text).toMatch(/^diff --git a\/a\.txt b\/a\.txt\n.*\n\+more\n.*\n\+new\n$/s);
    expect([...agent.tokens]).toEqual(['Bearer run-token']);

    const third = await agent.commit({ 'a.txt': 'one\nmore\nand more\n' });
    expect(await agent.git('status', '--branch', '--porcelain')).toContain('[ahead 1]');
    await agent.git('push');
    expect(agent.pushes[1]).toMatchObject({ commits: [third], files: ['a.txt'] });
    expect(agent.diffs[1]).toMatchObject({ files: 2, insertions: 3 });
    expect(await agent.git('push')).toContain('Everything up-to-date');
    expect(agent.pushes).toHaveLength(2);
  });

  it('may be forced; only new commits are reported', async () => {
    const agent = await startAgent();
    await agent.commit({ 'a.txt': 'wrong\n' });
    await agent.git('push');
    await agent.git('reset', '--quiet', '--hard', base);
    const right = await agent.commit({ 'b.txt': 'right\n' });
    expect((await agent.tryGit(['push'])).output).toContain('non-fast-forward');
    await agent.git('push', '--force');
    expect(upstream(agent.branch)).toBe(right);
    expect(agent.pushes[1]).toMatchObject({ commits: [right], files: ['a.txt', 'b.txt'] });
    expect(agent.diffs[1]).toMatchObject({ files: 1, insertions: 1, deletions: 1 });
  });

  it('may be the first of an empty repository', async () => {
    const empty = makeGitRemote(folder, 'empty');
    const agent = await startAgent('root', { repos: [empty.url] });
    const first = await agent.commit({ 'x.txt': 'x\n' });
    await agent.git('push');
    expect(empty.tip(agent.branch)).toBe(first);
    expect(agent.pushes).toMatchObject([{ commits: [first], files: ['x.txt'] }]);
    expect(agent.diffs).toMatchObject([{ files: 1, insertions: 1 }]);
  });

  it("of a child reports what it added to its parent's branch", async () => {
    const parent = await startAgent('parent');
    await parent.commit({ 'p.txt': 'p\n' });
    await parent.git('push');
    const child = await startAgent('child', { startFrom: [parent.branch] });
    const own = await child.commit({ 'c.txt': 'c\n' });
    await child.git('push');
    expect(child.pushes).toMatchObject([{ commits: [own], files: ['c.txt'] }]);
    expect(child.diffs).toMatchObject([{ files: 2 }]);
  });

  it('goes to the right one of two repositories', async () => {
    const lib = makeGitRemote(folder, 'lib');
    lib.commit('main', { 'l.txt': 'l\n' });
    const agent = await startAgent('root', { repos: [remote.url, lib.url] });
    const inApp = await agent.commit({ 'a.txt': 'A\n' }, 'app');
    const inLib = await agent.commit({ 'l.txt': 'L\n' }, 'lib');
    await agent.git('-C', 'app', 'push');
    await agent.git('-C', 'lib', 'push');
    expect([upstream(agent.branch), lib.tip(agent.branch)]).toEqual([inApp, inLib]);
    expect(agent.pushes.map(({ repo }) => repo)).toEqual([remote.url, lib.url]);
  });

  it('in progress when the run ends is completed and reported', async () => {
    const agent = await startAgent();
    const tip = await agent.commit({ 'a.txt': 'mine\n' });
    guardRemote(`touch ${folder}/begun; until [ -e ${folder}/go ]; do sleep 0.05; done`);
    const pushing = agent.tryGit(['push']);
    await eventually(() => expect(existsSync(join(folder, 'begun'))).toBe(true));
    const closing = agent.close();
    writeFileSync(join(folder, 'go'), '');
    await closing;
    expect(agent.pushes).toMatchObject([{ commits: [tip], files: ['a.txt'] }]);
    expect(upstream(agent.branch)).toBe(tip);
    await pushing;
  });

  it('that is damaged does not disturb the ones behind it', async () => {
    const agent = await startAgent();
    const sendPush = async (rest: string) => {
      const socket = connect(Number(new URL(agent.endpointUrl).port), '127.0.0.1');
      socket.write(`POST /git/0/git-receive-pack HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n${rest}`);
      await once(socket, 'connect');
      return socket;
    };
    const waiting = await sendPush('\r\n0');
    await agent.git('ls-remote');
    const broken = await sendPush('Content-Encoding: gzip\r\n\r\nnot zipped');
    await agent.git('ls-remote');
    waiting.destroy();
    const [answer] = (await once(broken, 'data')) as [Buffer];
    expect(answer.toString()).toContain(' 400 ');
    broken.destroy();
    await agent.commit({ 'a.txt': 'mine\n' });
    await agent.git('push');
  });

  it('may be large', async () => {
    const agent = await startAgent();
    for (let i = 0; i < 150; i++) await writeFile(join(agent.workspace, `f${i}`), `${i}\n`.repeat(40 * i));
    const noise = Array.from({ length: 60_000 }, (_, i) => (i * 2654435761) % 4294967296);
    await writeFile(join(agent.workspace, 'noise'), noise.join(' '));
    const tip = await agent.commit({});
    await agent.git('-c', 'http.postBuffer=65536', 'push');
    expect(upstream(agent.branch)).toBe(tip);
    expect(agent.pushes[0]?.files).toHaveLength(151);
    const text = agent.diffs[0]?.text ?? '';
    expect(text.length).toBeLessThanOrEqual(limits.diffLength);
    expect(text).toMatch(/\n\[The diff is longer than this\.\]\n$/);
  });

  it('leaves binary files out of the diff', async () => {
    const agent = await startAgent();
    await writeFile(join(agent.workspace, 'x.bin'), Buffer.from([0, 1, 2, 0, 255]));
    await agent.commit({});
    await agent.git('push');
    expect(agent.diffs[0]?.text).toContain('Binary files /dev/null and b/x.bin differ');
    expect(agent.diffs).toMatchObject([{ files: 1, insertions: 0, deletions: 0 }]);
  });

  it('succeeds for many agents at the same time', async () => {
    const names = ['a', 'b', 'c', 'd'];
    const agents = await Promise.all(names.map((name) => startAgent(name)));
    const tips = await Promise.all(agents.map((agent, i) => agent.commit({ [`${names[i]}.txt`]: 'x\n' })));
    await Promise.all(agents.map((agent) => agent.git('push')));
    expect(agents.map(({ branch }) => upstream(branch))).toEqual(tips);
    expect(agents.map(({ pushes }) => pushes[0]?.commits)).toEqual(tips.map((tip) => [tip]));
  });
});

describe('a push that is refused', () => {
  it('names each ref that may not be pushed, and does not affect the branch in the same push', async () => {
    const agent = await startAgent();
    const tip = await agent.commit({ 'a.txt': 'mine\n' });
    const both = await agent.tryGit(['push', 'origin', 'muster/root', 'HEAD:refs/heads/main']);
    expect(both.output).toContain('! [remote rejected] HEAD -> main');
    expect([upstream(agent.branch), upstream('main')]).toEqual([tip, base]);
    await agent.commit({ 'a.txt': 'mine again\n' });
    const before = remote.refs();
    for (const [ref, reason] of [
      ['HEAD:refs/heads/main', 'this is not your branch; push to muster/root'],
      ['HEAD:refs/heads/x', 'this is not your branch; push to muster/root'],
      ['HEAD:refs/tags/v1', "tags can't be pushed; push to muster/root"],
      [':refs/heads/main', "refs can't be deleted"],
      [':refs/heads/muster/root', "refs can't be deleted"],
    ] as const) {
      const said = await agent.tryGit(['push', 'origin', ref]);
      expect(said, ref).toMatchObject({ ok: false });
      expect(said.output).toContain(`(muster: ${reason}`);
      expect(said.output).toContain('remote: muster: only the branch muster/root may be pushed');
      expect(remote.refs(), ref).toEqual(before);
    }
    expect([upstream(agent.branch), upstream('main'), agent.pushes.length]).toEqual([tip, base, 1]);
  });

  it('by the host shows the text of the host, without the operator’s credentials', async () => {
    guardRemote('echo "this branch is protected: http://me:secret@host/x" >&2; exit 1');
    const agent = await startAgent();
    await agent.commit({ 'a.txt': 'mine\n' });
    const said = await agent.tryGit(['push']);
    expect(said.output).toContain('remote: this branch is protected: http://host/x');
    expect(said.output).toContain(`muster: ${remote.url} refused the push: pre-receive hook declined`);
    expect(said.output).not.toContain('secret');
    expect(remote.refs()).toEqual(['main']);
    expect(agent.pushes).toEqual([]);
    guardRemote('exit 0');
    await agent.git('push');
    expect(agent.pushes).toHaveLength(1);
  });

  it('because the branch was changed by someone else loses nothing, and succeeds after a fetch', async () => {
    const agent = await startAgent();
    const lease = await agent.commit({ 'a.txt': 'mine\n' });
    await agent.git('push');
    const theirs = remote.commit(agent.branch, { 'theirs.txt': 't\n' });
    const own = await agent.commit({ 'b.txt': 'mine\n' });

    // As if the branch had been changed during the push.
    const command = `${lease} ${own} refs/heads/${agent.branch}\0 report-status`;
    const pack = execPack(agent.workspace, `${own}\n^${lease}\n`);
    const reply = await fetch(`${agent.endpointUrl}/git/0/git-receive-pack`, {
      method: 'POST',
      body: new Blob([`${pkt(command)}0000`, await pack]),
    });
    expect(await reply.text()).toContain('the branch was changed by someone else; fetch it');
    expect(upstream(agent.branch)).toBe(theirs);

    expect((await agent.tryGit(['push'])).output).toContain('rejected');
    expect(upstream(agent.branch)).toBe(theirs);
    await agent.git('pull', '--quiet', '--rebase');
    const tip = await agent.git('rev-parse', 'HEAD');
    await agent.git('push');
    expect(upstream(agent.branch)).toBe(tip);
    expect(agent.pushes[1]).toMatchObject({ commits: [tip], files: ['b.txt'] });
  });

  it('because its trees expand to too many files', async () => {
    const agent = await startAgent();
    const make = (lines: readonly string[]) =>
      execFileSync('git', ['-C', agent.workspace, 'mktree'], {
        input: `${lines.join('\n')}\n`,
        encoding: 'utf8',
      });
    const file = await agent.git('rev-parse', 'HEAD:a.txt');
    let tree = make([0, 1, 2, 3, 4, 5, 6, 7, 8, 9].map((i) => `100644 blob ${file}\t${i}`)).trim();
    for (let level = 0; level < 9; level++)
      tree = make([0, 1, 2, 3, 4, 5, 6, 7, 8, 9].map((i) => `040000 tree ${tree}\t${i}`)).trim();
    const tip = await agent.git('commit-tree', '-p', base, '-m', 'ten thousand million files', tree);
    const said = await agent.tryGit(['push', 'origin', `${tip}:refs/heads/${agent.branch}`]);
    expect(said.output).toContain('muster: the commit has too many files');
    expect(remote.refs()).toEqual(['main']);
  });

  it('is stopped when the run loses its lease; later ones are told that the run has ended', async () => {
    const agent = await startAgent();
    await agent.commit({ 'a.txt': 'mine\n' });
    guardRemote(`touch ${folder}/begun; sleep 600`);
    const pushing = agent.tryGit(['push']);
    await eventually(() => expect(existsSync(join(folder, 'begun'))).toBe(true));
    agent.stop.abort();
    expect((await pushing).output).toContain('git was killed');
    expect((await agent.tryGit(['push'])).output).toContain('muster: the run has ended');
    expect(remote.refs()).toEqual(['main']);
    expect(agent.pushes).toEqual([]);
  });
});

const pkt = (text: string) => (text.length + 4).toString(16).padStart(4, '0') + text;

const execPack = (at: string, revisions: string): Promise<Uint8Array<ArrayBuffer>> =>
  new Promise((resolve, reject) => {
    const args = ['-C', at, 'pack-objects', '--revs', '--thin', '--stdout', '--quiet'];
    const child = execFile('git', args, { encoding: 'buffer' }, (error, stdout) =>
      error ? reject(error) : resolve(new Uint8Array(stdout)),
    );
    child.stdin?.end(revisions);
  });

describe('a fetch', () => {
  it('gets the current state of the upstream, or reports that it is unreachable', async () => {
    const agent = await startAgent();
    const next = remote.commit('main', { 'n.txt': 'n\n' });
    await agent.git('fetch', '--quiet');
    expect(await agent.git('rev-parse', 'origin/main')).toBe(next);
    for (const version of ['0', '1', '2']) {
      const args = ['-c', `protocol.version=${version}`, 'ls-remote', 'origin', 'main'];
      expect(await agent.git(...args)).toBe(`${next}\trefs/heads/main`);
    }
    const squeezed = await fetch(`${agent.endpointUrl}/git/0/git-upload-pack`, {
      method: 'POST',
      headers: { 'git-protocol': 'version=2', 'content-encoding': 'gzip' },
      body: new Uint8Array(gzipSync(`${pkt('command=ls-refs\n')}00010000`)),
    });
    expect(await squeezed.text()).toContain(`${next} refs/heads/main\n`);
    await rm(remote.url, { recursive: true });
    const said = await agent.tryGit(['fetch']);
    expect(said.output).toContain(`fatal: remote error: muster: can't fetch ${remote.url}`);
  });

  it('of everything works for a second clone, deep and shallow', async () => {
    const agent = await startAgent();
    for (let i = 0; i < 3; i++) remote.commit('main', { 'n.txt': `${i}\n` });
    await agent.git('clone', '--quiet', remote.url, 'again');
    await agent.git('clone', '--quiet', '--depth=1', remote.url, 'shallow');
    expect(await agent.git('-C', 'again', 'rev-list', '--count', 'HEAD')).toBe('4');
    expect(await agent.git('-C', 'shallow', 'rev-list', '--count', 'HEAD')).toBe('1');
    await agent.git('-C', 'shallow', 'checkout', '--quiet', '-b', agent.branch);
    await appendFile(join(agent.workspace, 'shallow', 'n.txt'), 'more\n');
    await agent.git('-C', 'shallow', 'commit', '--quiet', '--all', '--message', 'x');
    await agent.git('-C', 'shallow', 'push', '--quiet');
    expect(agent.pushes).toMatchObject([{ files: ['n.txt'] }]);
    expect(agent.pushes[0]?.commits).toHaveLength(1);
  });

  it('of anything else is not found', async () => {
    const { endpointUrl } = await startAgent();
    const statusOf = async (path: string) => (await fetch(`${endpointUrl}${path}`)).status;
    expect(await statusOf('/git/1/info/refs?service=git-upload-pack')).toBe(404);
    expect(await statusOf('/git/0/../0/HEAD')).toBe(404);
    expect(await statusOf('/git/0/info/refs')).toBe(403);
    expect(await statusOf('/git/0/info/refs?service=git-upload-archive')).toBe(403);
    expect(await statusOf('/git/0/git-upload-pack')).toBe(405);
    const bad = await fetch(`${endpointUrl}/git/0/git-receive-pack`, { method: 'POST', body: 'zzzz' });
    expect([bad.status, await bad.text()]).toEqual([
      400,
      'muster: the request does not consist of git packets\n',
    ]);
  });
});
