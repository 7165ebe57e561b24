import { existsSync, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm, rmdir } from 'node:fs/promises';
import { getPriority, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { sandbox } from '../../../../../test/support/sandbox.ts';
import { LimitMonitor } from './limit-monitor.ts';
import { agentProcesses } from './processes.ts';
import {
  type GroupFiles,
  groupFor,
  type RunGroup,
  removeStaleGroups,
  resourceLimits,
} from './resource-limits.ts';

type GroupLimits = Parameters<typeof groupFor>[0];

const notAvailable: string[] = [];
const trial = groupFor({ cpus: 1, memoryMb: 64, processes: 64 }, 'trial', (_, why) => notAvailable.push(why));
trial.wrap([]);
await trial.remove();
const isAvailable = notAvailable.length === 0;
if (!isAvailable)
  process.stderr.write(`\n*** TESTS OF THE LIMITS ARE SKIPPED: ${notAvailable.join(' ')}\n\n`);

let folder: string;
let limits: RunGroup;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'muster-limits-'));
});
afterEach(async () => {
  await limits?.remove();
  await rm(folder, { recursive: true, force: true });
});

/** The files by which a process enters the groups. */
const entries = (of: RunGroup): string[] =>
  of.wrap(['/bin/true']).filter((word) => word.endsWith('/cgroup.procs'));

const groupHolding = (file: string): string =>
  entries(limits)
    .map(dirname)
    .find((group) => existsSync(join(group, file))) ?? '';

function limitedAgent(wanted: GroupLimits, boundary: typeof sandbox) {
  limits = groupFor(wanted, 'test/1');
  return agentProcesses({
    sandbox: boundary,
    folders: { workspaceFolder: folder, homeFolder: folder },
    dataFolder: folder,
    runFolder: folder,
    agentKey: `limits-${process.pid}`,
    runId: 1,
    limits,
    gateway: boundary ? { socketPath: join(folder, 'none') } : { port: 9 },
  });
}

async function limitedShell(wanted: GroupLimits, script: string, boundary: typeof sandbox) {
  const agent = limitedAgent(wanted, boundary);
  const { child, exited } = agent.start(['/bin/sh', '-c', script]);
  const [stdout, stderr, exit] = await Promise.all([text(child.stdout), text(child.stderr), exited]);
  await agent.killAll();
  return { stdout, stderr, reached: limits.reached(), ...exit };
}

const places = [
  ['without a sandbox', null] as const,
  ...(sandbox ? [['in the sandbox', sandbox] as const] : []),
];

describe.skipIf(!isAvailable).each(places)('limits hold %s', (_name, boundary) => {
  it('on the number of processes', async () => {
    const many = 'n=0; while [ $n -lt 100 ]; do sleep 300 & n=$((n+1)); done; echo all';
    const { stdout, stderr, reached } = await limitedShell({ processes: 40 }, many, boundary);
    expect(stdout).toBe('');
    expect(stderr).toMatch(/fork/i);
    expect(reached).toEqual({ memoryMb: 0, processes: expect.any(Number) });
    expect(reached.processes).toBeGreaterThan(0);
  });

  it('on a fork bomb, which leaves no process', async () => {
    const agent = limitedAgent({ processes: 32 }, boundary);
    const { child } = agent.start(['/bin/sh', '-c', 'bomb() { bomb | bomb & }; bomb; read -r line']);
    for (const stream of [child.stdout, child.stderr]) stream.resume();
    await expect.poll(() => limits.reached().processes, { timeout: 20_000 }).toBeGreaterThan(0);
    await agent.killAll();
    expect(readFileSync(join(groupHolding('pids.max'), 'cgroup.procs'), 'utf8')).toBe('');
  });

  it('on memory', async () => {
    const script = 'tail /dev/zero; echo "ended by $?"';
    const { stdout, reached } = await limitedShell({ memoryMb: 64 }, script, boundary);
    expect(stdout).toBe('ended by 137\n');
    expect(reached).toEqual({ memoryMb: 1, processes: 0 });
  });
});

it.skipIf(process.platform !== 'linux').each(places)(
  'an agent makes no core dump, has a lower priority and is killed before its runner, %s',
  async (_name, boundary) => {
    const { stdout } = await limitedShell({}, 'ulimit -c; cat /proc/self/oom_score_adj; nice', boundary);
    const own = Number(readFileSync('/proc/self/oom_score_adj', 'utf8'));
    expect(stdout).toBe(`0\n${Math.max(500, own)}\n${Math.min(19, getPriority() + 5)}\n`);
  },
);

