import { spawn, spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { isAlive } from '../../../../../test/support/fake-service.ts';
import { sandbox, theSandbox } from '../../../../../test/support/sandbox.ts';
import { killMarked } from './proc.ts';
import { agentProcesses } from './processes.ts';

const megabyte = 1024 ** 2;
const hasPerl = spawnSync('/usr/bin/perl', ['-e', '1']).status === 0;

/** Declares 1 GiB of its memory to be its environment: PR_SET_MM_MAP needs no capability. Arguments: mmap, brk, prctl. */
const largeEnvironment = `
  my ($mmap, $brk, $prctl) = @ARGV;
  open(my $file, '<', '/proc/self/stat') or die; my $stat = <$file>; $stat =~ s/.*\\) //;
  my @f = split / /, $stat;
  my $size = 1 << 30; my $at = syscall($mmap, 0, $size, 1, 0x4022, -1, 0); die "mmap: $!" if $at == -1;
  my @code = (@f[23, 24], @f[42, 43], $f[44], syscall($brk, 0), $f[25], @f[45, 46]);
  my $map = pack('Q12 L l', @code, $at, $at + $size, 0, 0, -1);
  syscall($prctl, 35, 14, $map, length $map, 0) == 0 or die "prctl: $!";
  $| = 1; print "ready\\n"; sleep 600;`;
const calls = process.arch === 'x64' ? ['9', '12', '157'] : ['222', '214', '167'];

/** By this process, since it started. */
const bytesRead = (): number => Number(/^rchar: (\d+)$/m.exec(readFileSync('/proc/self/io', 'utf8'))?.[1]);

it.skipIf(!hasPerl)('a search reads only the beginning of an environment', async () => {
  const child = spawn('/usr/bin/perl', ['-e', largeEnvironment, ...calls], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  try {
    const [ready] = await Promise.race([once(child.stdout, 'data'), once(child, 'exit')]);
    expect(String(ready)).toBe('ready\n');
    const before = bytesRead();
    await killMarked('MUSTER_TEST', randomUUID());
    expect(bytesRead() - before).toBeLessThan(256 * megabyte);
  } finally {
    child.kill('SIGKILL');
  }
});

it.skipIf(!sandbox)('the end of a run in a sandbox reads the environment of no other process', async () => {
  const [agentKey, runId] = [randomUUID(), 1];
  const env = { MUSTER_RUN: `${agentKey}/${runId}` };
  const other = spawn('/bin/sleep', ['600'], { env, stdio: 'ignore' });
  try {
    const folders = { workspaceFolder: import.meta.dirname, homeFolder: import.meta.dirname };
    const [dataFolder, runFolder] = [import.meta.dirname, import.meta.dirname];
    const gateway = { socketPath: '/nonexistent/gateway' };
    const agent = agentProcesses({
      sandbox: theSandbox(),
      folders,
      dataFolder,
      runFolder,
      agentKey,
      runId,
      gateway,
    });
    await agent.start(['/bin/true'], { gateway: 'never' }).exited;
    await agent.killAll();
    expect(isAlive(other.pid ?? 0)).toBe(true);
  } finally {
    other.kill('SIGKILL');
  }
});
