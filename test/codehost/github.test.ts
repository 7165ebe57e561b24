import { execFile } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Host, HostChangeRequest, HostThread } from '../../packages/service/src/codehost/host.ts';
import { spentInWork, withinBudget } from '../../packages/service/src/work/reply-budget.ts';
import { app, appPermissions, FakeGithub } from './github.ts';

let github: FakeGithub;
let host: Host;

beforeAll(async () => {
  github = await FakeGithub.start();
  host = github.connect();
});

afterAll(() => github.stop());

const newBranch = (branch: string): string =>
  github.remote.commit(branch, { [`${branch}.txt`]: `${branch}\n` }, 'main');

/** A pull request from a new branch. */
async function open(branch: string, isDraft = false): Promise<HostChangeRequest> {
  newBranch(branch);
  return host.openChangeRequest(github.repo, {
    ...{ branch, base: 'main', title: `Add ${branch}`, body: 'What it does.', isDraft },
  });
}

const threadOn = (threads: readonly HostThread[], path: string): HostThread => {
  const found = threads.find((thread) => thread.path === path);
  if (!found) throw new Error(`no thread on ${path}`);
  return found;
};

describe('an account', () => {
  it('of an App is its bot', async () => {
    expect((await host.self()).login).toBe(`${app.slug}[bot]`);
    expect(await host.repositories()).toEqual([github.repo]);
  });

  it('of a token is its user', async () => {
    const person = await github.connect({ as: 'token' }).self();
    expect(person).toMatchObject({ login: 'muster-account', id: expect.stringMatching(/^\d+$/) });
  });

  it('of a person has the permission that the host says', async () => {
    const { maintainer, reviewer, stranger } = github.people;
    expect(await host.permissionOf(github.repo, maintainer)).toBe('admin');
    expect(await host.permissionOf(github.repo, reviewer)).toBe('write');
    expect(await host.permissionOf(github.repo, stranger)).toBe('read');
  });

  it('has no permission under a login that belongs to another account now', async () => {
    expect(await host.permissionOf(github.repo, { id: '999999', login: 'maintainer' })).toBe('none');
    expect(await host.permissionOf(github.repo, { id: '1', login: 'nobody-has-this-login' })).toBe('none');
  });
});

describe('a pull request', () => {
  it('is opened, found by its branch and by its commit, and read', async () => {
    const opened = await open('feature');
    expect(opened).toMatchObject({
      ...{ repo: github.repo, title: 'Add feature', state: 'OPEN', branch: 'feature', base: 'main' },
      ...{ headSha: github.remote.tip('feature'), isFork: false, author: await host.self() },
      url: `${github.url}/team/project/pull/${opened.number}`,
    });
    const found = { ...opened, hasConflict: expect.anything() };
    expect(await host.changeRequestsFrom(github.repo, 'feature')).toEqual([found]);
    expect(await host.changeRequest(github.repo, opened.number)).toEqual({ ...opened, hasConflict: false });
    expect(await host.defaultBranch(github.repo)).toBe('main');
  });

  it('is opened once from a branch', async () => {
    const first = await open('once');
    const again = await host.openChangeRequest(github.repo, {
      ...{ branch: 'once', base: 'main', title: 'Again', body: '', isDraft: false },
    });
    expect(again.number).toBe(first.number);
  });

  it('is not opened from a branch that does not exist', async () => {
    const request = { branch: 'missing', base: 'main', title: 'Nothing', body: '', isDraft: false };
    await expect(host.openChangeRequest(github.repo, request)).rejects.toMatchObject({
      ...{ kind: 'refused', status: 422, message: expect.stringContaining('head: missing does not exist') },
    });
  });

  it('has the newest commit and its conflicts', async () => {
    const { number } = await open('conflict', true);
    github.remote.commit('conflict', { 'README.md': 'mine\n' });
    github.remote.commit('main', { 'README.md': 'theirs\n' });
    expect(await host.changeRequest(github.repo, number)).toMatchObject({
      ...{ state: 'DRAFT', hasConflict: true, headSha: github.remote.tip('conflict') },
    });
  });

  it('from a fork is known as one', async () => {
    const number = await github.openFromFork('From outside');
    expect(await host.changeRequest(github.repo, number)).toMatchObject({ isFork: true, branch: '' });
  });

  it('is merged or closed', async () => {
    const merged = await open('to-merge');
    await github.merge(merged.number, 'maintainer');
    expect((await host.changeRequest(github.repo, merged.number)).state).toBe('MERGED');
    const closed = await open('to-close');
    await github.close(closed.number, 'maintainer');
    expect((await host.changeRequest(github.repo, closed.number)).state).toBe('CLOSED');
    expect(await host.changeRequestsFrom(github.repo, 'to-close')).toEqual([]);
  });
});

