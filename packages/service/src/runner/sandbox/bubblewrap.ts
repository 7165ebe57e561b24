import { isAbsolute, relative } from 'node:path';

/**
 * What an agent's processes see, as arguments of bubblewrap. Everything is forbidden but what is named here: the
 * system's programs read-only, a few files of /etc, folders of memory for /tmp and /run, and the agent's own two
 * folders, the only ones that last and can be written.
 *
 * When the runner is root, so is the agent in the eyes of the kernel, without any capability: files that root alone
 * may read would be open to it, and settings below /proc/sys, which ask for root and not for a capability. So
 * /proc is read-only as a whole, and of /etc only what is named is there.
 */
export interface Sandbox {
  /** The bubblewrap program. */
  readonly program: string;
  /** Who the agent is in its own eyes: the runner, unless that is root. */
  readonly uid: number;
  readonly gid: number;
  /** The agent may make no namespaces of its own; an older bubblewrap can't forbid that, and the filter has to. */
  readonly forbidsNamespaces: boolean;
  /** Folders of memory can have a size; an older bubblewrap can't limit them. */
  readonly limitsScratch: boolean;
  /** Symbolic links of the root folder, such as /bin → usr/bin. */
  readonly links: readonly { readonly path: string; readonly target: string }[];
  /** What of the system every agent may read, the operator's own list included. */
  readonly reads: readonly string[];
  /** Files of /proc that tell about the machine or about keys of its users: no agent may read them. */
  readonly masks: readonly string[];
}

export interface View {
  readonly folders: { readonly workspaceFolder: string; readonly homeFolder: string };
  /** Where the runner keeps its things, by each of its names: nothing of it is seen but what is named here. */
  readonly hides: readonly string[];
  readonly reads: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  /** The most that each folder of memory may hold; 0 is no limit. */
  readonly scratchMb: number;
  /** Where the command starts. */
  readonly folder: string;
  /** Open files: bubblewrap reads accounts and the system call filter, and writes the pid of the sandbox's init. */
  readonly files: Readonly<Record<'info' | 'passwd' | 'group' | 'filter', number>>;
}

export const sandboxUser = 'agent';

/** Folders of memory that the agent may write to. */
export const scratchFolders = ['/tmp', '/run', '/dev/shm'] as const;

export function bubblewrapArguments(sandbox: Sandbox, view: View): string[] {
  const isLimited = sandbox.limitsScratch && view.scratchMb > 0;
  const size = isLimited ? ['--size', `${Math.ceil(view.scratchMb * 1024 ** 2)}`] : [];
  return [
    ...apart(sandbox),
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
    ...['--chdir', view.folder, '--info-fd', `${view.files.info}`, '--seccomp', `${view.files.filter}`],
  ];
}

function apart({ uid, gid, forbidsNamespaces }: Sandbox): string[] {
  return [
    ...['--unshare-all', '--unshare-user', '--die-with-parent', '--new-session', '--cap-drop', 'ALL'],
    ...['--hostname', 'agent', '--uid', `${uid}`, '--gid', `${gid}`],
    ...(forbidsNamespaces ? ['--disable-userns'] : []),
  ];
}

/**
 * A later mount covers an earlier one. What is hidden covers what is read, wherever it stands; what may be seen of it
 * comes after.
 */
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
    ...covers.flatMap((path) => ['--remount-ro', path]),
  ];
}

/** Without those that another one already holds: a mount less each. */
function outermost(paths: readonly string[]): string[] {
  const different = [...new Set(paths)];
  return different.filter((path) => !different.some((other) => other !== path && isInside(path, other)));
}

function isInside(path: string, folder: string): boolean {
  const way = relative(folder, path);
  return way === '' || !(way === '..' || way.startsWith('../') || isAbsolute(way));
}

/** The accounts that the agent sees: itself, and the two that programs expect. */
export function accounts({ uid, gid }: Sandbox, homeFolder: string): { passwd: string; group: string } {
  const passwd = [
    `${sandboxUser}:x:${uid}:${gid}::${homeFolder}:/bin/sh`,
    'root:x:0:0::/root:/usr/sbin/nologin',
    'nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin',
  ];
  const group = [`${sandboxUser}:x:${gid}:`, 'root:x:0:', 'nogroup:x:65534:'];
  return { passwd: `${passwd.join('\n')}\n`, group: `${group.join('\n')}\n` };
}
