import { randomUUID } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { messageOf } from '../../lib/errors.ts';
import type { CheckpointOptions } from './checkpoint-client.ts';
import { maxCheckpointBytes, type Packed, pack, sessionPatterns } from './pack.ts';

/** Checkpoints take at most a tenth of a run's time. */
const minIntervalFactor = 10;

/** Saves an agent's session and unpushed work: at intervals while it works, and when its run ends. */
export class CheckpointSaver {
  readonly #options: CheckpointOptions;
  #fingerprint = '';
  #checkpointId = '';
  #parts = 0;
  readonly #warned = new Set<string>();
  /** Aborts when the run ends: a checkpoint that is being saved then is out of date. */
  readonly #working = new AbortController();
  #saving: Promise<unknown> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;

  constructor(options: CheckpointOptions) {
    this.#options = options;
  }

  /** `session` returns the harness's current name of the session. */
  start(session: () => string): void {
    this.#saveLater(session, this.#options.intervalMs);
  }

  /** Returns what could not be saved; empty if everything was. */
  async finish(session: string): Promise<string> {
    clearTimeout(this.#timer);
    this.#working.abort();
    await this.#saving;
    return this.#save(session, true, this.#options.signal);
  }

  #saveLater(session: () => string, ms: number): void {
    this.#timer = setTimeout(async () => {
      const startedMs = performance.now();
      const signal = AbortSignal.any([this.#working.signal, this.#options.signal]);
      this.#saving = this.#save(session(), false, signal);
      await this.#saving;
      const tookMs = performance.now() - startedMs;
      if (!signal.aborted)
        this.#saveLater(session, Math.max(this.#options.intervalMs, minIntervalFactor * tookMs));
    }, ms);
    // A killed run never calls `finish`; this timer must not keep the runner's process alive.
    this.#timer.unref();
  }

  /** A failed checkpoint does not fail the run. */
  async #save(session: string, isFinal: boolean, signal: AbortSignal): Promise<string> {
    const { listener } = this.#options;
    try {
      const patterns = sessionPatterns(this.#options.harness, session);
      if (!(await this.#hasWork(patterns))) return '';
      const packed = await this.#upload(patterns, isFinal, signal);
      if (!packed) return '';
      const { commits, files, diffs, notes, parts, bytes } = packed;
      for (const diff of diffs) listener.diff(diff);
      listener.unpushed({ commits, files, isSaved: parts > 0 });
      if (parts === 0) return this.#warn(tooLarge(bytes));
      return isFinal && notes.length > 0 ? this.#warn(`Not in the checkpoint: ${notes.join(' ')}`) : '';
    } catch (error) {
      return signal.aborted ? '' : this.#warn(`The agent's work could not be saved: ${messageOf(error)}.`);
    }
  }

  async #hasWork(patterns: readonly string[]): Promise<boolean> {
    if (patterns.length > 0 || this.#options.repos.length > 0) return true;
    return (await readdir(this.#options.workspaceFolder)).length > 0;
  }

  async #upload(
    patterns: readonly string[],
    isFinal: boolean,
    signal: AbortSignal,
  ): Promise<Packed | undefined> {
    const { client, processes, repos } = this.#options;
    const checkpointId = randomUUID();
    const packed = await pack({
      processes,
      repos,
      patterns,
      fingerprint: this.#fingerprint,
      signal,
      onPart: (part, index) => client.savePart(checkpointId, index, part, signal),
    });
    if (packed && packed.parts > 0) {
      await client.complete(checkpointId, packed.parts, isFinal, signal);
      this.#fingerprint = packed.fingerprint;
      this.#checkpointId = checkpointId;
      this.#parts = packed.parts;
    } else if (!packed && isFinal) {
      await client.complete(this.#checkpointId, this.#parts, true, signal);
    }
    return packed;
  }

  #warn(text: string): string {
    if (!this.#warned.has(text)) this.#options.listener.item({ type: 'WARNING', text });
    this.#warned.add(text);
    return text;
  }
}

const tooLarge = (bytes: number): string =>
  `The agent's work could not be saved: it has ${megabytes(bytes)} MB, and the limit is ${megabytes(maxCheckpointBytes)} MB. ` +
  'Push the work, and add large files that are not part of it to .gitignore.';

const megabytes = (bytes: number): number => Math.ceil(bytes / 1024 ** 2);