describe('threads', () => {
  it('have their comments, are replied to and resolved', async () => {
    const { number } = await open('reviewed');
    const [first, second] = await github.review(number, {
      ...{ by: 'reviewer', verdict: 'CHANGES_REQUESTED', body: 'Two things.' },
      threads: [
        { path: 'src/sum.ts', line: 3, startLine: 2, body: 'Why?' },
        { path: 'reviewed.txt', line: 1, body: 'Rename it.' },
      ],
    });
    await github.comment({ type: 'change-request', number }, 'And a changelog.', 'maintainer');
    const threads = await host.threads(github.repo, number);
    expect(
      threads.map(({ id, path, line, startLine, canResolve }) => [id, path, line, startLine, canResolve]),
    ).toEqual([
      [first, 'src/sum.ts', 3, 2, true],
      [second, 'reviewed.txt', 1, null, true],
      [expect.stringMatching(/^pullrequestreview-\d+$/), '', null, null, false],
      [expect.stringMatching(/^issuecomment-\d+$/), '', null, null, false],
    ]);
    const onSum = threadOn(threads, 'src/sum.ts');
    expect(onSum.comments).toMatchObject([{ body: 'Why?', author: github.people.reviewer }]);
    const [review] = await host.reviews(github.repo, number);
    expect(review).toMatchObject({ verdict: 'CHANGES_REQUESTED', author: github.people.reviewer });
    expect(onSum.comments[0]?.reviewId).toBe(review?.id);

    const posted = await host.reply(github.repo, number, onSum, 'Because.');
    await host.resolve(github.repo, number, onSum);
    const after = threadOn(await host.threads(github.repo, number), 'src/sum.ts');
    expect(after.isResolved).toBe(true);
    expect(after.comments.map(({ id, body }) => [id, body]).at(-1)).toEqual([posted.id, 'Because.']);
    expect(after.comments.at(-1)?.author).toEqual(await host.self());
    expect(threadOn(await host.threads(github.repo, number), 'reviewed.txt').isResolved).toBe(false);
    await host.resolve(github.repo, number, after, false);
    expect(threadOn(await host.threads(github.repo, number), 'src/sum.ts').isResolved).toBe(false);
  });

  it('without a line are answered in the conversation and not resolved', async () => {
    const { number } = await open('talk');
    const subject = { type: 'change-request', number } as const;
    await github.comment(subject, 'Is this needed?', 'reviewer');
    const [thread] = await host.threads(github.repo, number);
    const posted = await host.reply(github.repo, number, thread as HostThread, 'It is.');
    const comments = await host.comments(github.repo, subject, '2000-01-01T00:00:00Z');
    expect(comments.at(-1)).toMatchObject({ id: posted.id, body: expect.stringContaining('It is.') });
    expect(comments.at(-1)?.body).toContain(thread?.comments[0]?.url);
    await expect(host.resolve(github.repo, number, thread as HostThread)).rejects.toMatchObject({
      kind: 'refused',
    });
    expect(await host.comments(github.repo, subject, '2100-01-01T00:00:00Z')).toEqual([]);
  });

  it('are read completely when there are more than fit on a page', async () => {
    const { number } = await open('many');
    const threads = Array.from({ length: 101 }, (_, index) => ({
      ...{ path: 'many.txt', line: index + 1, body: `Comment ${index}` },
    }));
    await github.review(number, { by: 'reviewer', verdict: 'COMMENTED', threads });
    expect(await host.threads(github.repo, number)).toHaveLength(101);
  });

  it('of a pull request that does not exist are refused', async () => {
    await expect(host.threads(github.repo, 9999)).rejects.toMatchObject({ kind: 'refused', status: 404 });
  });
});

