import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { Repository } from '../../lib/repositories.ts';
import { assertSpawned, signal as sendSignal } from '../sandbox/proc.ts';
import { type Environment, isRunnerSecret } from './environment.ts';

/**
 * The runner's own git, in two modes: *local*, in mirrors and in clones that no agent has touched, without any user
 * configuration; and *remote*, when it connects to a repository's host, with the operator's configuration and
 * credentials but without the runner's other secrets. Neither runs hooks or prompts.
 */
export interface GitOptions {
  /** Connects to a repository's host; otherwise local. */
  readonly isRemote?: boolean;
  readonly environment: Readonly<Record<string, string>>;
  readonly folder?: string;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal | undefined;
  readonly input?: AsyncIterable<Buffer>;
  /** More output than this stops the command. */
  readonly maxBytes?: number;
  /** Counts the output against `maxBytes` without keeping it. */
  readonly discardsOutput?: boolean;
}

export interface GitResult {
  /** Null when it was killed. */
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** The default, also for transfers to and from an agent. */
export const gitTimeoutMs = 15 * 60_000;
const defaultMaxBytes = 16 * 1024 * 1024;
const stderrBytes = 64 * 1024;

/** Variables of the shell that started the runner which would point git at another repository. */
const repositoryVariables =
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
    value === undefined || isRunnerSecret(name, environment) || repositoryVariables.test(name)
      ? []
      : [[name, value] as const],
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

/**
 * A file above the threshold is never read into memory as a whole. A redirect could lead into an internal network, or
 * take a credential to another server.
 */
const settings = [
  ...['-c', 'core.hooksPath=/dev/null'],
  ...['-c', 'safe.directory=*'],
  ...['-c', 'core.bigFileThreshold=16m'],
  ...['-c', 'http.followRedirects=false'],
];

/**
 * The command line of a git that reads objects an agent may have made. A push of a few bytes can expand to a huge one,
 * so its memory is limited: git fails instead of the machine.
 */
export const localGit = (args: readonly string[]): [program: string, args: string[]] => [
  '/bin/sh',
  ['-c', `ulimit -d ${memoryKib} 2>/dev/null; exec git "$@"`, 'git', ...settings, ...args],
];

const localTimeoutMs = 2 * 60_000;
const memoryKib = 2 * 1024 * 1024;
const notFound = 127;

/** Resolves with the output, whatever the exit code. */
export function runGit(args: readonly string[], options: GitOptions): Promise<GitResult> {
  return new Promise((resolve, reject) => {
    const [program, words] = options.isRemote ? ['git', [...settings, ...args]] : localGit(args);
    const child = assertSpawned(
      spawn(program, words, {
        cwd: options.folder,
        env: { ...options.environment },
        detached: true,
        stdio: ['pipe', 'pipe', 'pipe'],
      }),
    );
    const { signal, timeoutMs = gitTimeoutMs, maxBytes = defaultMaxBytes } = options;
    const stop = () => child.pid !== undefined && sendSignal(-child.pid, 'SIGKILL');
    const timer = setTimeout(stop, timeoutMs);
    signal?.addEventListener('abort', stop);
    if (signal?.aborted) stop();
    const release = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', stop);
    };
    const stdout: Buffer[] = [];
    let bytes = 0;
    let stderr = '';
    child.stdout.on('data', (chunk: Buffer) => {
      if (bytes < maxBytes && !options.discardsOutput) stdout.push(chunk.subarray(0, maxBytes - bytes));
      bytes += chunk.length;
      if (bytes > maxBytes) stop();
    });
    child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
      stderr = `${stderr}${chunk}`.slice(-stderrBytes);
    });
    child.once('error', (error) => {
      release();
      reject(error);
    });
    child.once('close', (exitCode) => {
      release();
      if (exitCode === notFound)
        return reject(new Error('git is not installed on the machine of this runner'));
      resolve({ exitCode, stdout: Buffer.concat(stdout).toString('utf8'), stderr: withoutUserInfo(stderr) });
    });
    child.stdin.on('error', () => {});
    if (options.input) pipeline(options.input, child.stdin).catch(() => child.kill());
    else child.stdin.end();
  });
}

type LocalOptions = Pick<GitOptions, 'maxBytes' | 'discardsOutput'>;

/** A repository that only the runner writes to. */
export class LocalRepository {
  readonly folder: string;
  readonly environment: Readonly<Record<string, string>>;

  constructor(folder: string, environment: Readonly<Record<string, string>>) {
    this.folder = folder;
    this.environment = environment;
  }

  async git(args: readonly string[], options: LocalOptions = {}): Promise<string> {
    const result = await this.tryGit(args, options);
    if (result.exitCode !== 0) throw new Error(`git ${args[0]} failed: ${gitErrorText(result)}`);
    return result.stdout;
  }

  tryGit(args: readonly string[], options: LocalOptions = {}): Promise<GitResult> {
    const { folder, environment } = this;
    return runGit([`--git-dir=${folder}`, ...args], { ...options, environment, timeoutMs: localTimeoutMs });
  }

  /** Every branch and tag by its full name, with its commit. */
  async refs(): Promise<Map<string, string>> {
    const lines = await this.git(['for-each-ref', '--format=%(refname) %(objectname)']);
    const entries = lines.split('\n').filter(Boolean);
    return new Map(entries.map((line) => line.split(' ') as [ref: string, commit: string]));
  }

  /** The branch that HEAD names. Read as a file because every run needs it. */
  async headBranch(): Promise<string> {
    const head = await readFile(join(this.folder, 'HEAD'), 'utf8');
    return head.trim().replace('ref: refs/heads/', '');
  }

  async baseBranch({ baseBranch }: Repository): Promise<string> {
    return baseBranch || (await this.headBranch());
  }
}

/** What git printed as its error, without hints, in one line. */
export function gitErrorText({ stderr, exitCode }: GitResult): string {
  const lines = stderr.split(/[\r\n]+/).filter((line) => line.trim() !== '' && !line.startsWith('hint:'));
  if (lines.length > 0) return lines.join(' ').trim().slice(0, 2000);
  return exitCode === null
    ? 'git was killed: it took too long, printed too much, or its run ended'
    : `git exited with code ${exitCode}`;
}

/** Git may print URLs into which the operator's configuration has put credentials. */
export const withoutUserInfo = (text: string): string => text.replace(/(https?:\/\/)[^/@\s'"]+@/gi, '$1');
