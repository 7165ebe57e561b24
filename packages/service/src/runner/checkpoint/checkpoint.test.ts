import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Claim, RunnerCheckpoint } from '@muster/sdk/contract';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { type GitRemote, gitIn, makeGitRemote } from '../../../../../test/support/git-remote.ts';
import type { Harness, Processes } from '../../harness/harness.ts';
import { agentProcesses } from '../sandbox/processes.ts';
import type { PreparedRepository } from '../workspace/prepare.ts';
import type { CheckpointOptions } from './checkpoint-client.ts';
import { type Packed, pack } from './pack.ts';
import { CheckpointRestorer } from './restorer.ts';
import { CheckpointSaver } from './saver.ts';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'muster-checkpoint-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const { signal } = new AbortController();
const repository = {
  name: 'code',
  path: '.',
  baseBranch: '',
  shownUrl: 'https://host/code',
} as PreparedRepository;

/** The folders of an agent on one machine. */
class Machine {
  readonly workspace = mkdtempSync(join(folder, 'workspace-'));
  readonly home = mkdtempSync(join(folder, 'home-'));
  readonly processes: Processes = agentProcesses({
    sandbox: null,
    folders: { workspaceFolder: this.workspace, homeFolder: this.home },
    dataFolder: folder,
    runFolder: folder,
    agentKey: 'a',
    runId: 1,
    variables: { PATH: `${join(this.workspace, 'bin')}:${process.env.PATH}` },
    gateway: { port: 9 },
  });

  sh(script: string): string {
    return execFileSync('/bin/sh', ['-ec', script], {
      cwd: this.workspace,
      encoding: 'utf8',
      env: {
        PATH: process.env.PATH,
        GIT_CONFIG_NOSYSTEM: '1',
        GIT_CONFIG_GLOBAL: '/dev/null',
        GIT_AUTHOR_NAME: 'A',
        GIT_AUTHOR_EMAIL: 'a@b',
        GIT_COMMITTER_NAME: 'A',
        GIT_COMMITTER_EMAIL: 'a@b',
      },
    }).trim();
  }

  /** As a runner does it: the agent's own branch, where it was pushed or at the base. */
  clone(remote: GitRemote): this {
    this.sh(`git clone --quiet ${remote.url} . 2> /dev/null
      git checkout --quiet -B work $(git rev-parse -q --verify origin/work || echo origin/main)`);
    return this;
  }
}

interface Archive {
  readonly packed: Packed | undefined;
  readonly parts: Buffer[];
}

async function packed(machine: Machine, repos = [repository], fingerprint = ''): Promise<Archive> {
  const parts: Buffer[] = [];
  const onPart = async (part: Buffer): Promise<void> => void parts.push(part);
  const { processes } = machine;
  return {
    packed: await pack({ processes, repos, patterns: ['.s/*.jsonl'], fingerprint, signal, onPart }),
    parts,
  };
}

const unusedClient: CheckpointOptions['client'] = {
  savePart: async () => {},
  complete: async () => {},
  checkpoints: async () => [],
  loadPart: async () => Buffer.alloc(0),
};

const optionsOf = (machine: Machine, repos: readonly PreparedRepository[]): CheckpointOptions => ({
  client: unusedClient,
  claim: { session: 's', runId: 2 } as Claim,
  harness: { sessionFiles: () => [] } as unknown as Harness,
  workspaceFolder: machine.workspace,
  homeFolder: machine.home,
  isFresh: true,
  repos,
  processes: machine.processes,
  listener: { item: () => {}, diff: () => {}, unpushed: () => {} },
  intervalMs: 60_000,
  signal,
});

/** Restores the archive on a machine, and returns the notes about it. */
async function restored(
  machine: Machine,
  { parts }: Archive,
  repos = [repository],
): Promise<readonly string[]> {
  const checkpoint: RunnerCheckpoint = {
    checkpointId: randomUUID(),
    runId: 1,
    final: true,
    parts: parts.length,
    bytes: 0,
    completedAt: '',
  };
  const restorer = new CheckpointRestorer({
    ...optionsOf(machine, repos),
    client: {
      ...unusedClient,
      checkpoints: async () => [checkpoint],
      loadPart: async (_, part) => parts[part] ?? Buffer.alloc(0),
    },
  });
  await restorer.restore(signal);
  return restorer.notes;
}

