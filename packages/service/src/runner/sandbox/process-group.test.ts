import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { eventually } from '../../../../../test/support/async.ts';
import { groupScript } from './process-group.ts';

it('a command does not outlive its runner, however that dies', async () => {
  const runner = spawn(process.execPath, ['-e', startsGroup, groupScript, 'echo $$; sleep 600'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [pid] = await once(runner.stdout, 'data');
  expect(isAlive(Number(pid))).toBe(true);
  runner.kill('SIGKILL');
  await eventually(() => expect(isAlive(Number(pid))).toBe(false));
});

const startsGroup = `
  const [script, command] = process.argv.slice(1);
  require('node:child_process').spawn('/bin/sh', ['-c', script, 'sh', '/bin/sh', '-c', command], {
    detached: true,
    stdio: ['ignore', 'inherit', 'inherit', 'pipe'],
  });
`;

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return (
      !existsSync('/proc/self/stat') || !/^\d+ \(.*\) Z/s.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
    );
  } catch {
    return false;
  }
}
