import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { Claim, RunnerCheckpoint } from '@muster/sdk/contract';
import type { AgentProcess, Processes } from '../../harness/harness.ts';
import { heardOut } from '../../harness/heard-out.ts';
import { packageFile } from '../../lib/package-file.ts';
import type { PreparedRepository } from '../workspace/prepare.ts';
import type { HeldRun } from './held-run.ts';
import { repoKey } from './pack.ts';
import { hasSession } from './session-files.ts';

const script = readFileSync(packageFile('scripts/restore-checkpoint.sh'), 'utf8');
const mostOutput = 16 * 1024;

export interface RestorerOptions {
  readonly run: Pick<HeldRun, 'checkpoints' | 'loadPart'>;
  readonly claim: Claim;
  /** Of the session that the claim names. */
  readonly patterns: readonly string[];
  readonly homeFolder: string;
  readonly repos: readonly PreparedRepository[];
  readonly processes: Processes;
  /** Nothing of an earlier run is in the folders. */
  readonly isFresh: boolean;
  readonly warn: (text: string) => void;
}

/** Brings an agent's session and unpushed work to the runner that it has moved to. */
export class CheckpointRestorer {
  readonly #options: RestorerOptions;
  readonly #notes: string[] = [];
  /** That were not tried yet, newest first. */
  #left: readonly RunnerCheckpoint[] | undefined;

  constructor(options: RestorerOptions) {
    this.#options = options;
  }

  /** What was not restored as it was. The user is warned of each; the agent is to be told. */
  get notes(): readonly string[] {
    return this.#notes;
  }

  /** Whether the session that the claim names can be resumed. */
  async restore(signal: AbortSignal): Promise<boolean> {
    const { claim, patterns, isFresh, repos } = this.#options;
    if (claim.session === '') return false;
    const isPlain = patterns.length === 0;
    if (!isFresh && (isPlain || (await this.#hasSession()))) return true;
    const newest = await this.#next(signal);
    if (newest) {
      await this.#unpack(newest, isFresh ? 'all' : 'session', signal);
      if (isFresh && !(newest.final && newest.runId === claim.runId - 1)) this.#note(olderText(newest));
    } else if (!isPlain || repos.length > 0) {
      this.#note(nothingSaved);
    }
    return isPlain || this.#hasSession();
  }

  /** For a session that does not open: puts the one saved before it in its place. False: there is none. */
  async restoreOlderSession(signal: AbortSignal): Promise<boolean> {
    const older = await this.#next(signal);
    if (!older) return false;
    await this.#unpack(older, 'session', signal);
    this.#note(olderSession(older));
    return this.#hasSession();
  }

  async #next(signal: AbortSignal): Promise<RunnerCheckpoint | undefined> {
    const [next, ...left] = this.#left ?? (await this.#options.run.checkpoints(signal));
    this.#left = left;
    return next;
  }

  #note(text: string): void {
    this.#notes.push(text);
    this.#options.warn(text);
  }

  #hasSession(): Promise<boolean> {
    return hasSession(this.#options.homeFolder, this.#options.patterns);
  }

  async #unpack(checkpoint: RunnerCheckpoint, what: 'all' | 'session', signal: AbortSignal): Promise<void> {
    const { run, processes, repos } = this.#options;
    const facts = repos.flatMap((repo) => [repoKey(repo), repo.path]);
    const unpacking = processes.start(['/bin/sh', '-c', script, 'sh', what, ...facts], { gateway: 'never' });
    const kill = (): void => void unpacking.kill();
    signal.addEventListener('abort', kill, { once: true });
    let output = '';
    unpacking.child.stderr.resume();
    unpacking.child.stdout.setEncoding('utf8').on('data', (text: string) => {
      if (output.length < mostOutput) output += text;
    });
    const exit = heardOut(unpacking);
    try {
      for (let part = 0; part < checkpoint.parts; part++)
        await write(unpacking, await run.loadPart(checkpoint.checkpointId, part, signal));
      unpacking.child.stdin.end();
      const { exitCode } = await exit;
      signal.throwIfAborted();
      if (exitCode !== 0) throw new Error(`the checkpoint could not be unpacked (exit code ${exitCode})`);
    } finally {
      signal.removeEventListener('abort', kill);
      await unpacking.kill();
    }
    for (const line of output.split('\n')) if (line !== '') this.#note(line);
  }
}

/** A process that ends early does not read the rest. */
async function write({ child, exited }: AgentProcess, part: Buffer): Promise<void> {
  child.stdin.once('error', () => {});
  if (!child.stdin.write(part)) await Promise.race([once(child.stdin, 'drain'), exited]).catch(() => {});
}

const olderText = ({ completedAt, runId }: RunnerCheckpoint): string =>
  `The work was restored from the checkpoint of ${completedAt} (run ${runId}). What was done after it is lost, unless it was pushed.`;

const nothingSaved =
  'The earlier runs were on another runner, and no checkpoint of them was saved: this run begins a new session, with the branch as it was pushed.';

const olderSession = ({ completedAt }: RunnerCheckpoint): string =>
  `The saved session could not be resumed. The one of ${completedAt} is used instead: the files are newer than what it knows of.`;
