import { existsSync, lstatSync, readdirSync, readlinkSync, realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Sandbox } from './bubblewrap.ts';

/** Where programs and their libraries are; on most systems all but the first are links into it. */
const programFolders = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32', '/nix/store'];

/** Named one by one: /etc also holds private keys, and a runner that is root could read them. */
const etcEntries = [
  ...[
    'alternatives',
    'bash.bashrc',
    'ca-certificates',
    'ca-certificates.conf',
    'crypto-policies',
    'debian_version',
  ],
  ...['fonts', 'hosts', 'ld.so.cache', 'ld.so.conf', 'ld.so.conf.d', 'localtime', 'magic', 'mime.types'],
  ...[
    'nsswitch.conf',
    'os-release',
    'pki/ca-trust',
    'pki/tls/cert.pem',
    'pki/tls/certs',
    'profile',
    'profile.d',
  ],
  ...[
    'protocols',
    'services',
    'shells',
    'ssl/cert.pem',
    'ssl/certs',
    'ssl/openssl.cnf',
    'terminfo',
    'timezone',
  ],
].map((name) => `/etc/${name}`);

/** What of this system every agent may see, and who it is there. */
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

/** Keyrings, which no namespace bounds; and what only root may read, for a runner that is root. */
function procMasks(): string[] {
  return readdirSync('/proc')
    .filter((name) => !/^\d+$/.test(name)) // processes, which come and go while this reads
    .map((name) => ({ path: `/proc/${name}`, stat: lstatSync(`/proc/${name}`) }))
    .filter(({ path, stat }) => stat.isFile() && (/\/key(s|-users)$/.test(path) || (stat.mode & 0o004) === 0))
    .map(({ path }) => path);
}

function agentIds(): { uid: number; gid: number } {
  const [uid, gid] = [process.getuid?.() ?? 0, process.getgid?.() ?? 0];
  return uid === 0 ? { uid: 1000, gid: 1000 } : { uid, gid };
}

/** The runner's own Node, and npm beside it. Never the whole prefix: it may be somebody's home. */
function nodePaths(): string[] {
  const programs = new Set([process.execPath, realpathSync(process.execPath)]);
  return [...programs].flatMap((program) => {
    const folder = dirname(program);
    const modules = join(dirname(folder), 'lib', 'node_modules');
    return [folder === '/' ? program : folder, ...(existsSync(modules) ? [modules] : [])];
  });
}
