import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RunnerCheckpoint } from '@muster/sdk/contract';
import { describe, expect, it } from 'vitest';
import {
  Machine,
  makeRemote,
  optionsOf,
  repository,
  unusedClient,
} from '../../../../../test/support/checkpoint-machine.ts';
import { gitIn } from '../../../../../test/support/git-remote.ts';
import { type Packed, pack } from './pack.ts';
import { CheckpointRestorer } from './restorer.ts';

const { signal } = new AbortController();

interface Archive {
  readonly packed: Packed | undefined;
  readonly parts: Buffer[];
}

async function packed(
  machine: Machine,
  repos = [repository],
  fingerprint = '',
  maxBytes = 64 * 1024 ** 2,
): Promise<Archive> {
  const parts: Buffer[] = [];
  const onPart = async (part: Buffer): Promise<void> => void parts.push(part);
  const { processes } = machine;
  return {
    packed: await pack({
      processes,
      repos,
      patterns: ['.s/*.jsonl'],
      fingerprint,
      maxBytes,
      signal,
      onPart,
    }),
    parts,
  };
}

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
    expect(archive.packed?.skipped).toEqual(['files of . that git ignores: build/.']);
    expect(await restored(fresh, archive)).toEqual([
      'Not restored, because it is not in the checkpoint: files of . that git ignores: build/.',
    ]);
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

  it('starts no filter, textconv or other program of the agent, and is restored byte by byte', async () => {
    const remote = makeRemote();
    const inner = makeRemote();
    remote.commit('main', {
      '.gitattributes': '* text=auto\n*.txt filter=own diff=own ident\n*.bat eol=crlf\n',
    });
    const old = new Machine().clone(remote);
    const ran = join(old.home, 'ran');
    const program = join(old.home, 'program');
    writeFileSync(program, `#!/bin/sh\necho "$@" >> '${ran}'\ncat\n`, { mode: 0o755 });
    old.sh(`git -c protocol.file.allow=always submodule add -q ${inner.url} sub; git commit -qm Sub
      for folder in . sub; do (cd $folder
        for key in filter.own.clean filter.own.smudge diff.own.command diff.own.textconv diff.external gpg.program core.fsmonitor
        do git config $key "${program} $key"; done
        git config filter.own.required true; git config log.showSignature true
        echo '* filter=own' >> "$(git rev-parse --git-path info/attributes)")
      done
      printf 'a\\r\\nb\\n$Id: x$\\r\\n' > a.txt; printf 'x\\r\\ny\\n' > run.bat; printf 'mixed\\r\\nends\\n' > new.txt
      touch b.txt sub/a.txt; rm -f '${ran}'`);
    const files = 'cksum a.txt b.txt run.bat new.txt .gitattributes';
    const before = old.sh(files);
    const archive = await packed(old);
    expect(existsSync(ran)).toBe(false);
    expect(archive.packed).toMatchObject({ notes: [], parts: 1 });
    const fresh = new Machine().clone(remote);
    expect((await restored(fresh, archive)).join()).toMatch(/files in the home folder: program\.$/);
    expect(fresh.sh(files)).toBe(before);
  });

  it('reports a nested repository, which is not packed, and packs the rest', async () => {
    const machine = new Machine().clone(makeRemote());
    machine.sh('git init -q inner; echo x > inner/x; git -C inner add .; git -C inner commit -qm Inner');
    machine.sh('git init -q unborn; echo new > new.txt');
    const archive = await packed(machine);
    expect(archive.packed).toMatchObject({
      notes: ['separate git repositories in .: inner/, unborn/.'],
      parts: 1,
    });
  });

  const random = (kilobytes: number, name: string) => `head -c ${kilobytes}K /dev/urandom > '${name}'`;

  it('with more than fits has its session, commits and smallest files saved; the rest is listed then and at the restore', async () => {
    const remote = makeRemote();
    const [old, fresh] = [new Machine().clone(remote), new Machine().clone(remote)];
    old.sh(`echo 1 > one.txt; git add .; git commit -qm One; ${random(230, 'a.txt')}; rm b.txt
      echo small > small.txt; truncate -s 150K zeros; ${random(25, 'some')}; ${random(2000, 'large\nnote x')}
      for i in 1 2 3 4 5 6; do ${random(300, 'l$i').replaceAll("'", '')}; done
      git init -q inner; echo x > inner/x; mkdir build; echo no > build/no`);
    writeFileSync(join(old.home, 'notes.txt'), 'mine');
    mkdirSync(join(old.home, '.s'));
    writeFileSync(join(old.home, '.s', 'x.jsonl'), '{"a":1}\n');
    const archive = await packed(old, [repository], '', 2 ** 18);
    const left =
      'too large: large?note x (2 MB), l1 (300 KB), l2 (300 KB), l3 (300 KB), l4 (300 KB) and 3 more (830 KB).';
    const nested = 'separate git repositories in .: inner/.';
    const skipped = ['files of . that git ignores: build/.', 'files in the home folder: notes.txt.'];
    expect(archive.packed).toMatchObject({ commits: 1, notes: [nested, left], skipped, parts: 1 });
    expect(await restored(fresh, archive)).toEqual(
      [nested, left, ...skipped].map((text) => `Not restored, because it is not in the checkpoint: ${text}`),
    );
    expect(fresh.sh('git log -1 --format=%s; cat small.txt a.txt; wc -c < some; wc -c < zeros; ls')).toBe(
      `One\nsmall\na\n${25 * 1024}\n${150 * 1024}\na.txt\none.txt\nrun.sh\nsmall.txt\nsome\nzeros`,
    );
    expect(readFileSync(join(fresh.home, '.s', 'x.jsonl'), 'utf8')).toBe('{"a":1}\n');

    const last = archive.packed?.fingerprint;
    expect((await packed(old, [repository], last, 2 ** 18)).packed).toBeUndefined();
    old.sh('echo changed > small.txt');
    expect((await packed(old, [repository], last, 2 ** 18)).packed).toMatchObject({ skipped: [] });
  });

  it('whose commits do not fit leaves the session, and they are listed', async () => {
    const remote = makeRemote();
    const [old, fresh] = [new Machine().clone(remote), new Machine().clone(remote)];
    old.sh(`${random(500, 'large')}; git add .; git commit -qm Large`);
    mkdirSync(join(old.home, '.s'));
    writeFileSync(join(old.home, '.s', 'x.jsonl'), '{"a":1}\n');
    const archive = await packed(old, [repository], '', 2 ** 18);
    const notes = ['too large: unpushed commits of code (501 KB).'];
    expect(archive.packed).toMatchObject({ commits: 1, notes, parts: 1 });
    const warned = await restored(fresh, archive);
    expect(warned[0]).toContain(notes[0]);
    expect(readFileSync(join(fresh.home, '.s', 'x.jsonl'), 'utf8')).toBe('{"a":1}\n');
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
  machine.sh(`mkdir bin; printf '#!/bin/sh\\n%s\\n' '${flood}' > bin/cmp; chmod +x bin/cmp`);
  await expect(packed(machine, [])).rejects.toThrow('the files could not be packed');
});

it('a session that an earlier version saved is restored', async () => {
  const [old, fresh] = [new Machine(), new Machine()];
  mkdirSync(join(old.home, '.claude', 'projects', 'p'), { recursive: true });
  writeFileSync(join(old.home, '.claude', 'projects', 'p', 's.jsonl'), '{}\n');
  const tar = execFileSync('tar', ['-czf', '-', '-C', old.home, '.claude/projects/p/s.jsonl']);
  expect(await restored(fresh, { packed: undefined, parts: [tar] }, [])).toEqual([]);
  expect(readFileSync(join(fresh.home, '.claude', 'projects', 'p', 's.jsonl'), 'utf8')).toBe('{}\n');
});
