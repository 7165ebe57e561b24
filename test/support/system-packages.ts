import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';

/** Programs of the system that suites need, and Debian's packages for them. */
const needed: Readonly<Record<string, string>> = {
  bwrap: 'bubblewrap',
  'chromium-headless-shell': 'chromium-headless-shell',
  git: 'git',
  tmux: 'tmux',
  zsh: 'zsh',
};

const isThere = (program: string): boolean =>
  spawnSync('/bin/sh', ['-c', `command -v ${program}`], { stdio: 'ignore' }).status === 0;

/** Installs what is missing where that is allowed; elsewhere each suite says loudly what it skips. */
export function installSystemPackages(): void {
  const missing = Object.keys(needed).filter((program) => !isThere(program));
  if (missing.length === 0) return;
  const mayInstall = process.getuid?.() === 0 && existsSync('/etc/debian_version');
  if (!mayInstall) return;
  apt('update', '-qq');
  for (const program of missing)
    apt('install', '-y', '-qq', '--no-install-recommends', needed[program] ?? program);
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
