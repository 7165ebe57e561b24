import { existsSync, lstatSync, readdirSync, readlinkSync, realpathSync } from 'node:fs';
import { dirname, isAbsolute, join, relative } from 'node:path';

/**
 * What an agent's processes can access, as arguments of bubblewrap. Everything that is not named here is hidden. Named
 * are the system's programs read-only, a few files of /etc, tmpfs folders for /tmp and /run, and the agent's own two
 * folders, the only ones that persist and can be written.
 *
 * If the runner is root, the kernel treats the agent as root without any capability: it could read files that only root
 * may read, and write settings below /proc/sys, which need root but no capability. So /proc is read-only as a whole, and
 * only the named files of /etc exist.
 */
export interface Sandbox {
  /** The bubblewrap program. */
  readonly program: string;
  /** The user and group id that the agent sees: the runner's, unless that is root. */
  readonly uid: number;
  readonly gid: number;
  /** Whether this bubblewrap can forbid new user namespaces; otherwise only the system call filter does. */
  readonly forbidsNamespaces: boolean;
  /** Whether this bubblewrap can limit the size of a tmpfs. */
  readonly limitsScratch: boolean;
  /** Symbolic links of the root folder, such as /bin → usr/bin. */
  readonly links: readonly { readonly path: string; readonly target: string }[];
  /** What every agent may read of the system, including the operator's own list. */
  readonly reads: readonly string[];
  /** Files of /proc about the machine or its users' keys: no agent may read them. */
  readonly masks: readonly string[];
}

export interface OwnFolders {
  readonly workspaceFolder: string;
  readonly homeFolder: string;
  /** A folder in which both have a second path, `workspace` and `home`. */
  readonly preparedAt?: string | undefined;
}

export interface View {
  readonly folders: OwnFolders;
  /** The runner's data folder, under each of its paths: hidden except for what is named here. */
  readonly hides: readonly string[];
  readonly reads: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  /** The size limit of each tmpfs; 0 means none. */
  readonly scratchMb: number;
  /** File descriptors: bubblewrap reads the accounts and the system call filter, and writes the pid of the init. */
  readonly files: Readonly<Record<'info' | 'passwd' | 'group' | 'filter', number>>;
}

export const sandboxUser = 'agent';

/** The tmpfs folders that the agent may write to. */
export const scratchFolders = ['/tmp', '/run', '/dev/shm'] as const;

export function bubblewrapArguments(sandbox: Sandbox, view: View): string[] {
  const isLimited = sandbox.limitsScratch && view.scratchMb > 0;
  const size = isLimited ? ['--size', `${Math.ceil(view.scratchMb * 1024 ** 2)}`] : [];
  return [
    ...isolation(sandbox),
    ...sandbox.links.flatMap(({ path, target }) => ['--symlink', target, path]),
    ...['--proc', '/proc', ...sandbox.masks.flatMap((path) => ['--ro-bind', '/dev/null', path])],
    ...['--remount-ro', '/proc', '--dev', '/dev'],
    ...scratchFolders.flatMap((folder) => [...size, '--tmpfs', folder]),
    ...['--remount-ro', '/dev'],
    ...folders(sandbox, view),
    ...['--ro-bind-data', `${view.files.passwd}`, '/etc/passwd'],
    ...['--ro-bind-data', `${view.files.group}`, '/etc/group'],
    ...['--remount-ro', '/'],
    '--clearenv',
    ...Object.entries(view.environment).flatMap(([name, value]) => ['--setenv', name, value]),
    ...[
      '--chdir',
      view.folders.workspaceFolder,
      '--info-fd',
      `${view.files.info}`,
      '--seccomp',
      `${view.files.filter}`,
    ],
  ];
}

function isolation({ uid, gid, forbidsNamespaces }: Sandbox): string[] {
  return [
    ...['--unshare-all', '--unshare-user', '--die-with-parent', '--new-session', '--cap-drop', 'ALL'],
    ...['--hostname', 'agent', '--uid', `${uid}`, '--gid', `${gid}`],
    ...(forbidsNamespaces ? ['--disable-userns'] : []),
  ];
}

/** A later mount covers an earlier one: first what may be read, then what is hidden, then the exceptions to that. */
function folders(sandbox: Sandbox, { folders: own, hides, reads }: View): string[] {
  const isHidden = (path: string) => hides.some((hidden) => path !== hidden && isInside(path, hidden));
  const all = outermost([...sandbox.reads, ...reads]);
  const covers = hides.filter((hidden) => [...all, ...scratchFolders].some((path) => isInside(hidden, path)));
  const readOnly = (paths: readonly string[]) => paths.flatMap((path) => ['--ro-bind', path, path]);
  return [
    ...readOnly(all.filter((path) => !isHidden(path))),
    ...covers.flatMap((path) => ['--tmpfs', path]),
    ...readOnly([...sandbox.reads, ...reads].filter(isHidden)),
    ...[own.workspaceFolder, own.homeFolder].flatMap((path) => ['--bind', path, path]),
    ...secondPaths(own),
    ...covers.flatMap((path) => ['--remount-ro', path]),
  ];
}