describe('checks', () => {
  it('are the newest of each name, with annotations and the end of the log', async () => {
    const sha = newBranch('checked');
    await github.setCheck(sha, { name: 'build', state: 'FAILED', log: 'old' });
    await github.setCheck(sha, { name: 'build', state: 'PASSED' });
    await github.setCheck(sha, {
      ...{ name: 'test', state: 'FAILED', summary: '1 of 3 failed', log: `${'x'.repeat(100_000)}the ènd` },
      annotations: [{ path: 'src/sum.ts', line: 2, message: 'expected 2' }],
    });
    await github.setCheck(sha, { name: 'lint', state: 'PENDING' });
    github.setStatus(sha, 'ci/old', 'pending');
    github.setStatus(sha, 'ci/old', 'error');
    const checks = await host.checks(github.repo, sha);
    expect(checks.map(({ name, state }) => `${name} ${state}`).sort()).toEqual([
      'build PASSED',
      'ci/old FAILED',
      'lint PENDING',
      'test FAILED',
    ]);
    const failed = checks.find(({ name }) => name === 'test');
    expect(failed).toMatchObject({
      summary: expect.stringContaining('1 of 3 failed'),
      annotations: [{ path: 'src/sum.ts', line: 2, message: 'expected 2' }],
    });
    if (!failed) throw new Error('no check');
    expect(await host.endOfLog(github.repo, failed, 8)).toBe('the ènd');
    expect(await host.endOfLog(github.repo, { ...failed, id: '' }, 8)).toBe('');
    expect(await host.endOfLog(github.repo, { ...failed, id: '99999' }, 8)).toBe('');
  });

  it('of the same name in several workflows all count', async () => {
    const sha = newBranch('two-workflows');
    await github.setCheck(sha, { name: 'build', state: 'FAILED', suite: 1 });
    await github.setCheck(sha, { name: 'build', state: 'PASSED', suite: 2 });
    expect((await host.checks(github.repo, sha)).map(({ state }) => state).sort()).toEqual([
      'FAILED',
      'PASSED',
    ]);
  });

  it('whose annotations may not be read are read without them, and the permission is named', async () => {
    const sha = newBranch('no-annotations');
    const annotations = [{ path: 'src/sum.ts', line: 2, message: 'expected 2' }];
    await github.setCheck(sha, { name: 'test', state: 'FAILED', annotations });
    github.faults.add({ path: /\/annotations/, reply: { status: 403 } });
    const found = await withinBudget(async () => ({
      checks: await host.checks(github.repo, sha),
      missing: spentInWork().missing,
    }));
    expect(found).toMatchObject({
      checks: [{ state: 'FAILED', annotations: [] }],
      missing: ['checks: read'],
    });
  });
});

