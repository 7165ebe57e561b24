import { expect, test } from 'vitest';
import { FetchError, gitHost } from '../workspace/prepare.ts';
import { gitFailure, gitFault } from './prepare-failures.ts';

test.each([
  ['GIT_UNREACHABLE', "fatal: unable to access 'https://git.test/a/': Could not resolve host: git.test"],
  ['GIT_UNREACHABLE', 'Failed to connect to git.test port 443 after 12 ms: Could not connect to server'],
  ['GIT_UNREACHABLE', 'ssh: connect to host git.test port 22: Connection timed out'],
  ['GIT_UNREACHABLE', 'The requested URL returned error: 503'],
  ['GIT_UNREACHABLE', "https://git.test/a: the host name git.test can't be resolved"],
  ['GIT_UNREACHABLE', 'fatal: early EOF'],
  ['DISK_FULL', 'error: unable to write file objects/pack/tmp: No space left on device'],
  ['WORKSPACE_NOT_PREPARED', "fatal: repository 'https://git.test/a/' not found"],
  ['WORKSPACE_NOT_PREPARED', 'The requested URL returned error: 403'],
  ['WORKSPACE_NOT_PREPARED', 'https://git.test/a has no branch "main"; set baseBranch of this repository'],
])('%s is the code of "%s"', (code, message) => {
  expect(gitFault(new Error(message))).toBe(code);
});

test.each([
  ['GIT_UNREACHABLE', 'git:localhost', 'localhost', 'Could not resolve host: localhost'],
  ['GIT_UNREACHABLE', 'git:no-such-host.invalid', 'no-such-host.invalid', 'Connection timed out'],
  [
    'WORKSPACE_NOT_PREPARED',
    undefined,
    'no-such-host.invalid',
    'Could not resolve host: no-such-host.invalid',
  ],
  [
    'WORKSPACE_NOT_PREPARED',
    undefined,
    'no-such-host.invalid',
    "the host name no-such-host.invalid can't be resolved",
  ],
  ['GIT_UNREACHABLE', undefined, '', 'Connection timed out'],
])('%s, waiting for %s, is the failure at host %j: %s', async (code, awaits, host, message) => {
  expect(await gitFailure(new FetchError(host, message, {}))).toMatchObject({ code, awaits });
});

test.each([
  ['https://Git.Test/a.git', 'git.test'],
  ['https://user@git.test:8443/a.git', 'git.test'],
  ['ssh://git@git.test:22/a.git', 'git.test'],
  ['git@git.test:team/a.git', 'git.test'],
  ['https://[::1]:3000/a.git', '[::1]'],
  ['file:///srv/a.git', ''],
  ['/srv/a@b:c.git', ''],
])('the host of %s is %j', (url, host) => {
  expect(gitHost(url)).toBe(host);
});
