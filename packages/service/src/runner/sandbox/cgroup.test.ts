import { existsSync, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm, rmdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { sandbox } from '../../../../../test/support/sandbox.ts';
import { type Limits, limitsFor, removeStaleLimits, type VmProfile } from './cgroup.ts';
import { agentProcesses, baseEnvironment } from './processes.ts';

const trial = await limitsFor({ cpus: 1, memoryMb: 64, processes: 64 }, 'trial');
await trial.remove();
const isOffered = trial.notEnforced.length === 0;
if (!isOffered)
  process.stderr.write(`\n*** TESTS OF THE LIMITS ARE SKIPPED: ${trial.notEnforced.join(' ')}\n\n`);

let folder: string;
let limits: Limits;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'muster-limits-'));
});
afterEach(async () => {
  await limits?.remove();
  await rm(folder, { recursive: true, force: true });
});

/** The files by which a process enters the groups. */
const entries = (of: Limits): string[] =>
  of.wrap(['/bin/true']).filter((word) => word.endsWith('/cgroup.procs'));

const groupHolding = (file: string): string =>
  entries(limits)
    .map(dirname)
    .find((group) => existsSync(join(group, file))) ?? '';

async function limitedShell(profile: VmProfile, script: string, held: typeof sandbox) {
  limits = await limitsFor(profile, 'test/1');
  const agent = agentProcesses({
    sandbox: held,
    folders: { workspaceFolder: folder, homeFolder: folder },
    dataFolder: folder,
    runFolder: folder,
    environment: baseEnvironment({
      isSandboxed: held !== null,
      homeFolder: folder,
      agentKey: `limits-${process.pid}`,
      runId: 1,
    }),
    limits,
    gateway: held ? { socketPath: join(folder, 'none') } : { port: 9 },
  });
  const { child, exited } = agent.start(['/bin/sh', '-c', script]);
  const [stdout, stderr, exit] = await Promise.all([text(child.stdout), text(child.stderr), exited]);
  await agent.killAll();
  return { stdout, stderr, ...exit };
}

describe
  .skipIf(!isOffered)
  .each([['without a sandbox', null] as const, ...(sandbox ? [['in the sandbox', sandbox] as const] : [])])(
  'limits hold %s',
  (_name, held) => {
    it('on the number of processes', async () => {
      const many = 'n=0; while [ $n -lt 100 ]; do sleep 300 & n=$((n+1)); done; echo all';
      const { stdout, stderr } = await limitedShell({ processes: 40 }, many, held);
      expect(stdout).toBe('');
      expect(stderr).toMatch(/fork/i);
    });

    it('on memory', async () => {
      const { stdout } = await limitedShell({ memoryMb: 64 }, 'tail /dev/zero; echo "ended by $?"', held);
      expect(stdout).toBe('ended by 137\n');
    });
  },
);

describe.skipIf(!isOffered)('a group of limits', () => {
  it('holds what the profile says, and no more', async () => {
    limits = await limitsFor({ cpus: 1.5, memoryMb: 64, processes: 40 }, 'test/2');
    expect(readFileSync(join(groupHolding('pids.max'), 'pids.max'), 'utf8').trim()).toBe('40');
    const quota = ['cpu.max', 'cpu.cfs_quota_us'].find((file) => groupHolding(file)) ?? '';
    expect(readFileSync(join(groupHolding(quota), quota), 'utf8')).toMatch(/^150000\b/);
    expect(limits.notEnforced).toEqual([]);
    const none = await limitsFor({}, 'test/3');
    expect(none.wrap(['/bin/true'])).toEqual(['/bin/true']);
  });

  it('goes with the run', async () => {
    limits = await limitsFor({ cpus: 1, memoryMb: 64, processes: 40 }, 'test/4');
    const groups = entries(limits).map(dirname);
    expect(groups.filter((group) => !existsSync(group))).toEqual([]);
    await limits.remove();
    expect(groups.filter((group) => existsSync(group))).toEqual([]);
  });

  it('is cleared away when its runner is gone, and left alone when it is not', async () => {
    limits = await limitsFor({ processes: 40 }, 'test/5');
    const own = groupHolding('pids.max');
    const stale = join(dirname(own), 'muster-1.1-of-a-runner-before');
    await mkdir(stale);
    await removeStaleLimits();
    const left = existsSync(stale);
    if (left) await rmdir(stale);
    expect(left).toBe(false);
    expect(existsSync(own)).toBe(true);
  });
});
