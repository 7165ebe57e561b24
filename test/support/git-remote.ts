import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { filesBelow } from './files.ts';

/** A bare repository on this machine, with commits by a person who is not an agent. */
export interface GitRemote {
  readonly url: string;
  readonly git: (...args: string[]) => string;
  /** The commit of a branch. */
  readonly tip: (branch: string) => string;
  /** The names of all refs: `main`, `muster/a`, `refs/tags/v1`. */
  readonly refs: () => string[];
  /** Commits these files to a branch, which may start from another one, and submodules; returns the commit. */
  readonly commit: (
    branch: string,
    files: Readonly<Record<string, string>>,
    from?: string,
    submodules?: Readonly<Record<string, string>>,
  ) => string;
}

const settings = [
  'user.name=Somebody',
  'user.email=somebody@example.com',
  'safe.directory=*',
  'fastimport.unpackLimit=1',
];

/** Runs git without any user configuration; throws its output on failure. */
export const gitIn = (folder: string, ...args: string[]): string => gitWith('', folder, ...args);

function gitWith(input: string, folder: string, ...args: string[]): string {
  return execFileSync('git', ['-C', folder, ...settings.flatMap((s) => ['-c', s]), ...args], {
    encoding: 'utf8',
    input,
    stdio: ['pipe', 'pipe', 'pipe'],
    env: {
      PATH: process.env.PATH,
      GIT_CONFIG_GLOBAL: '/dev/null',
      GIT_CONFIG_NOSYSTEM: '1',
      LC_ALL: 'C.UTF-8',
    },
  }).trim();
}

const data = (text: string): string => `data ${Buffer.byteLength(text)}\n${text}\n`;

export function makeGitRemote(folder: string, name: string): GitRemote {
  const url = join(folder, `${name}.git`);
  // What `git init --bare` writes, without a process.
  for (const folder of ['hooks', 'objects', 'refs/heads']) mkdirSync(join(url, folder), { recursive: true });
  writeFileSync(join(url, 'HEAD'), 'ref: refs/heads/main\n');
  writeFileSync(join(url, 'config'), '[core]\n\trepositoryformatversion = 0\n\tbare = true\n');
  return {
    url,
    git: (...args) => gitIn(url, ...args),
    // Read without a process: nothing packs these refs.
    tip: (branch) => readFileSync(join(url, 'refs', 'heads', branch), 'utf8').trim(),
    refs: () =>
      filesBelow(join(url, 'refs'))
        .map((path) => relative(url, path).replace(/^refs\/heads\//, ''))
        .sort(),
    // One process instead of the dozen of a clone and a push.
    commit: (branch, files, from = branch, submodules = {}) => {
      const isKnown = existsSync(join(url, 'refs', 'heads', from));
      const commands = [
        `commit refs/heads/${branch}\nmark :1\ncommitter Somebody <somebody@example.com> now\n`,
        data(`${branch}: ${Object.keys(files)}\n`),
        isKnown ? `from refs/heads/${from}^0\n` : '',
        ...Object.entries(files).map(([path, text]) => `M 100644 inline ${path}\n${data(text)}`),
        ...Object.entries(submodules).map(([path, commit]) => `M 160000 ${commit} ${path}\n`),
        'get-mark :1\n',
      ];
      return gitWith(commands.join(''), url, 'fast-import', '--quiet', '--date-format=now');
    },
  };
}
