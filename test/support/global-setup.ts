import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, rmSync, statfsSync } from 'node:fs';
import { join } from 'node:path';
import { startSharedPostgres } from './database.ts';
import { startSharedServers } from './shared-server.ts';

export async function setup() {
  installSystemPackages();
  const removeFolder = useMemoryFolder();
  const stopPostgres = await startSharedPostgres();
  const endServers = await startSharedServers();
  return async () => {
    await endServers();
    await stopPostgres();
    removeFolder();
  };
}

/** Programs that suites need, and the Debian packages that contain them. */
const neededPackages: Readonly<Record<string, string>> = {
  bwrap: 'bubblewrap',
  'chromium-headless-shell': 'chromium-headless-shell',
  git: 'git',
  tmux: 'tmux',
  zsh: 'zsh',
};

const isInstalled = (program: string): boolean =>
  spawnSync('/bin/sh', ['-c', `command -v ${program}`], { stdio: 'ignore' }).status === 0;

/** Installs missing packages if allowed; otherwise each suite prints what it skips. */
function installSystemPackages(): void {
  const missing = Object.keys(neededPackages).filter((program) => !isInstalled(program));
  if (missing.length === 0) return;
  const mayInstall = process.getuid?.() === 0 && existsSync('/etc/debian_version');
  if (!mayInstall) return;
  apt('update', '-qq');
  for (const program of missing)
    apt('install', '-y', '-qq', '--no-install-recommends', neededPackages[program] ?? program);
}

function apt(...args: string[]): void {
  try {
    execFileSync('apt-get', args, {
      stdio: ['ignore', 'ignore', 'inherit'],
      env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
    });
  } catch (error) {
    process.stderr.write(`\n*** ${(error as Error).message}\n\n`);
  }
}

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
    if (!existsSync(`/proc/${name.slice(prefix.length)}`)) remove(join(memoryFolder, name));
  const { bavail, bsize } = statfsSync(memoryFolder);
  if (bavail * bsize < bytesNeeded) return () => {};
  const folder = join(memoryFolder, `${prefix}${process.pid}`);
  mkdirSync(folder, { mode: 0o755 });
  process.env.TMPDIR = folder;
  return () => remove(folder);
}

const remove = (folder: string): void => rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