let remotes = 0;
function makeRemote(): GitRemote {
  const remote = makeGitRemote(folder, `remote-${remotes++}`);
  remote.commit('main', { '.gitignore': 'build\n', 'a.txt': 'a\n', 'b.txt': 'b\n', 'run.sh': 'echo\n' });
  return remote;
}

const state =
  'git status --porcelain --branch --untracked-files=all; git log -1 --format=%H; git for-each-ref; git stash list; git ls-files --stage';

describe('a repository', () => {
  it('is restored as it was: branches, commits, tags, stash, changed, deleted and new files', async () => {
    const remote = makeRemote();
    const old = new Machine().clone(remote);
    old.sh(`echo 1 > one.txt; git add .; git commit -qm One; git push -q origin work; git branch -q -u origin/work
      echo 2 > two.txt; git add .; git commit -qm Two; git tag -a -m mine mine; git branch other HEAD~1
      echo s > b.txt; git stash push -q -m first; echo t > b.txt; git stash push -q -m second
      echo changed > a.txt; rm b.txt; echo staged > staged.txt; git add staged.txt; chmod +x run.sh
      mkdir 'new folder'; echo new > 'new folder/ü "x".txt'; ln -s a.txt link; mkdir build; echo no > build/no`);
    old.sh('git reset -q'); // What is staged comes back as changed.
    mkdirSync(join(old.home, '.s'));
    writeFileSync(join(old.home, '.s', 'x.jsonl'), '{"a":1}\n{"b":');
    const before = old.sh(state);
    const index = readFileSync(join(old.workspace, '.git', 'index'));

    const archive = await packed(old);
    expect(archive.packed).toMatchObject({ commits: 1, files: 6, notes: [], parts: 1 });
    expect(archive.packed?.diffs).toEqual([
      expect.objectContaining({ repo: 'https://host/code', workingTree: true, files: 8, deletions: 2 }),
    ]);
    expect(old.sh(state)).toBe(before);
    expect(readFileSync(join(old.workspace, '.git', 'index'))).toEqual(index);

    const fresh = new Machine().clone(remote);
    fresh.sh('git branch -q -u origin/work');
    expect(await restored(fresh, archive)).toEqual([]);
    expect(fresh.sh(state)).toBe(before);
    expect(fresh.sh('cat "new folder"/*; readlink link; ls build 2> /dev/null || echo none')).toBe(
      'new\na.txt\nnone',
    );
    expect(readFileSync(join(fresh.home, '.s', 'x.jsonl'), 'utf8')).toBe('{"a":1}\n');
  });

  it('is packed again only when something has changed', async () => {
    const machine = new Machine().clone(makeRemote());
    const { packed: first } = await packed(machine);
    const last = first?.fingerprint;
    expect((await packed(machine, [repository], last)).packed).toBeUndefined();
    machine.sh('echo changed > a.txt');
    const { packed: second } = await packed(machine, [repository], last);
    expect(second).toMatchObject({ files: 1, parts: 1 });
    machine.sh('git commit -qam Changed');
    expect((await packed(machine, [repository], second?.fingerprint)).packed).toMatchObject({
      commits: 1,
      files: 0,
    });
  });

  it('without a commit is restored, too', async () => {
    const [old, fresh] = [new Machine(), new Machine()];
    for (const { sh, workspace } of [old, fresh]) sh.call({ workspace }, 'git init -q -b work .');
    old.sh('echo first > first.txt');
    const archive = await packed(old);
    expect(archive.packed).toMatchObject({ commits: 0, files: 1, parts: 1 });
    expect(await restored(fresh, archive)).toEqual([]);
    expect(fresh.sh('git status --porcelain')).toBe('?? first.txt');
  });

  it('is where its HEAD was, also on no branch', async () => {
    const remote = makeRemote();
    const old = new Machine().clone(remote);
    old.sh('git checkout -q --detach; echo 1 > one.txt; git add .; git commit -qm Detached');
    const archive = await packed(old);
    expect(archive.packed).toMatchObject({ commits: 1 });
    const fresh = new Machine().clone(remote);
    expect(await restored(fresh, archive)).toEqual([]);
    expect(fresh.sh('git symbolic-ref -q HEAD || git log -1 --format=%s')).toBe('Detached');
  });

  it('keeps its branch where it was when the base has moved', async () => {
    const remote = makeRemote();
    const old = new Machine().clone(remote);
    old.sh('echo 1 > one.txt; git add .; git commit -qm One');
    const before = old.sh('git rev-parse work');
    const archive = await packed(old);
    remote.commit('main', { 'c.txt': 'c\n' });
    const fresh = new Machine().clone(remote);
    expect(await restored(fresh, archive)).toEqual([]);
    expect(fresh.sh('git rev-parse work HEAD')).toBe(`${before}\n${before}`);
  });

  it('has what was pushed after the checkpoint, and the earlier uncommitted files on a branch', async () => {
    const remote = makeRemote();
    const old = new Machine().clone(remote);
    old.sh('echo draft > one.txt');
    const archive = await packed(old);
    old.sh('echo 1 > one.txt; git add .; git commit -qm One; git push -q origin work');
    const fresh = new Machine().clone(remote);
    expect(await restored(fresh, archive)).toEqual([
      'The branch of . has newer commits; the uncommitted files are on branch saved/uncommitted.',
    ]);
    expect(fresh.sh('git log -1 --format=%s; git status --porcelain; cat one.txt')).toBe('One\n1');
    expect(fresh.sh('git show saved/uncommitted:one.txt')).toBe('draft');
  });

  it('keeps a branch that was replaced by a push after the checkpoint', async () => {
    const remote = makeRemote();
    const old = new Machine().clone(remote);
    old.sh('echo 1 > one.txt; git add .; git commit -qm One');
    const archive = await packed(old);
    old.sh('git commit -q --amend -m Uno; git push -q origin work');
    const fresh = new Machine().clone(remote);
    expect(await restored(fresh, archive)).toEqual([
      'Branch work in . was pushed after the checkpoint; its earlier state is on branch saved/work.',
    ]);
    expect(fresh.sh('git log -1 --format=%s; git log -1 --format=%s saved/work')).toBe('Uno\nOne');
  });

  it('reports when the remote no longer has the commits that the work is based on', async () => {
    const remote = makeRemote();
    const old = new Machine().clone(remote);
    old.sh('echo 1 > one.txt; git add .; git commit -qm One');
    const archive = await packed(old);
    gitIn(remote.url, 'update-ref', '-d', 'refs/heads/main');
    remote.commit('main', { 'z.txt': 'z\n' });
    gitIn(remote.url, 'repack', '-a', '-d', '--quiet');
    const fresh = new Machine().clone(remote);
    expect(await restored(fresh, archive)).toEqual([
      'The unpushed work of . could not be restored: its remote no longer has the commits it is based on.',
    ]);
  });

  it('does not run hooks that the agent has configured', async () => {
    const machine = new Machine().clone(makeRemote());
    mkdirSync(join(machine.workspace, '.git', 'hooks'), { recursive: true });
    for (const name of ['post-index-change', 'reference-transaction', 'fsmonitor']) {
      const hook = join(machine.workspace, '.git', 'hooks', name);
      writeFileSync(hook, `#!/bin/sh\ntouch '${machine.home}/ran'\n`);
      chmodSync(hook, 0o755);
    }
    machine.sh('git config core.fsmonitor .git/hooks/fsmonitor');
    rmSync(join(machine.home, 'ran'), { force: true });
    writeFileSync(join(machine.workspace, 'a.txt'), 'changed');
    expect((await packed(machine)).packed).toMatchObject({ files: 1 });
    expect(() => readFileSync(join(machine.home, 'ran'))).toThrow(/ENOENT/);
  });

  it('reports a nested repository, which is not packed, and packs the rest', async () => {
    const machine = new Machine().clone(makeRemote());
    machine.sh('git init -q inner; echo x > inner/x; git -C inner add .; git -C inner commit -qm Inner');
    machine.sh('git init -q unborn; echo new > new.txt');
    const archive = await packed(machine);
    expect(archive.packed?.notes).toEqual(
      expect.arrayContaining([
        'inner in . is a separate git repository.',
        'Some files of . could not be read.',
      ]),
    );
    expect(archive.packed).toMatchObject({ parts: 1 });
  });

  it('that is too large is not packed, and its size is reported', async () => {
    const machine = new Machine().clone(makeRemote());
    machine.sh('truncate -s 300M large.bin');
    const { packed: large, parts } = await packed(machine);
    expect(parts).toEqual([]);
    expect(large).toMatchObject({ files: 1, parts: 0, fingerprint: '', bytes: 300 * 1024 ** 2 });
  });

  it('that is no longer a repository is reported', async () => {
    const machine = new Machine().clone(makeRemote());
    machine.sh('rm -rf .git');
    const { packed: rest } = await packed(machine);
    expect(rest?.notes).toEqual(['. is no longer a git repository.']);
  });
});

