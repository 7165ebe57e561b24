/**
 * The system call filter of every sandbox, as the classic BPF program that bubblewrap loads with `--seccomp`.
 *
 * A user namespace gives an agent access to kernel code that programs rarely use and where most local privilege
 * escalations were found: mounts, namespaces, BPF, io_uring, exotic socket families. Keyrings are not bounded by any
 * namespace at all. None of it is needed to build software, so it is refused. `ptrace` is allowed: debuggers need it,
 * and the pid namespace bounds it.
 *
 * The filter sees a call's number and its arguments as registers, never the memory they point to. `clone3` has its
 * flags in memory, so it does not exist here; C libraries then fall back to `clone`.
 */

/** AUDIT_ARCH_… of linux/audit.h, and the place in the tables below, by architecture in Node's words. */
const architectures: ReadonlyMap<string, { readonly audit: number; readonly column: 0 | 1 }> = new Map([
  ['x64', { audit: 0xc000003e, column: 0 }],
  ['arm64', { audit: 0xc00000b7, column: 1 }],
]);

const errno = { EPERM: 1, ENOSYS: 38, EPROTONOSUPPORT: 93 } as const;

/** The numbers on x86-64 and on arm64; null where the architecture has no such call. */
type Numbers = readonly [x64: number | null, arm64: number | null];

/** Refused with EPERM, whatever the arguments. */
const deniedCalls: Readonly<Record<string, Numbers>> = {
  // Keys outlive the process that added them and are shared by all processes of the user.
  add_key: [248, 217],
  request_key: [249, 218],
  keyctl: [250, 219],
  // Frequent parts of kernel exploits.
  userfaultfd: [323, 282],
  perf_event_open: [298, 241],
  bpf: [321, 280],
  // The kernel counts its groups per user: one agent could use up those of all.
  fanotify_init: [300, 262],
  // Mounts: what the agent sees is decided before its first process starts.
  mount: [165, 40],
  umount2: [166, 39],
  pivot_root: [155, 41],
  open_tree: [428, 428],
  move_mount: [429, 429],
  fsopen: [430, 430],
  fsconfig: [431, 431],
  fsmount: [432, 432],
  fspick: [433, 433],
  mount_setattr: [442, 442],
  open_tree_attr: [467, 467],
  setns: [308, 268],
  open_by_handle_at: [304, 265],
  // The machine itself. Each of these also needs a capability that no agent has.
  kexec_load: [246, 104],
  kexec_file_load: [320, 294],
  init_module: [175, 105],
  finit_module: [313, 273],
  delete_module: [176, 106],
  reboot: [169, 142],
  swapon: [167, 224],
  swapoff: [168, 225],
  acct: [163, 89],
  quotactl: [179, 60],
  quotactl_fd: [443, 443],
  iopl: [172, null],
  ioperm: [173, null],
  // The kernel log of the machine, which any user may read on many systems.
  syslog: [103, 116],
};

/** Answered with ENOSYS, as a kernel without them does: programs have another way. */
const missingCalls: Readonly<Record<string, Numbers>> = {
  io_uring_setup: [425, 425],
  io_uring_enter: [426, 426],
  io_uring_register: [427, 427],
  clone3: [435, 435],
};

/**
 * The newest call that was considered here (file_setattr). Later ones do not exist in a sandbox until they have been
 * considered. Calls of the x32 ABI have numbers from 0x40000000 and are refused by the same rule.
 */
const newestCall = 469;

/** CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET: any of them makes a namespace. */
const namespaceFlags = 0x7e020000;
/** CLONE_NEWTIME: only for `unshare`, because the same bits of `clone` are the signal at the end of the process. */
const timeNamespaceFlag = 0x80;
/**
 * The protocols of each socket family; null for all. Refused are other families, such as VSOCK, ALG and PACKET, and other
 * protocols: with EPROTONOSUPPORT, as a kernel without them does, because programs then have another way.
 */
const allowedProtocols: ReadonlyMap<number, readonly number[] | null> = new Map([
  [1, null], // UNIX
  [2, [0, 6, 17]], // INET: the default of the type, TCP, UDP. Not MPTCP, SCTP, ICMP.
  [10, [0, 6, 17]], // INET6
  [16, [0]], // NETLINK: ROUTE, by which programs list network interfaces. Not netfilter, crypto, audit.
]);
/** TIOCSTI and TIOCLINUX type into the terminal that another program reads. */
const deniedTerminalRequests = [0x5412, 0x541c] as const;