describe.skipIf(!isAvailable)('the control group of a run', () => {
  it('has the requested limits and no others', async () => {
    limits = groupFor({ cpus: 1.5, memoryMb: 64, processes: 40 }, 'test/2');
    expect(readFileSync(join(groupHolding('pids.max'), 'pids.max'), 'utf8').trim()).toBe('40');
    const quota = ['cpu.max', 'cpu.cfs_quota_us'].find((file) => groupHolding(file)) ?? '';
    expect(readFileSync(join(groupHolding(quota), quota), 'utf8')).toMatch(/^150000\b/);
    const weight = quota === 'cpu.max' ? 'cpu.weight' : 'cpu.shares';
    expect(readFileSync(join(groupHolding(quota), weight), 'utf8')).toMatch(/^(33|341)\n$/);
    expect(entries(groupFor({ memoryMb: 0 }, 'test/3'))).toEqual([]);
  });

  it('is removed with the run', async () => {
    limits = groupFor({ cpus: 1, memoryMb: 64, processes: 40 }, 'test/4');
    const groups = entries(limits).map(dirname);
    expect(groups.filter((group) => !existsSync(group))).toEqual([]);
    await limits.remove();
    expect(groups.filter((group) => existsSync(group))).toEqual([]);
  });

  it('is removed when its runner is gone, and kept while its runner lives', async () => {
    limits = groupFor({ processes: 40 }, 'test/5');
    const own = groupHolding('pids.max');
    const stale = join(dirname(own), 'muster-1.1-of-a-runner-before');
    await mkdir(stale);
    await removeStaleGroups();
    const left = existsSync(stale);
    if (left) await rmdir(stale);
    expect(left).toBe(false);
    expect(existsSync(own)).toBe(true);
  });
});

/** As much of a kernel as control groups of version 2 need, with every write in order. */
class FakeKernel implements GroupFiles {
  readonly writes: string[] = [];
  readonly #files = new Map<string, string>();
  readonly #own = '/sys/fs/cgroup/system.slice/muster.service';