describe('files outside the repositories', () => {
  const app = { ...repository, path: 'the app [1]' };

  it('are restored next to them', async () => {
    const remote = makeRemote();
    const [old, fresh] = [new Machine(), new Machine()];
    for (const machine of [old, fresh]) machine.sh(`git clone -q ${remote.url} 'the app [1]'`);
    old.sh(`echo plain > plain.txt; mkdir -p deep/er empty; echo x > 'deep/er/a file'; ln -s plain.txt link
      echo changed > 'the app [1]/a.txt'`);
    const archive = await packed(old, [app]);
    expect(await restored(fresh, archive, [app])).toEqual([]);
    expect(fresh.sh('cat plain.txt deep/er/*; readlink link; ls -d empty; cat */a.txt')).toBe(
      'plain\nx\nplain.txt\nempty\nchanged',
    );
  });

  it('are packed when the workspace has no repository', async () => {
    const [old, fresh] = [new Machine(), new Machine()];
    old.sh('echo plain > plain.txt; git init -q mine; echo x > mine/x');
    const archive = await packed(old, []);
    expect(archive.packed).toMatchObject({ commits: 0, files: 0, diffs: [], parts: 1 });
    expect(await restored(fresh, archive, [])).toEqual([]);
    expect(fresh.sh('cat plain.txt mine/x; git -C mine status --porcelain')).toBe('plain\nx\n?? x');
  });
});