describe('a git credential', () => {
  const withCredential = (username: string, password: string): string =>
    github.gitUrl.replace('http://', `http://${username}:${encodeURIComponent(password)}@`);

  it('of an App is for one repository and expires', async () => {
    const { username, password, expiresAt } = await host.gitCredential(github.repo);
    expect(Date.parse(expiresAt ?? '')).toBeGreaterThan(Date.now());
    expect((await github.issuedTokens()).at(-1)).toMatchObject({
      permissions: { contents: 'write', metadata: 'read' },
      repository_selection: 'selected',
      repository_ids: [expect.any(Number)],
    });
    expect((await host.gitCredential(github.repo)).password).toBe(password);
    const url = withCredential(username, password);
    const sha = github.remote.tip('main');
    const push = ['push', url, `${sha}:refs/heads/pushed-over-http`];
    await gitAsync(push);
    expect(github.remote.tip('pushed-over-http')).toBe(sha);
    await expect(gitAsync(['ls-remote', withCredential(username, 'ghs_wrong')])).rejects.toThrow(
      /Authentication failed/,
    );
  });

  it('of a token is the token', async () => {
    expect(await github.connect({ as: 'token' }).gitCredential(github.repo)).toEqual({
      ...{ username: 'x-access-token', password: github.token, expiresAt: null },
    });
  });

  /** Without blocking this process, which serves the other side. */
  const gitAsync = (args: readonly string[]): Promise<unknown> =>
    promisify(execFile)('git', ['-C', github.remote.url, ...args], {
      env: { PATH: process.env.PATH, GIT_TERMINAL_PROMPT: '0', GIT_CONFIG_GLOBAL: '/dev/null', LC_ALL: 'C' },
    });
});

describe('requirements', () => {
  it('of an App with everything are met', async () => {
    const all = await host.requirements(github.repo);
    expect(all.filter(({ isMet }) => !isMet)).toEqual([]);
    expect(all.map(({ name }) => name)).toContain('contents: write');
  });

  it('of an App name the setting that is missing', async () => {
    const { contents: _, actions: __, ...others } = appPermissions;
    const limited = await FakeGithub.start({
      permissions: { ...others, contents: 'read' },
      events: ['pull_request'],
    });
    try {
      const all = await limited.connect().requirements(github.repo);
      expect(all.filter(({ isMet }) => !isMet).map(({ name }) => name)).toEqual([
        'contents: write',
        'actions: read',
        'webhook events',
      ]);
      const contents = all.find(({ name }) => name === 'contents: write');
      expect(contents?.advice).toMatch(/"Contents" to "Read and write".*resolve review threads/);
    } finally {
      await limited.stop();
    }
  });

  it('of an App say that it is not installed', async () => {
    const all = await host.requirements('team/unknown');
    expect(all.filter(({ isMet }) => !isMet)).toEqual([
      { name: 'installation', isMet: false, advice: expect.stringContaining('team/unknown') },
    ]);
  });

  it('of an App say that its key is wrong', async () => {
    const another = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey;
    const keys = [another.export({ type: 'pkcs8', format: 'pem' }).toString(), 'not a key'];
    for (const privateKey of keys) {
      const all = await github.connect({ privateKey }).requirements(github.repo);
      expect(all).toEqual([
        { name: 'App credentials', isMet: false, advice: expect.stringContaining('`privateKey`') },
      ]);
    }
  });

  it('of a token are its scopes', async () => {
    const all = await github.connect({ as: 'token' }).requirements(github.repo);
    expect(all.filter(({ isMet }) => !isMet)).toEqual([]);
    expect(all.map(({ name }) => name)).toEqual(['token', 'repository', 'role: write', 'scope: repo']);
    github.server.scopes = 'public_repo, gist';
    const limited = await github.connect({ as: 'token' }).requirements(github.repo);
    expect(limited.every(({ isMet }) => isMet)).toBe(true);
    github.server.scopes = 'gist';
    const none = await github.connect({ as: 'token' }).requirements(github.repo);
    expect(none.filter(({ isMet }) => !isMet)).toEqual([
      { name: 'scope: repo', isMet: false, advice: expect.stringContaining('it has: gist') },
    ]);
    github.server.scopes = 'repo';
  });

  it('of a token without scopes are tried, without changing anything', async () => {
    github.server.scopes = '';
    const issues = await github.issueCount();
    github.faults.add({ method: 'POST', path: /\/git\/refs$/, reply: { status: 403 } });
    github.faults.add({ path: /\/actions\/runs/, reply: { status: 403 } });
    const all = await github.connect({ as: 'token' }).requirements(github.repo);
    expect(all.filter(({ isMet }) => !isMet).map(({ name }) => name)).toEqual([
      'contents: write',
      'actions: read',
    ]);
    expect(await github.issueCount()).toBe(issues);
    // Anyone may list the runs of a public repository, and not read the logs.
    github.faults.add({ path: /\/actions\/jobs\/1\/logs/, reply: { status: 403 } });
    const noLogs = await github.connect({ as: 'token' }).requirements(github.repo);
    expect(noLogs.filter(({ isMet }) => !isMet).map(({ name }) => name)).toEqual(['actions: read']);
    github.server.scopes = 'repo';
  });

  it('of a token say that it is wrong, or does not reach the repository', async () => {
    const wrong = await github.connect({ as: 'token', token: 'ghp_wrong' }).requirements(github.repo);
    expect(wrong).toEqual([
      { name: 'token', isMet: false, advice: expect.stringContaining('Bad credentials') },
    ]);
    const outside = await github.connect({ as: 'token' }).requirements('team/unknown');
    expect(outside.filter(({ isMet }) => !isMet).map(({ name }) => name)).toEqual(['repository']);
  });
});