  constructor(processes: Readonly<Record<number, number>>, offered = 'cpuset cpu io memory pids') {
    this.#files.set('/proc/self/mountinfo', '30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n');
    this.#files.set('/proc/self/cgroup', '0::/system.slice/muster.service\n');
    this.#files.set('/proc/self/stat', `${process.pid} (node) S ${'1 '.repeat(18)}777 `);
    for (const [pid, parent] of Object.entries(processes))
      this.#files.set(`/proc/${pid}/stat`, `${pid} (a (b) c) S ${parent} 1 1`);
    this.#files.set(
      `${this.#own}/cgroup.procs`,
      Object.keys(processes)
        .map((pid) => `${pid}\n`)
        .join(''),
    );
    this.#files.set(`${this.#own}/cgroup.controllers`, `${offered}\n`);
    this.#files.set(`${this.#own}/cgroup.subtree_control`, '\n');
  }

  read(path: string): string {
    const content = this.#files.get(path);
    if (content === undefined) throw Object.assign(new Error(`ENOENT: ${path}`), { code: 'ENOENT' });
    return content;
  }

  write(path: string, value: string): void {
    const before = this.read(path);
    this.writes.push(`${path.replace(this.#own, '')} = ${value}`);
    const isControl = path.endsWith('/cgroup.subtree_control');
    if (isControl && this.read(`${dirname(path)}/cgroup.procs`) !== '')
      throw new Error('EBUSY: it has processes');
    if (path.endsWith('/cgroup.procs'))
      this.#files.set(
        `${this.#own}/cgroup.procs`,
        this.read(`${this.#own}/cgroup.procs`).replace(`${value}\n`, ''),
      );
    this.#files.set(path, isControl ? `${before.trim()} ${value.slice(1)}` : value);
  }

  makeFolder(path: string): void {
    const enabled = this.read(`${dirname(path)}/cgroup.subtree_control`)
      .trim()
      .split(' ');
    const files: Record<string, string[]> = {
      cpu: ['cpu.max', 'cpu.weight'],
      memory: ['memory.max', 'memory.swap.max', 'memory.events'],
      pids: ['pids.max', 'pids.events'],
    };
    for (const file of ['cgroup.procs', ...enabled.flatMap((name) => files[name] ?? [])])
      if (!this.#files.has(`${path}/${file}`)) this.#files.set(`${path}/${file}`, '');
  }

  removeFolder(path: string): void {
    this.writes.push(`rmdir ${path.replace(this.#own, '')}`);
  }

  list(path: string): string[] {
    const below = [...this.#files.keys()].filter((file) => file.startsWith(`${path}/`));
    return [...new Set(below.map((file) => file.slice(path.length + 1).split('/')[0] ?? ''))];
  }

  happens(path: string, content: string): void {
    this.#files.set(`${this.#own}${path}`, content);
  }
}

describe('control groups of version 2', () => {
  const group = `/muster-${process.pid}.777-agent-1`;
  const all = { cpus: 1.5, memoryMb: 64, processes: 40 };
  const inGroup = [
    `${group}/cpu.max = 150000 100000`,
    `${group}/memory.max = 67108864`,
    `${group}/memory.swap.max = 0`,
    `${group}/pids.max = 40`,
    `${group}/cpu.weight = 33`,
  ];

  it('are made below the group of the runner, which moves itself and its children to a sibling group', async () => {
    const [postgres, backend] = [4_000_001, 4_000_002];
    const kernel = new FakeKernel({ [process.pid]: 1, [postgres]: process.pid, [backend]: postgres });
    const warnings: string[] = [];
    const made = groupFor(all, 'agent/1', (_, why) => warnings.push(why), kernel);
    expect(kernel.writes).toEqual([]);
    const command = made.wrap(['/bin/true']);
    expect(warnings).toEqual([]);
    expect(kernel.writes).toEqual([
      '/cgroup.subtree_control = +cpu',
      ...[process.pid, postgres, backend]
        .sort((a, b) => a - b)
        .map((pid) => `/muster-runner/cgroup.procs = ${pid}`),
      '/cgroup.subtree_control = +cpu',
      inGroup[0],
      '/cgroup.subtree_control = +memory',
      ...inGroup.slice(1, 3),
      '/cgroup.subtree_control = +pids',
      ...inGroup.slice(3),
    ]);
    expect(command.filter((word) => word.endsWith('cgroup.procs'))).toEqual([
      `/sys/fs/cgroup/system.slice/muster.service${group}/cgroup.procs`,
    ]);
    expect(command.slice(-2)).toEqual(['--', '/bin/true']);
    made.wrap(['/bin/true']);
    kernel.writes.length = 0;
    await made.remove();
    expect(kernel.writes).toEqual([`rmdir ${group}`]);
  });

  it('count killed processes and refused starts', () => {
    const kernel = new FakeKernel({ [process.pid]: 1 });
    const made = groupFor(all, 'agent/1', undefined, kernel);
    made.wrap([]);
    expect(made.reached()).toEqual({ memoryMb: 0, processes: 0 });
    kernel.happens(`${group}/memory.events`, 'low 0\nhigh 0\nmax 31\noom 3\noom_kill 2\noom_group_kill 0\n');
    kernel.happens(`${group}/pids.events`, 'max 17\n');
    expect(made.reached()).toEqual({ memoryMb: 2, processes: 17 });
  });

  it('are not used if other processes are in the group of the runner, and those are not moved', () => {
    const shell = 4_000_003;
    const kernel = new FakeKernel({ [process.pid]: shell, [shell]: 1 });
    const warnings: string[] = [];
    const command = groupFor({ processes: 40 }, 'agent/1', (_, why) => warnings.push(why), kernel).wrap([]);
    expect(warnings).toEqual([
      `The limit processes: 40 is not enforced on this runner: the runner's control group contains other processes (pid ${shell})`,
    ]);
    expect(kernel.writes).toEqual(['/cgroup.subtree_control = +pids']);
    expect(command.filter((word) => word.endsWith('cgroup.procs'))).toEqual([]);
  });

  it('name each limit whose controller is not available, and enforce the others', () => {
    const kernel = new FakeKernel({ [process.pid]: 1 }, 'cpu pids');
    const warnings: string[] = [];
    groupFor(all, 'agent/1', (limit, why) => warnings.push(`${limit}: ${why}`), kernel).wrap([]);
    expect(warnings).toEqual([
      'memoryMb: The limit memoryMb: 64 is not enforced on this runner: this system has no memory control group for the runner',
    ]);
    expect(kernel.writes.filter((write) => write.startsWith(group))).toEqual([
      inGroup[0],
      ...inGroup.slice(3),
    ]);
  });
});

const gib = 1024 ** 3;

it('an empty profile gets built-in limits, with less memory on a small machine', () => {
  expect(resourceLimits({}, 64 * gib)).toEqual({ memoryMb: 4096, processes: 1024, scratchMb: 1024 });
  expect(resourceLimits({}, 2 * gib)).toEqual({ memoryMb: 1536, processes: 1024, scratchMb: 1024 });
});

it('a profile overrides every limit, also with 0', () => {
  const profile = { cpus: 2, memoryMb: 8192, processes: 0, scratchMb: 0 };
  expect(resourceLimits(profile, 2 * gib)).toEqual(profile);
});

it('each limit that is reached is reported once, with its value and how to raise it', async () => {
  const warnings: string[] = [];
  let reached = { memoryMb: 0, processes: 0 };
  const monitor = new LimitMonitor({
    profile: { name: 'small' },
    limits: { memoryMb: 64, processes: 32, scratchMb: 8 },
    group: { reached: () => reached },
    fullScratch: async () => (reached.memoryMb > 1 ? ['/tmp', '/dev/shm'] : []),
    warn: (text) => warnings.push(text),
  });
  await monitor.check();
  expect(warnings).toEqual([]);
  reached = { memoryMb: 1, processes: 0 };
  await monitor.check();
  reached = { memoryMb: 2, processes: 7 };
  await monitor.check();
  await monitor.check();
  const raise = (limit: string) =>
    `To raise it, set ${limit} in the vm-profile small, which the pool of this run uses.`;
  expect(warnings).toEqual([
    `The run reached its limit memoryMb: 64. The kernel killed 1 of its processes. ${raise('memoryMb')}`,
    `The run reached its limit processes: 32. 7 processes or threads could not be started. ${raise('processes')}`,
    `The run reached its limit scratchMb: 8. Full: /tmp, /dev/shm. ${raise('scratchMb')}`,
  ]);
});
