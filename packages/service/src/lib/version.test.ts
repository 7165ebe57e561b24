import { expect, test } from 'vitest';
import { versionWarning } from './version.ts';

test.each([
  ['1.4.0', '1.4.9'],
  ['1.4.9', '1.4.0'],
  ['1.3.0', '1.4.0'],
  ['1.4.0-beta.1', '1.4.0'],
  ['0.1.0', '0.1.0'],
])('a runner %s is supported by a service %s', (runner, service) => {
  expect(versionWarning(runner, service)).toBe('');
});

test.each([
  [
    '1.2.9',
    '1.4.0',
    'The runner has the old version 1.2.9; expected 1.4 or 1.3, as the service has 1.4.0. Upgrade the runner.',
  ],
  [
    '1.9.0',
    '2.0.0',
    'The runner has the old version 1.9.0; expected 2.0, as the service has 2.0.0. Upgrade the runner.',
  ],
  [
    '1.5.0',
    '1.4.0',
    'The runner has the newer version 1.5.0; expected 1.4 or 1.3, as the service has 1.4.0. Upgrade the service.',
  ],
  [
    '2.0.0',
    '1.4.0',
    'The runner has the newer version 2.0.0; expected 1.4 or 1.3, as the service has 1.4.0. Upgrade the service.',
  ],
  ['', '0.1.0', 'The runner reports no known version (""); expected 0.1 or 0.0, as the service has 0.1.0.'],
  [
    'latest',
    '0.1.0',
    'The runner reports no known version ("latest"); expected 0.1 or 0.0, as the service has 0.1.0.',
  ],
])('a runner "%s" is not supported by a service %s', (runner, service, warning) => {
  expect(versionWarning(runner, service)).toBe(warning);
});