const filteredCalls = {
  clone: [56, 220],
  unshare: [272, 97],
  socket: [41, 198],
  socketpair: [53, 199],
  ioctl: [16, 29],
} as const satisfies Readonly<Record<string, Numbers>>;

/** Instruction codes of linux/bpf_common.h. */
const opcodes = { load: 0x20, ifEqual: 0x15, ifGreater: 0x25, ifAnySet: 0x45, return: 0x06 } as const;
const allow = 0x7fff0000;
const killProcess = 0x80000000;
const fail = (code: number): number => 0x00050000 | code;

/** Offsets in struct seccomp_data. Arguments have 64 bits, of which the calls here read the low 32. */
const offsets = { call: 0, architecture: 4, argument: (index: number) => 16 + 8 * index } as const;

/** How many of the next instructions are skipped when a comparison holds, and when it does not. */
type Instruction = readonly [code: number, skipIfTrue: number, skipIfFalse: number, value: number];

const load = (offset: number): Instruction => [opcodes.load, 0, 0, offset];
const end = (result: number): Instruction => [opcodes.return, 0, 0, result];
const unless = (code: number, value: number, skipped: number): Instruction => [code, 0, skipped, value];

/** Ends with the result if the comparison holds. */
const endIf = (code: number, value: number, result: number): Instruction[] => [
  unless(code, value, 1),
  end(result),
];

/** For an architecture in Node's words. One without a filter has no sandbox. */
export function seccompFilter(name: string): Buffer {
  const architecture = architectures.get(name);
  if (!architecture) {
    const known = [...architectures.keys()].join(' and ');
    throw new Error(`the sandbox has a system call filter for ${known} only; this machine is ${name}`);
  }
  const { audit, column } = architecture;
  const { ifEqual, ifGreater, ifAnySet } = opcodes;
  const denied = fail(errno.EPERM);
  const missing = fail(errno.ENOSYS);
  const numbersOf = (table: Readonly<Record<string, Numbers>>): number[] =>
    Object.values(table).flatMap((numbers) => numbers[column] ?? []);
  const byArgument = (number: number, argument: number, rules: readonly Instruction[]): Instruction[] => [
    unless(ifEqual, number, rules.length + 1),
    load(offsets.argument(argument)),
    ...rules,
  ];
  const without = (flags: number) => [...endIf(ifAnySet, flags, denied), end(allow)];
  const sockets = [
    ...[...allowedProtocols].flatMap(([family, protocols]) => {
      if (!protocols) return endIf(ifEqual, family, allow);
      const ofFamily = [
        load(offsets.argument(2)),
        ...protocols.flatMap((protocol) => endIf(ifEqual, protocol, allow)),
        end(fail(errno.EPROTONOSUPPORT)),
      ];
      return [unless(ifEqual, family, ofFamily.length), ...ofFamily];
    }),
    end(denied),
  ];
  const terminal = [
    ...deniedTerminalRequests.flatMap((request) => endIf(ifEqual, request, denied)),
    end(allow),
  ];
  const call = (of: keyof typeof filteredCalls): number => filteredCalls[of][column];
  return encoded([
    load(offsets.architecture),
    // A process may enter the kernel by the 32-bit ABI, where every number means something else.
    [ifEqual, 1, 0, audit],
    end(killProcess),
    load(offsets.call),
    ...endIf(ifGreater, newestCall, missing),
    ...numbersOf(missingCalls).flatMap((number) => endIf(ifEqual, number, missing)),
    ...numbersOf(deniedCalls).flatMap((number) => endIf(ifEqual, number, denied)),
    ...byArgument(call('clone'), 0, without(namespaceFlags)),
    ...byArgument(call('unshare'), 0, without(namespaceFlags | timeNamespaceFlag)),
    ...byArgument(call('socket'), 0, sockets),
    ...byArgument(call('socketpair'), 0, sockets),
    ...byArgument(call('ioctl'), 1, terminal),
    end(allow),
  ]);
}

/** struct sock_filter: both architectures are little-endian. */
function encoded(program: readonly Instruction[]): Buffer {
  const bytes = Buffer.alloc(8 * program.length);
  for (const [index, [code, skipIfTrue, skipIfFalse, value]] of program.entries()) {
    const at = 8 * index;
    bytes.writeUInt16LE(code, at);
    bytes.writeUInt8(skipIfTrue, at + 2);
    bytes.writeUInt8(skipIfFalse, at + 3);
    bytes.writeUInt32LE(value, at + 4);
  }
  return bytes;
}
