import { spawnSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { sandbox, theSandbox } from '../../../../../test/support/sandbox.ts';
import { agentProcesses } from './processes.ts';
import { seccompFilter } from './seccomp.ts';

type Verdict = 'allowed' | 'EPERM' | 'ENOSYS' | 'EPROTONOSUPPORT' | 'killed';
interface Case {
  readonly name: string;
  /** On x86-64 and arm64; null if there is no such call. */
  readonly numbers: readonly [number | null, number | null];
  readonly args?: readonly number[];
  readonly verdict: Verdict;
}

const always = (verdict: Verdict, calls: Record<string, Case['numbers']>): Case[] =>
  Object.entries(calls).map(([name, numbers]) => ({ name, numbers, verdict }));
const both = (number: number): Case['numbers'] => [number, number];

const refused = [
  ...always('EPERM', { add_key: [248, 217], request_key: [249, 218], keyctl: [250, 219] }),
  ...always('EPERM', { userfaultfd: [323, 282], perf_event_open: [298, 241], bpf: [321, 280] }),
  ...always('EPERM', { fanotify_init: [300, 262] }),
  ...always('EPERM', { kexec_load: [246, 104], kexec_file_load: [320, 294], reboot: [169, 142] }),
  ...always('EPERM', { mount: [165, 40], umount2: [166, 39], pivot_root: [155, 41], setns: [308, 268] }),
  ...always('EPERM', { open_tree: both(428), move_mount: both(429), fsopen: both(430), fsconfig: both(431) }),
  ...always('EPERM', { fsmount: both(432), fspick: both(433), mount_setattr: both(442) }),
  ...always('EPERM', { open_tree_attr: both(467), open_by_handle_at: [304, 265] }),
  ...always('EPERM', { init_module: [175, 105], finit_module: [313, 273], delete_module: [176, 106] }),
  ...always('EPERM', { swapon: [167, 224], swapoff: [168, 225], acct: [163, 89], syslog: [103, 116] }),
  ...always('EPERM', { quotactl: [179, 60], quotactl_fd: both(443), iopl: [172, null], ioperm: [173, null] }),
  ...always('ENOSYS', { io_uring_setup: both(425), io_uring_enter: both(426), io_uring_register: both(427) }),
  ...always('ENOSYS', {
    clone3: both(435),
    'a call from the future': both(470),
    'x32 read': both(0x40000000),
  }),
];

const socket: Case['numbers'] = [41, 198];
const ioctl: Case['numbers'] = [16, 29];
const unshare: Case['numbers'] = [272, 97];
const newUser = 0x10000000;
const namespaces = { mount: 0x20000, cgroup: 0x02000000, uts: 0x04000000, ipc: 0x08000000, user: newUser };

const byArgument: Case[] = [
  ...Object.entries({ ...namespaces, pid: 0x20000000, net: 0x40000000, time: 0x80 }).map(
    ([name, flag]): Case => ({
      name: `unshare of a ${name} namespace`,
      numbers: unshare,
      args: [flag],
      verdict: 'EPERM',
    }),
  ),
  { name: 'clone into a user namespace', numbers: [56, 220], args: [newUser | 17], verdict: 'EPERM' },
  { name: 'a vsock socket', numbers: socket, args: [40, 1, 0], verdict: 'EPERM' },
  { name: 'an ALG socket', numbers: socket, args: [38, 5, 0], verdict: 'EPERM' },
  { name: 'a PACKET socket', numbers: socket, args: [17, 3, 0], verdict: 'EPERM' },
  { name: 'a pair of TIPC sockets', numbers: [53, 199], args: [30, 1, 0, 0], verdict: 'EPERM' },
  ...[
    { name: 'an MPTCP socket', args: [2, 1, 262] },
    { name: 'an SCTP socket of IPv6', args: [10, 1, 132] },
    { name: 'a ping socket', args: [2, 2, 1] },
    { name: 'a raw socket', args: [2, 3, 255] },
    { name: 'a netfilter socket', args: [16, 3, 12] },
    { name: 'an audit socket', args: [16, 3, 9] },
  ].map((each): Case => ({ ...each, numbers: socket, verdict: 'EPROTONOSUPPORT' })),
  { name: 'typing into a terminal', numbers: ioctl, args: [0, 0x5412, 0], verdict: 'EPERM' },
  { name: 'pasting into a console', numbers: ioctl, args: [0, 0x541c, 0], verdict: 'EPERM' },
];

const allowed: Case[] = [
  { name: 'a UNIX socket', numbers: socket, args: [1, 1, 0], verdict: 'allowed' },
  { name: 'a TCP socket', numbers: socket, args: [2, 1, 0], verdict: 'allowed' },
  { name: 'a TCP socket by name', numbers: socket, args: [2, 0x80001, 6], verdict: 'allowed' },
  { name: 'a UDP socket', numbers: socket, args: [2, 2, 17], verdict: 'allowed' },
  { name: 'a TCP socket of IPv6', numbers: socket, args: [10, 1, 0], verdict: 'allowed' },
  { name: 'inotify', numbers: [294, 26], args: [0], verdict: 'allowed' },
  { name: 'a netlink socket', numbers: socket, args: [16, 3, 0], verdict: 'allowed' },
  { name: 'unshare of open files', numbers: unshare, args: [0x400], verdict: 'allowed' },
  { name: 'ptrace', numbers: [101, 117], args: [0, 0, 0, 0], verdict: 'allowed' },
  { name: 'getpid', numbers: [39, 172], verdict: 'allowed' },
];
const startsThread: Case = {
  name: 'clone of a thread',
  numbers: [56, 220],
  args: [0x3d0f00],
  verdict: 'allowed',
};

/** An interpreter for the part of classic BPF that filters use. */
function run(filter: Buffer, audit: number, call: number, args: readonly number[] = []): Verdict {
  const data = Buffer.alloc(64);
  data.writeUInt32LE(call, 0);
  data.writeUInt32LE(audit, 4);
  for (const [index, arg] of args.entries()) data.writeUInt32LE(arg, 16 + 8 * index);
  let accumulator = 0;
  for (let at = 0; at < filter.length / 8; at++) {
    const [code, value] = [filter.readUInt16LE(8 * at), filter.readUInt32LE(8 * at + 4)];
    const jump = (holds: boolean) => filter.readUInt8(8 * at + (holds ? 2 : 3));
    if (code === 0x20) accumulator = data.readUInt32LE(value);
    else if (code === 0x15) at += jump(accumulator === value);
    else if (code === 0x25) at += jump(accumulator > value);
    else if (code === 0x45) at += jump((accumulator & value) !== 0);
    else if (code === 0x06) return verdictOf(value);
    else throw new Error(`instruction ${at} has the unknown code ${code}`);
  }
  throw new Error('the filter has no end');
}

function verdictOf(result: number): Verdict {
  const verdicts: Record<number, Verdict> = { 2147418112: 'allowed', 2147483648: 'killed' };
  return verdicts[result] ?? errors[result & 0xffff] ?? fails(result);
}

const errors: Record<number, Verdict> = { 1: 'EPERM', 38: 'ENOSYS', 93: 'EPROTONOSUPPORT' };

function fails(result: number): never {
  throw new Error(`unknown result ${result.toString(16)}`);
}

const audits = { x64: 0xc000003e, arm64: 0xc00000b7 } as const;
const i386 = 0x40000003;

describe.each(Object.entries(audits))('the filter for %s', (architecture, audit) => {
  const filter = seccompFilter(architecture);
  const column = architecture === 'x64' ? 0 : 1;
  const cases = [...refused, ...byArgument, ...allowed, startsThread].flatMap((each) => {
    const number = each.numbers[column];
    return number === null ? [] : [{ ...each, number }];
  });

  it.each(cases)('$name: $verdict', ({ number, args, verdict }) => {
    expect(run(filter, audit, number, args)).toBe(verdict);
  });

  it('kills a process that uses system calls of another architecture', () => {
    for (const other of [i386, ...Object.values(audits)].filter((each) => each !== audit))
      expect(run(filter, other, 0)).toBe('killed');
  });

  it('is within the limits of the kernel', () => {
    expect(filter.length % 8).toBe(0);
    expect(filter.length / 8).toBeLessThan(4096);
  });
});

it('names the machines with a filter', () => {
  expect(() => seccompFilter('riscv64')).toThrow('x64 and arm64 only; this machine is riscv64');
});

const hasPerl = spawnSync('/usr/bin/perl', ['-e', '1']).status === 0;
const column = process.arch === 'x64' ? 0 : 1;
if (sandbox && !hasPerl)
  process.stderr.write('\n*** TESTS OF THE SYSTEM CALL FILTER ARE SKIPPED: perl is not installed\n\n');

describe.skipIf(!sandbox || !hasPerl)('from inside the sandbox', () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'muster-seccomp-'));
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  async function inside(argv: readonly string[]): Promise<string> {
    const agent = agentProcesses({
      sandbox: theSandbox(),
      folders: { workspaceFolder: folder, homeFolder: folder },
      dataFolder: folder,
      runFolder: folder,
      agentKey: `${process.pid}`,
      runId: 1,
      gateway: { socketPath: join(folder, 'none') },
    });
    const { child, exited } = agent.start(argv);
    const [output] = await Promise.all([text(child.stdout), text(child.stderr), exited]);
    await agent.killAll();
    return output;
  }

  /** Makes each call in its own process and prints its error number. */
  const attempts = `while (<STDIN>) {
    my @words = split; my $pid = open(my $child, '-|') // die;
    if (!$pid) { $! = 0; my $got = syscall($words[0], map { int } @words[1 .. 6]);
      print $got == -1 ? $! + 0 : 0; exit 0 }
    print scalar(<$child>), "\\n"; close $child }`;

  async function verdictsOf(cases: readonly Case[]): Promise<Record<string, Verdict>> {
    const lines = cases.map(({ numbers, args = [] }) =>
      [numbers[column], ...args, ...Array(6 - args.length).fill(0)].join(' '),
    );
    const script = `printf '%s\\n' ${lines.map((line) => `'${line}'`).join(' ')} | perl -e '${attempts.replaceAll("'", `'"'"'`)}'`;
    const numbers = (await inside(['/bin/sh', '-c', script])).trim().split('\n').map(Number);
    const names: Record<number, Verdict> = { 0: 'allowed', ...errors };
    return Object.fromEntries(
      cases.map(({ name }, at) => [name, names[numbers[at] ?? -1] ?? (`errno ${numbers[at]}` as Verdict)]),
    );
  }

  const expected = (cases: readonly Case[]) =>
    Object.fromEntries(cases.map(({ name, verdict }) => [name, verdict]));

  it('every call of the table is refused, and calls that programs need are allowed', async () => {
    const cases = [...refused, ...byArgument, ...allowed].filter(({ numbers }) => numbers[column] !== null);
    expect(await verdictsOf(cases)).toEqual(expected(cases));
  });

  it('programs can use the network of the sandbox and list its interfaces', async () => {
    const script = `const net = require('node:net'), dgram = require('node:dgram'), os = require('node:os');
      const done = (what) => console.log(what);
      done(Object.keys(os.networkInterfaces()).join());
      const udp = dgram.createSocket('udp4').bind(0, '127.0.0.1', () => { done('udp'); udp.close(); });
      const server = net.createServer((one) => one.end('tcp')).listen(0, '127.0.0.1', () =>
        net.connect(server.address().port, '127.0.0.1').on('data', (text) => { done(String(text)); server.close(); }));
      require('node:dns').lookup('localhost', (error, address) => done(error ? error.code : 'lookup'));`;
    expect((await inside([process.execPath, '-e', script])).trim().split('\n').sort()).toEqual([
      'lo',
      'lookup',
      'tcp',
      'udp',
    ]);
  });

  it('a debugger can attach to another process of the agent', async () => {
    const [attach, detach] = [16, 17];
    const ptrace = [101, 117][column];
    const script = `my $pid = fork; if (!$pid) { sleep 60; exit }
      my $got = syscall(${ptrace}, ${attach}, $pid, 0, 0); waitpid($pid, 2);
      print "attached $got"; syscall(${ptrace}, ${detach}, $pid, 0, 0); kill 9, $pid`;
    expect(await inside(['/usr/bin/perl', '-e', script])).toBe('attached 0');
  });

  it("no file shows the runner's keys, or what only root may read", async () => {
    const files = 'keys key-users kmsg timer_list slabinfo vmallocinfo kpageflags';
    const script = `cd /proc; for f in ${files}; do cat $f 2> /dev/null | head -c 1; done; echo done`;
    expect(await inside(['/bin/sh', '-c', script])).toBe('done\n');
  });

  it('can open its own terminal and write to /dev/shm, but nowhere else in /dev', async () => {
    const script =
      'exec 9<> /dev/ptmx && echo pty; echo x > /dev/shm/x && echo shm; (echo x > /dev/x) 2> /dev/null || echo refused';
    expect(await inside(['/bin/sh', '-c', script])).toBe('pty\nshm\nrefused\n');
  });
});
