import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** A bare repository on this machine, and somebody with a clone of it who is not an agent. */
export interface GitRemote {
  readonly url: string;
  readonly git: (...args: string[]) => string;
  /** Commits these files to a branch, which begins at another one if need be, and pushes; returns the commit. */
  readonly commit: (branch: string, files: Readonly<Record<string, string>>, from?: string) => string;
}

const settings = ['user.name=Somebody', 'user.email=somebody@example.com', 'safe.directory=*'];

/** The real git with nobody's configuration; throws with what it said. */
export function gitIn(folder: string, ...args: string[]): string {
  return execFileSync('git', ['-C', folder, ...settings.flatMap((s) => ['-c', s]), ...args], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      PATH: process.env.PATH,
      GIT_CONFIG_GLOBAL: '/dev/null',
      GIT_CONFIG_NOSYSTEM: '1',
      LC_ALL: 'C.UTF-8',
    },
  }).trim();
}

export function makeGitRemote(folder: string, name: string): GitRemote {
  const url = join(folder, `${name}.git`);
  const clone = join(folder, `${name}-of-somebody`);
  mkdirSync(url, { recursive: true });
  mkdirSync(clone, { recursive: true });
  gitIn(url, 'init', '--quiet', '--bare', '--initial-branch=main');
  gitIn(clone, 'init', '--quiet', '--initial-branch=main');
  gitIn(clone, 'remote', 'add', 'origin', url);
  return {
    url,
    git: (...args) => gitIn(url, ...args),
    commit: (branch, files, from = branch) => {
      gitIn(clone, 'fetch', '--quiet', 'origin');
      const known = gitIn(clone, 'for-each-ref', '--format=%(refname)', `refs/remotes/origin/${from}`);
      if (known) gitIn(clone, 'checkout', '--quiet', '--force', '--no-track', '-B', branch, `origin/${from}`);
      else gitIn(clone, 'symbolic-ref', 'HEAD', `refs/heads/${branch}`);
      for (const [path, text] of Object.entries(files)) {
        mkdirSync(dirname(join(clone, path)), { recursive: true });
        writeFileSync(join(clone, path), text);
      }
      gitIn(clone, 'add', '--all');
      gitIn(clone, 'commit', '--quiet', '--allow-empty', '--message', `${branch}: ${Object.keys(files)}`);
      gitIn(clone, 'push', '--quiet', 'origin', branch);
      return gitIn(clone, 'rev-parse', 'HEAD');
    },
  };
}
