import { describe, expect, it } from 'vitest';
import { readRepos, splitUrl } from './repositories.ts';

const paths = (...repos: unknown[]) => readRepos({ repos }).map(({ path }) => path);

describe('the repositories of a workspace', () => {
  it('are in the workspace folder itself when there is one, else in folders with their names', () => {
    expect(readRepos({})).toEqual([]);
    expect(readRepos({ repos: ['https://example.com/org/app.git'] })).toEqual([
      {
        name: 'app',
        url: 'https://example.com/org/app.git',
        shownUrl: 'https://example.com/org/app.git',
        baseBranch: '',
        path: '.',
      },
    ]);
    expect(paths('git@example.com:org/app.git', { url: '/srv/git/lib/' })).toEqual(['app', 'lib']);
    expect(paths({ url: 'ssh://git@example.com/app', path: './deep//app/' })).toEqual(['deep/app']);
  });

  it.each([['../x'], ['/x'], ['a/../..'], ['.git'], ['a/.GIT/hooks']])('may not be at %s', (path) => {
    expect(() => readRepos({ repos: [{ url: '/srv/app', path }] })).toThrow(
      /repos\[0\]\.path must be a path inside/,
    );
  });

  it.each([
    ['https://example.com/a', 'https://example.org/a'],
    [{ url: '/srv/a', path: '.' }, '/srv/b'],
    [
      { url: '/srv/a', path: 'x' },
      { url: '/srv/b', path: 'x/y' },
    ],
  ])('may not be inside one another: %j and %j', (one, other) => {
    expect(() => readRepos({ repos: [one, other] })).toThrow(/give each its own path/);
  });

  it.each([
    [''],
    ['-upload-pack=x'],
    ['ext::sh -c id'],
    ['fd::3'],
    ['relative/path'],
    ['ssh://-oProxyCommand=x/a'],
    ['file://host/x'],
    ['https://example.com/a\nb'],
    ['git://example.com/a'],
  ])('may not be at %j', (url) => {
    expect(() => readRepos({ repos: [{ url }] })).toThrow(/^repos\[0\]\.url must/);
  });

  it('cause an error that names the invalid field', () => {
    expect(() => readRepos({ repos: 'x' })).toThrow('repos of the workspace must be a list');
    expect(() => readRepos({ repos: [7] })).toThrow('repos[0] must be a URL');
    expect(() => readRepos({ repos: [{ url: '/a', baseBranch: 7 }] })).toThrow(
      'repos[0].baseBranch must be a text',
    );
  });
});

describe('a URL with credentials', () => {
  it.each([
    ['https://me:p%40ss@example.com/a.git', 'https://example.com/a.git', 'me', 'p@ss'],
    ['https://token@example.com:8443/a', 'https://example.com:8443/a', 'token', ''],
    ['https://me:p@ss@example.com/a', 'https://example.com/a', 'me', 'p@ss'],
    ['ssh://git:secret@example.com/a', 'ssh://git@example.com/a', 'git', 'secret'],
    ['https://example.com/a@b', 'https://example.com/a@b', '', ''],
    ['git@example.com:a', 'git@example.com:a', '', ''],
  ])('is shown without them: %s', (url, shownUrl, username, password) => {
    expect(splitUrl(url)).toEqual({ shownUrl, username, password });
  });
});