describe('a repository', () => {
  it.each(['app', 'token'] as const)(
    'is found by an earlier name, and in another case, by a %s',
    async (as) => {
      const host = github.connect({ as });
      expect(await host.path('Team/PROJECT')).toBe('team/project');
      github.server.renamedTo = 'team/renamed';
      expect(await host.path('team/project')).toBe('team/renamed');
      expect(await host.defaultBranch('team/renamed')).toBe('main');
      github.server.renamedTo = '';
    },
  );
});

describe('an App', () => {
  it('calls about a repository with tokens for it alone, and others with tokens that read metadata', async () => {
    const before = (await github.issuedTokens()).length;
    const host = github.connect();
    await host.self();
    await host.repositories();
    await host.reviews(github.repo, (await open('narrow')).number);
    const issued = (await github.issuedTokens()).slice(before);
    expect(issued.length).toBeGreaterThan(1);
    const narrow = issued.filter(({ permissions }) => Object.keys(permissions as object).length > 1);
    expect(narrow.map(({ repository_ids }) => (repository_ids as unknown[]).length)).toEqual(
      narrow.map(() => 1),
    );
  });

  it('gets a new token when its token was revoked', async () => {
    const { number } = await open('revoked');
    github.server.revokeTokens();
    expect(await host.changeRequest(github.repo, number)).toMatchObject({ number });
  });

  it('can not resolve a thread without write access to the contents', async () => {
    const limited = await FakeGithub.start({ permissions: { ...appPermissions, contents: 'read' } });
    try {
      limited.remote.commit('branch', { 'a.txt': 'a\n' }, 'main');
      const maintainer = limited.connect({ as: 'token' });
      const request = { branch: 'branch', base: 'main', title: 'A', body: '', isDraft: false };
      const { number } = await maintainer.openChangeRequest(limited.repo, request);
      await limited.review(number, {
        ...{ by: 'reviewer', verdict: 'COMMENTED', threads: [{ path: 'a.txt', line: 1, body: 'No.' }] },
      });
      const [thread] = await limited.connect().threads(limited.repo, number);
      expect(thread?.canResolve).toBe(false);
      await expect(
        limited.connect().resolve(limited.repo, number, thread as HostThread),
      ).rejects.toMatchObject({
        ...{
          kind: 'refused',
          status: 403,
          message: expect.stringContaining('not accessible by integration'),
        },
      });
    } finally {
      await limited.stop();
    }
  });
});