function secondPaths({ workspaceFolder, homeFolder, preparedAt }: OwnFolders): string[] {
  if (preparedAt === undefined) return [];
  const bind = (from: string, name: string) => ['--bind', from, join(preparedAt, name)];
  return [...bind(workspaceFolder, 'workspace'), ...bind(homeFolder, 'home')];
}

/** Without paths inside other ones, which need no extra mount. */
function outermost(paths: readonly string[]): string[] {
  const unique = [...new Set(paths)];
  return unique.filter((path) => !unique.some((other) => other !== path && isInside(path, other)));
}

function isInside(path: string, folder: string): boolean {
  const way = relative(folder, path);
  return way === '' || !(way === '..' || way.startsWith('../') || isAbsolute(way));
}

/** The accounts that the agent sees: its own, and the two that programs expect. */
export function accounts({ uid, gid }: Sandbox, homeFolder: string): { passwd: string; group: string } {
  const passwd = [
    `${sandboxUser}:x:${uid}:${gid}::${homeFolder}:/bin/sh`,
    'root:x:0:0::/root:/usr/sbin/nologin',
    'nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin',
  ];
  const group = [`${sandboxUser}:x:${gid}:`, 'root:x:0:', 'nogroup:x:65534:'];
  return { passwd: `${passwd.join('\n')}\n`, group: `${group.join('\n')}\n` };
}

/** Programs and their libraries; on most systems all but the first are links into it. */
const programFolders = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32', '/nix/store'];

/** Named one by one: /etc also contains private keys, which a runner that is root could read. */
const etcEntries = [
  ...['alternatives', 'bash.bashrc', 'ca-certificates', 'ca-certificates.conf', 'crypto-policies'],
  ...['debian_version', 'fonts', 'hosts', 'ld.so.cache', 'ld.so.conf', 'ld.so.conf.d', 'localtime'],
  ...['magic', 'mime.types', 'nsswitch.conf', 'os-release', 'pki/ca-trust', 'pki/tls/cert.pem'],
  ...['pki/tls/certs', 'profile', 'profile.d', 'protocols', 'services', 'shells', 'ssl/cert.pem'],
  ...['ssl/certs', 'ssl/openssl.cnf', 'terminfo', 'timezone'],
].map((name) => `/etc/${name}`);

/** What every agent may read of this system, and its user id. */
export function systemView(
  extra: readonly string[],
): Omit<Sandbox, 'program' | 'forbidsNamespaces' | 'limitsScratch'> {
  const present = programFolders.filter((path) => existsSync(path));
  const isLink = (path: string) => lstatSync(path).isSymbolicLink();
  return {
    ...agentIds(),
    links: present.filter(isLink).map((path) => ({ path, target: readlinkSync(path) })),
    reads: [
      ...present.filter((path) => !isLink(path)),
      ...etcEntries.filter((path) => existsSync(path)),
      ...nodePaths(),
      ...extra,
    ],
    masks: procMasks(),
  };
}

/** Keyrings, which namespaces don't separate, and files that only root may read, in case the runner is root. */
function procMasks(): string[] {
  return readdirSync('/proc')
    .filter((name) => !/^\d+$/.test(name)) // processes, which may exit meanwhile
    .map((name) => ({ path: `/proc/${name}`, stat: lstatSync(`/proc/${name}`) }))
    .filter(({ path, stat }) => stat.isFile() && (/\/key(s|-users)$/.test(path) || (stat.mode & 0o004) === 0))
    .map(({ path }) => path);
}

function agentIds(): { uid: number; gid: number } {
  const [uid, gid] = [process.getuid?.() ?? 0, process.getgid?.() ?? 0];
  return uid === 0 ? { uid: 1000, gid: 1000 } : { uid, gid };
}

/** The runner's own Node and npm. Never the whole prefix, which may be a home folder. */
function nodePaths(): string[] {
  const programs = new Set([process.execPath, realpathSync(process.execPath)]);
  return [...programs].flatMap((program) => {
    const folder = dirname(program);
    const modules = join(dirname(folder), 'lib', 'node_modules');
    return [folder === '/' ? program : folder, ...(existsSync(modules) ? [modules] : [])];
  });
}
