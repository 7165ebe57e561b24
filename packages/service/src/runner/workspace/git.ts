import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { spawned } from '../spawned.ts';
import { type Environment, isRunnerSecret } from './environment.ts';

/**
 * The runner's own git. It knows two ways to be: *local*, in the mirrors and in clones that no agent has touched, with
 * nobody's configuration; and *remote*, on its way to a repository's host, with the operator's configuration and
 * credentials but without the runner's other secrets. Neither runs hooks, and neither asks anybody anything.
 */
export interface GitOptions {
  /** It is on its way to a repository's host; otherwise it is local. */
  readonly isRemote?: boolean;
  readonly environment: Readonly<Record<string, string>>;
  readonly folder?: string;
  readonly input?: string;
  /** Ends the command. */
  readonly timeoutMs?: number;
  /** Ends the command when it aborts. */
  readonly signal?: AbortSignal | undefined;
  /** Output beyond it is not kept, and ends the command. */
  readonly mostBytes?: number;
  /** Counts the output against `mostBytes` without keeping it. */
  readonly discardsOutput?: boolean;
}

export interface GitResult {
  /** Null when it was cut off. */
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** For everything that is not told otherwise, also transfers to and from an agent. */
export const gitTimeoutMs = 15 * 60_000;
const mostBytes = 16 * 1024 * 1024;
const stderrBytes = 64 * 1024;

/** Where the runner's git would otherwise be told to look by the shell in which the runner was started. */
const repositoryNames =
  /^GIT_(DIR|WORK_TREE|INDEX_FILE|OBJECT_DIRECTORY|ALTERNATE_OBJECT_DIRECTORIES|NAMESPACE|COMMON_DIR|PREFIX|QUARANTINE_PATH)$/;

export function localEnvironment(environment: Environment): Record<string, string> {
  return {
    PATH: environment.PATH ?? '/usr/local/bin:/usr/bin:/bin',
    LC_ALL: 'C.UTF-8',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_ATTR_NOSYSTEM: '1',
    GIT_TERMINAL_PROMPT: '0',
    GIT_NO_REPLACE_OBJECTS: '1',
    GIT_ALLOW_PROTOCOL: 'none',
  };
}

export function remoteEnvironment(environment: Environment): Record<string, string> {
  const passed = Object.entries(environment).flatMap(([name, value]) =>
    value === undefined || isRunnerSecret(name) || repositoryNames.test(name) ? [] : [[name, value] as const],
  );
  return {
    ...Object.fromEntries(passed),
    LC_ALL: 'C.UTF-8',
    LANGUAGE: 'C',
    GIT_TERMINAL_PROMPT: '0',
    GCM_INTERACTIVE: 'never',
    GIT_ALLOW_PROTOCOL: 'https:http:ssh:file',
  };
}

/** A file larger than the last is never taken into memory whole. */
const settings = [
  ...['-c', 'core.hooksPath=/dev/null'],
  ...['-c', 'safe.directory=*'],
  ...['-c', 'core.bigFileThreshold=16m'],
];

/**
 * The command line of a git that reads what an agent may have made. A push of a few bytes can stand for very many: it
 * gets so much memory and, where that is not enough, dies instead of taking the machine along.
 */
export const localGit = (args: readonly string[]): [program: string, args: string[]] => [
  '/bin/sh',
  ['-c', `ulimit -d ${memoryKib} 2>/dev/null; exec git "$@"`, 'git', ...settings, ...args],
];

const localTimeoutMs = 2 * 60_000;
const memoryKib = 2 * 1024 * 1024;
const notFound = 127;

/** Resolves with what it said, however it ended. */
export function runGit(args: readonly string[], options: GitOptions): Promise<GitResult> {
  return new Promise((resolve, reject) => {
    const [program, words] = options.isRemote ? ['git', [...settings, ...args]] : localGit(args);
    const child = spawned(
      spawn(program, words, {
        cwd: options.folder,
        env: { ...options.environment },
        detached: true,
        stdio: ['pipe', 'pipe', 'pipe'],
      }),
    );
    const { signal, timeoutMs = gitTimeoutMs, mostBytes: most = mostBytes } = options;
    const stop = () => child.pid !== undefined && killGroup(child.pid);
    const timer = setTimeout(stop, timeoutMs);
    signal?.addEventListener('abort', stop);
    if (signal?.aborted) stop();
    const letGo = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', stop);
    };
    const stdout: Buffer[] = [];
    let bytes = 0;
    let stderr = '';
    child.stdout.on('data', (chunk: Buffer) => {
      if (bytes < most && !options.discardsOutput) stdout.push(chunk.subarray(0, most - bytes));
      bytes += chunk.length;
      if (bytes > most) stop();
    });
    child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
      stderr = `${stderr}${chunk}`.slice(-stderrBytes);
    });
    child.once('error', (error) => {
      letGo();
      reject(error);
    });
    child.once('close', (exitCode) => {
      letGo();
      if (exitCode === notFound) return reject(new Error('git is not installed where this runner runs'));
      resolve({ exitCode, stdout: Buffer.concat(stdout).toString('utf8'), stderr: withoutUserInfo(stderr) });
    });
    child.stdin.on('error', () => {});
    child.stdin.end(options.input ?? '');
  });
}

type LocalOptions = Pick<GitOptions, 'input' | 'mostBytes' | 'discardsOutput'>;

/** A repository that only the runner writes to, and its git commands. */
export class LocalRepository {
  readonly folder: string;
  readonly environment: Readonly<Record<string, string>>;

  constructor(folder: string, environment: Readonly<Record<string, string>>) {
    this.folder = folder;
    this.environment = environment;
  }

  /** The output of a command that must succeed. */
  async git(args: readonly string[], options: LocalOptions = {}): Promise<string> {
    const result = await this.tryGit(args, options);
    if (result.exitCode !== 0) throw new Error(`git ${args[0]} failed: ${complaintOf(result)}`);
    return result.stdout;
  }

  tryGit(args: readonly string[], options: LocalOptions = {}): Promise<GitResult> {
    const { folder, environment } = this;
    return runGit([`--git-dir=${folder}`, ...args], { ...options, environment, timeoutMs: localTimeoutMs });
  }

  /** Every branch and tag by its full name. */
  async refs(): Promise<Map<string, string>> {
    const lines = await this.git(['for-each-ref', '--format=%(objectname) %(refname)']);
    return new Map(
      lines
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => [line.slice(line.indexOf(' ') + 1), line.slice(0, line.indexOf(' '))]),
    );
  }

  /** The branch that HEAD names; read as a file, because it is asked for before every run. */
  async headBranch(): Promise<string> {
    const head = await readFile(join(this.folder, 'HEAD'), 'utf8');
    return head.trim().replace('ref: refs/heads/', '');
  }
}

function killGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // It has ended already.
  }
}

/** The words of git without its hints, in one line. */
export function complaintOf({ stderr, exitCode }: GitResult): string {
  const lines = stderr.split(/[\r\n]+/).filter((line) => line.trim() !== '' && !line.startsWith('hint:'));
  if (lines.length > 0) return lines.join(' ').trim().slice(0, 2000);
  return exitCode === null
    ? 'git was stopped: it took too long, printed too much, or its run ended'
    : `git ended with ${exitCode}`;
}

/** The operator's own configuration may put credentials into a URL that git then shows. */
export const withoutUserInfo = (text: string): string => text.replace(/(https?:\/\/)[^/@\s'"]+@/gi, '$1');
