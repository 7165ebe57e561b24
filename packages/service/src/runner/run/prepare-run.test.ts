import { expect, test } from 'vitest';
import { gitFault } from './prepare-run.ts';

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
