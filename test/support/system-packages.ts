import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, rmSync, writeFileSync } from 'node:fs';

/** Programs that tests need, and the Debian packages that contain them. */
export type NeededPackages = Readonly<Record<string, string>>;

export const isInstalled = (program: string): boolean =>
  spawnSync('/bin/sh', ['-c', `PATH="$PATH:/usr/sbin" command -v ${program}`], { stdio: 'ignore' }).status ===
  0;

/** Installs missing packages if allowed, and returns the programs that are still missing. */
export function installMissing(needed: NeededPackages): string[] {
  const missing = Object.keys(needed).filter((program) => !isInstalled(program));
  const mayInstall = process.getuid?.() === 0 && existsSync('/etc/debian_version');
  if (missing.length === 0 || !mayInstall) return missing;
  const allowServices = forbidServices();
  try {
    apt('update', '-qq');
    for (const program of missing)
      apt('install', '-y', '-qq', '--no-install-recommends', needed[program] ?? program);
  } finally {
    allowServices();
  }
  return missing.filter((program) => !isInstalled(program));
}

/** Debian's packages start their services when they are installed, unless this script forbids it. */
function forbidServices(): () => void {
  const policy = '/usr/sbin/policy-rc.d';
  if (existsSync(policy)) return () => {};
  writeFileSync(policy, '#!/bin/sh\nexit 101\n', { mode: 0o755 });
  return () => rmSync(policy, { force: true });
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
