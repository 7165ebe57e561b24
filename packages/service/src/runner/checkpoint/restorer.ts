import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { RunnerCheckpoint } from '@muster/sdk/contract';
import { exitAfterOutput } from '../../harness/agent-process.ts';
import type { AgentProcess } from '../../harness/harness.ts';
import { packageFile } from '../../lib/package-file.ts';
import { collectOutput, succeeds, withScript } from '../workspace/agent-commands.ts';
import type { CheckpointOptions } from './checkpoint-client.ts';
import { repoKey, sessionPatterns } from './pack.ts';

const script = readFileSync(packageFile('scripts/restore-checkpoint.sh'), 'utf8');
const maxOutputLength = 16 * 1024;
/** Whether a file below HOME matches one of the patterns. */
const matchScript = 'cd && for file in $1; do [ ! -e "$file" ] || exit 0; done; exit 1';

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
    if (!isFresh && (hasNoFiles || (await this.#hasSession(signal)))) return true;
    const newest = await this.#next(signal);
    if (newest) {
      await this.#unpack(newest, isFresh ? 'all' : 'session', signal);
      if (isFresh && !(newest.final && newest.runId === claim.runId - 1)) this.#note(olderText(newest));
    } else if (!hasNoFiles || repos.length > 0) {
      this.#note(nothingSaved);
    }
    return hasNoFiles || this.#hasSession(signal);
  }

  /** If a session does not open: replaces it by the one saved before it. False: there is none. */
  async restoreOlderSession(signal: AbortSignal): Promise<boolean> {
    const older = await this.#next(signal);
    if (!older) return false;
    await this.#unpack(older, 'session', signal);
    this.#note(olderSessionText(older));
    return this.#hasSession(signal);
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

  /** A process of the agent looks, because these are the agent's folders. */
  async #hasSession(signal: AbortSignal): Promise<boolean> {
    return succeeds(this.#options.processes, [matchScript, this.#patterns.join(' ')], signal);
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

const olderText = ({ completedAt, runId }: RunnerCheckpoint): string =>
  `The work was restored from the checkpoint of ${completedAt} (run ${runId}). Later work is lost unless it was pushed.`;

const nothingSaved =
  'The earlier runs were on another runner and saved no checkpoint. This run starts a new session from the pushed branch.';

const olderSessionText = ({ completedAt }: RunnerCheckpoint): string =>
  `The saved session could not be resumed. This run continues the session of ${completedAt}; the files may be newer than that session.`;