it('packing fails when the agent has replaced a program by one that prints forever', async () => {
  const machine = new Machine();
  const flood = 'yes "note x"';
  machine.sh(`mkdir bin; printf '#!/bin/sh\\n%s\\n' '${flood}' > bin/cat; chmod +x bin/cat`);
  await expect(packed(machine, [])).rejects.toThrow('the files could not be packed');
});

describe('the saver', () => {
  function saverOn(machine: Machine, intervalMs: number) {
    const events: string[] = [];
    const saver = new CheckpointSaver({
      ...optionsOf(machine, [repository]),
      client: {
        ...unusedClient,
        savePart: async (_, part) => void events.push(`part ${part}`),
        complete: async (_, parts, final) => void events.push(`complete ${parts}${final ? ' final' : ''}`),
      },
      listener: {
        item: ({ text }) => events.push(text ?? ''),
        diff: () => {},
        unpushed: ({ commits, files, isSaved }) => events.push(`${commits} ${files} ${isSaved}`),
      },
      intervalMs,
    });
    return { saver, events };
  }

  it('saves during a run, and completes the last checkpoint if nothing has changed since', async () => {
    const machine = new Machine().clone(makeRemote());
    const { saver, events } = saverOn(machine, 1);
    saver.start(() => 's');
    await vi.waitUntil(() => events.length === 3, 20_000);
    expect(await saver.finish('s')).toBe('');
    expect(events).toEqual(['part 0', 'complete 1', '0 0 true', 'complete 1 final']);
  });

  it('reports once what could not be saved', async () => {
    const machine = new Machine().clone(makeRemote());
    machine.sh('truncate -s 300M large.bin');
    const { saver, events } = saverOn(machine, 1);
    saver.start(() => 's');
    await vi.waitUntil(() => events.length > 2, 20_000);
    const text = await saver.finish('s');
    expect(text).toMatch(/^The agent's work could not be saved: it has 300 MB, and the limit is 64 MB\./);
    expect(events.filter((line) => line === text)).toEqual([text]);
    expect(new Set(events)).toEqual(new Set(['0 1 false', text]));
  });
});

it('a session that an earlier version saved is restored', async () => {
  const [old, fresh] = [new Machine(), new Machine()];
  mkdirSync(join(old.home, '.claude', 'projects', 'p'), { recursive: true });
  writeFileSync(join(old.home, '.claude', 'projects', 'p', 's.jsonl'), '{}\n');
  const tar = execFileSync('tar', ['-czf', '-', '-C', old.home, '.claude/projects/p/s.jsonl']);
  expect(await restored(fresh, { packed: undefined, parts: [tar] }, [])).toEqual([]);
  expect(readFileSync(join(fresh.home, '.claude', 'projects', 'p', 's.jsonl'), 'utf8')).toBe('{}\n');
});
