import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { RunnerCheckpoint } from '@muster/sdk/contract';
import { exitAfterOutput } from '../../harness/agent-process.ts';
import type { AgentProcess } from '../../harness/harness.ts';
import { packageFile } from '../../lib/package-file.ts';
import { collectOutput, withScript } from '../workspace/agent-commands.ts';
import type { CheckpointOptions } from './checkpoint-client.ts';
import { repoKey, sessionPatterns } from './pack.ts';

const script = readFileSync(packageFile('scripts/restore-checkpoint.sh'), 'utf8');
const maxOutputLength = 16 * 1024;

/** Restores an agent's session and unpushed work on the runner to which it has moved. */
export class CheckpointRestorer {
  readonly #options: CheckpointOptions;
  /** Of the files of the session that the claim names. */
  readonly #patterns: readonly string[];
  readonly #notes: string[] = [];
  /** The checkpoints that were not tried yet, newest first. */
  #left: readonly RunnerCheckpoint[] | undefined;

  constructor(options: CheckpointOptions) {
    this.#options = options;
    this.#patterns = sessionPatterns(options.harness, options.claim.session);
  }

  /** What could not be restored exactly. Each is a warning in the timeline and goes into the agent's next prompt. */
  get notes(): readonly string[] {
    return this.#notes;
  }

  /** Whether the session that the claim names can be resumed. */
  async restore(signal: AbortSignal): Promise<boolean> {
    const { claim, isFresh, repos } = this.#options;
    if (claim.session === '') return false;
    const hasNoFiles = this.#patterns.length === 0;
    if (!isFresh && (hasNoFiles || (await this.#hasSession()))) return true;
    const newest = await this.#next(signal);
    if (newest) {
      await this.#unpack(newest, isFresh ? 'all' : 'session', signal);
      if (isFresh && !(newest.final && newest.runId === claim.runId - 1)) this.#note(olderText(newest));
    } else if (!hasNoFiles || repos.length > 0) {
      this.#note(nothingSaved);
    }
    return hasNoFiles || this.#hasSession();
  }

  /** If a session does not open: replaces it by the one saved before it. False: there is none. */
  async restoreOlderSession(signal: AbortSignal): Promise<boolean> {
    const older = await this.#next(signal);
    if (!older) return false;
    await this.#unpack(older, 'session', signal);
    this.#note(olderSessionText(older));
    return this.#hasSession();
  }

  async #next(signal: AbortSignal): Promise<RunnerCheckpoint | undefined> {
    const [next, ...left] = this.#left ?? (await this.#options.client.checkpoints(signal));
    this.#left = left;
    return next;
  }

  #note(text: string): void {
    this.#notes.push(text);
    this.#options.listener.item({ type: 'WARNING', text });
  }

  /** Whether a file matches one of the patterns. */
  async #hasSession(): Promise<boolean> {
    const { homeFolder } = this.#options;
    for (const pattern of this.#patterns) if (await matches(homeFolder, pattern.split('/'))) return true;
    return false;
  }

  async #unpack(checkpoint: RunnerCheckpoint, what: 'all' | 'session', signal: AbortSignal): Promise<void> {
    const { client, processes, repos } = this.#options;
    const repoArgs = repos.flatMap((repo) => [repoKey(repo), repo.path]);
    const options = { signal, gateway: 'never' } as const;
    await withScript(processes, [script, what, ...repoArgs], options, async (unpacking) => {
      const output = collectOutput(unpacking, maxOutputLength);
      const exit = exitAfterOutput(unpacking);
      for (let part = 0; part < checkpoint.parts; part++)
        await write(unpacking, await client.loadPart(checkpoint.checkpointId, part, signal));
      unpacking.child.stdin.end();
      const { exitCode } = await exit;
      signal.throwIfAborted();
      if (exitCode !== 0) throw new Error(`the checkpoint could not be unpacked (exit code ${exitCode})`);
      for (const line of output().split('\n')) if (line !== '') this.#note(line);
    });
  }
}

/** A process that exits early does not read the rest. */
async function write({ child, exited }: AgentProcess, part: Buffer): Promise<void> {
  if (!child.stdin.write(part)) await Promise.race([once(child.stdin, 'drain'), exited]).catch(() => {});
}

/** `*` matches any part of one name. */
async function matches(folder: string, [first, ...rest]: readonly string[]): Promise<boolean> {
  if (first === undefined) return true;
  for (const name of await namesMatching(folder, first)) {
    const path = join(folder, name);
    const found = await lstat(path).catch(() => undefined);
    if (!found || (rest.length > 0 && !found.isDirectory())) continue;
    if (await matches(path, rest)) return true;
  }
  return false;
}

async function namesMatching(folder: string, pattern: string): Promise<string[]> {
  if (!pattern.includes('*')) return [pattern];
  const escaped = pattern.replace(/[.+?^${}()|[\]\\]/g, '\\$&').replaceAll('*', '.*');
  const names = await readdir(folder).catch(() => []);
  return names.filter((name) => new RegExp(`^${escaped}$`).test(name));
}

const olderText = ({ completedAt, runId }: RunnerCheckpoint): string =>
  `The work was restored from the checkpoint of ${completedAt} (run ${runId}). Later work is lost unless it was pushed.`;

const nothingSaved =
  'The earlier runs were on another runner and saved no checkpoint. This run starts a new session from the pushed branch.';

const olderSessionText = ({ completedAt }: RunnerCheckpoint): string =>
  `The saved session could not be resumed. This run continues the session of ${completedAt}; the files may be newer than that session.`;
