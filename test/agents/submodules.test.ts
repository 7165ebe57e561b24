import { expect, it } from 'vitest';
import { uniqueName } from '../support/catalog.ts';
import { type GitRemote, makeGitRemote } from '../support/git-remote.ts';
import { TestRunners } from './test-runners.ts';
import { printedBy, useTestService } from './test-service.ts';

const service = useTestService();

interface Module {
  readonly path: string;
  readonly url: string;
  readonly commit: string;
}

/** Commits submodules, by their names. */
function commitModules(remote: GitRemote, modules: Readonly<Record<string, Module>>): string {
  const text = Object.entries(modules)
    .map(([name, { path, url }]) => `[submodule "${name}"]\n\tpath = ${path}\n\turl = ${url}\n`)
    .join('');
  const links = Object.values(modules).map(({ path, commit }) => [path, commit]);
  return remote.commit('main', { '.gitmodules': text }, 'main', Object.fromEntries(links));
}

/** A repository with a submodule that has one itself. */
async function nested(more: Readonly<Record<string, Module>> = {}) {
  const { agents, remote } = await service().workspace({ 'a.txt': 'a\n' });
  const name = uniqueName('lib');
  const deep = makeGitRemote(service().folder, `${name}-deep`);
  const lib = makeGitRemote(service().folder, name);
  const deepCommit = deep.commit('main', { 'deep.txt': 'deep\n' });
  lib.commit('main', { 'lib.txt': 'lib\n' });
  const libCommit = commitModules(lib, {
    deep: { path: 'in/deep', url: `../${name}-deep.git`, commit: deepCommit },
  });
  commitModules(remote, {
    lib: { path: 'libs/one', url: `../${name}.git`, commit: libCommit },
    ...more,
  });
  return { agents, remote, lib, deep, libCommit };
}

it('submodules are checked out recursively, and nothing can be pushed to them', async () => {
  const { agents, lib } = await nested();
  const work = [
    'cat libs/one/lib.txt libs/one/in/deep/deep.txt; git status --porcelain; git submodule status --recursive | wc -l',
    'git -C libs/one config remote.origin.url; git -C libs/one fetch -q && echo fetched',
    'cd libs/one; git checkout -q -b mine; git commit -q --allow-empty -m x; git push -q origin mine 2>&1; echo $?',
    'git push -q origin mine:main 2>&1',
  ];
  const printed = await printedBy(agents, 'a', work.join('; '));
  expect(printed).toMatch(
    /^lib\ndeep\n2\n\S+\.git\nfetched\nfatal: remote error: muster: a submodule is read-only; to push to it, add its repository to the workspace and push from that clone\n128\nfatal: /,
  );
  expect(printed).toContain(`\n${lib.url}\n`);
  expect(lib.refs()).toEqual(['main']);
  const { unpushed } = await agents.status('a');
  expect(unpushed).toMatchObject({ commits: 0 });
  expect((await agents.warnings('a')).join()).toContain('changed submodules of .: libs/one');
  await agents.queue('a', '!run git -C libs/one fetch -q && echo again');
  await agents.runEnded('a', 2);
  expect((await agents.texts('a', 'TOOL_RESULT')).at(-1)).toBe('again\n');
});

it('a submodule that must not or can not be fetched is a warning that names it', async () => {
  const commit = '1'.repeat(40);
  const outside = makeGitRemote(`${service().folder}/elsewhere`, uniqueName('private'));
  const secret = outside.commit('main', { 'secret.txt': 'secret\n' });
  const bad: Record<string, Module> = {
    '../../escape': { path: 'bad/name', url: '../missing.git', commit },
    command: { path: 'bad/command', url: 'ext::sh -c touch% /tmp/x', commit },
    dash: { path: 'bad/dash', url: '--upload-pack=touch', commit },
    inner: { path: 'bad/inner', url: 'http://127.0.0.1:1/x.git', commit },
    local: { path: 'bad/local', url: outside.url, commit: secret },
    above: { path: 'bad/above', url: '../../../../../../../../../../../x.git', commit },
  };
  const { agents } = await nested(bad);
  const printed = await printedBy(agents, 'a', 'cat libs/one/lib.txt; ls -A bad/*; find . -name secret.txt');
  expect(printed).toContain('lib\n');
  expect(printed).not.toContain('secret.txt');
  const warnings = await agents.warnings('a');
  for (const { path } of Object.values(bad))
    expect(warnings.filter((text) => text.includes(`"${path}"`))).toHaveLength(1);
  expect(warnings.join('\n')).toMatch(/"bad\/command".* its URL must be https/);
  expect(warnings.join('\n')).toMatch(/"bad\/inner".*127\.0\.0\.1.* internal network/);
  expect(warnings.join('\n')).toMatch(/"bad\/local".*may not use a repository on the runner's machine/);
});

it('an agent with submodules moves to another runner; the submodules are those of its branch', async () => {
  const runners = await TestRunners.create(service());
  const { agents, remote } = runners;
  const name = uniqueName('moved');
  const lib = makeGitRemote(service().folder, name);
  const old = lib.commit('main', { 'lib.txt': 'old\n' });
  const recent = lib.commit('main', { 'lib.txt': 'recent\n' });
  commitModules(remote, { lib: { path: 'lib', url: `../${name}.git`, commit: recent } });
  const first = await runners.start();
  const work = `git -C lib checkout -q ${old}; git add lib; git commit -qm older; echo kept > new.txt; cat lib/lib.txt`;
  expect(await printedBy(agents, 'a', work)).toBe('old\n');
  await runners.lose(first);
  await runners.start();
  await agents.queue('a', '!run cat lib/lib.txt new.txt; git status --porcelain; git rev-list --count HEAD');
  await agents.runEnded('a', 2);
  expect((await agents.texts('a', 'TOOL_RESULT')).at(-1)).toBe('old\nkept\n?? new.txt\n3\n');
  expect((await agents.warnings('a')).filter((text) => /submodule|separate/.test(text))).toEqual([]);
});
