import { existsSync, mkdirSync, readdirSync, statfsSync } from 'node:fs';
import { join } from 'node:path';
import { startSharedPostgres } from './database.ts';
import { removeTree } from './files.ts';
import { startSharedServers } from './shared-server.ts';
import { installMissing } from './system-packages.ts';

export async function setup() {
  installMissing(neededPackages);
  // With one heap for all its threads a worker keeps less freed memory, and forks faster.
  process.env.MALLOC_ARENA_MAX ??= '1';
  const removeFolder = useMemoryFolder();
  const stopPostgres = await startSharedPostgres();
  const endServers = await startSharedServers();
  return async () => {
    await endServers();
    await stopPostgres();
    removeFolder();
  };
}

/** Where one of these can't be installed, each suite that needs it prints what it skips. */
const neededPackages = {
  bwrap: 'bubblewrap',
  chromium: 'chromium',
  'chromium-headless-shell': 'chromium-headless-shell',
  git: 'git',
  'git-lfs': 'git-lfs',
  haproxy: 'haproxy',
  nginx: 'nginx',
  openssl: 'openssl',
  pgbouncer: 'pgbouncer',
  prometheus: 'prometheus',
  'systemd-analyze': 'systemd',
  tmux: 'tmux',
  zsh: 'zsh',
};

const memoryFolder = '/dev/shm';
const prefix = 'muster-test-';
const bytesNeeded = 6 * 1024 ** 3;

/**
 * Uses a folder in memory for temporary files if there is enough space: tests write and delete hundreds of databases,
 * clones and data folders. Returns a function that removes the folder.
 */
function useMemoryFolder(): () => void {
  if (!existsSync(memoryFolder)) return () => {};
  for (const name of readdirSync(memoryFolder).filter((name) => name.startsWith(prefix)))
    if (!existsSync(`/proc/${name.slice(prefix.length)}`)) removeTree(join(memoryFolder, name));
  const { bavail, bsize } = statfsSync(memoryFolder);
  if (bavail * bsize < bytesNeeded) return () => {};
  const folder = join(memoryFolder, `${prefix}${process.pid}`);
  mkdirSync(folder, { mode: 0o755 });
  process.env.TMPDIR = folder;
  return () => removeTree(folder);
}
