import { expect, test } from 'vitest';
import { repositoryProblem, workspaceNameOf } from './repository.ts';

test('a workspace is named like its repository', () => {
  const names = [
    ['https://git.example.com/acme/shop.git', 'shop'],
    ['https://git.example.com/acme/shop/', 'shop'],
    ['git@git.example.com:acme/shop.git', 'shop'],
    ['git@git.example.com:shop', 'shop'],
    ['/srv/git/web site', 'web-site'],
    ['https://git.example.com/acme/.github', 'github'],
    ['', ''],
    ['///', ''],
  ] as const;
  expect(names.map(([url]) => workspaceNameOf(url))).toEqual(names.map(([, name]) => name));
});

test('what git says becomes what to do', () => {
  const titles = [
    [
      "fatal: could not read Username for 'https://git.example.com': terminal prompts disabled",
      'The host asks for credentials',
    ],
    ['fatal: Authentication failed for https://git.example.com/x/', 'The host asks for credentials'],
    ['fatal: unable to access: Could not resolve host: git.exmaple.com', 'The host name can’t be resolved'],
    ["fatal: repository 'https://git.example.com/x/' not found", 'The repository was not found'],
    ["fatal: '/srv/none' does not appear to be a git repository", 'The repository was not found'],
    ['Failed to connect to git.example.com port 443: Connection refused', 'The host can’t be reached'],
    ['10.0.0.1 is an address of an internal network', 'The runner refuses this address'],
    ['something else', 'The repository can’t be read'],
  ] as const;
  expect(titles.map(([said]) => repositoryProblem(said).title)).toEqual(titles.map(([, title]) => title));
  expect(repositoryProblem('fatal: Authentication failed').needsCredentials).toBe(true);
});
