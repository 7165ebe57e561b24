import { expect, test } from 'vitest';
import { installationOf } from './installation.ts';

const of = (script: string, given: Partial<Parameters<typeof installationOf>[0]> = {}) =>
  installationOf({
    script,
    folder: '/srv/app',
    env: { PATH: '/usr/local/bin:/usr/bin' },
    command: null,
    hasRunner: true,
    ...given,
  });

test('a command that is on the path is its name', () => {
  expect(of('/usr/local/bin/muster')).toEqual({ command: 'muster', start: 'muster serve' });
});

test('a folder that only npm adds to the path does not make `muster` a command', () => {
  const command = 'node_modules/.bin/muster';
  const env = { PATH: '/srv/app/node_modules/.bin:/usr/bin' };
  expect(of('/srv/app/node_modules/.bin/muster', { env })).toEqual({ command, start: `${command} serve` });
});

test('a checkout has npm start', () => {
  const command = 'node packages/service/bin/muster.js';
  expect(of('/srv/app/packages/service/bin/muster.js')).toEqual({ command, start: 'npm start' });
  expect(of('/srv/my app/packages/service/bin/muster.js', { folder: '/srv/data' })).toEqual({
    command: "node '../my app/packages/service/bin/muster.js'",
    start: 'npm start',
  });
});

test('where something else starts the service, only the command is known', () => {
  const env = { PATH: '/usr/local/bin', INVOCATION_ID: '7f' };
  expect(of('/usr/local/bin/muster', { env })).toEqual({ command: 'muster', start: '' });
  expect(of('/usr/local/bin/muster', { command: 'docker exec muster muster' })).toEqual({
    command: 'docker exec muster muster',
    start: '',
  });
  expect(of('/usr/local/bin/muster', { hasRunner: false })).toEqual({ command: 'muster', start: '' });
});
