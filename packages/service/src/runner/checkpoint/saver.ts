import { randomUUID } from 'node:crypto';
import { opendir } from 'node:fs/promises';
import type { ReportRequest } from '@muster/sdk/contract';
import { messageOf } from '../../lib/errors.ts';
import type { CheckpointOptions } from './checkpoint-client.ts';
import { maxCheckpointBytes, type Packed, pack, sessionPatterns, type UnpushedCounts } from './pack.ts';

/** Checkpoints take at most a tenth of a run's time. */
const minIntervalFactor = 10;

/** How long saving may take once the run was interrupted. */
const interruptedMs = 20_000;

/**
 * Saves what a killed run left, and returns what of it is unpushed. Not before the service agrees: it may have given the
 * agent to another runner.
 */
export async function saveLater(
  options: CheckpointOptions,
  session: string,
): Promise<ReportRequest['unpushed']> {
  const found: NonNullable<ReportRequest['unpushed']>[] = [];
  const listener = {
    item: () => {},
    diff: () => {},
    unpushed: (each: NonNullable<ReportRequest['unpushed']>) => void found.push(each),
  };
  await options.client.checkpoints(options.signal);
  await new CheckpointSaver({ ...options, listener }).finish(session);
  return found.at(-1);
}

/** Saves an agent's session and unpushed work: at intervals while it works, and when its run ends. */
export class CheckpointSaver {
  readonly #options: CheckpointOptions;
  #fingerprint = '';
  #checkpointId = '';
  #parts = 0;
  readonly #warned = new Set<string>();
  #hasWarnedOfNotes = false;
  /** What the newest checkpoint of this run does not contain. */
  #lastNotes = '';
  /** Aborts when the run ends: a checkpoint that is being saved then is out of date. */
  readonly #working = new AbortController();
  /** Aborts some time after an interrupt. */
  readonly #hurrying = new AbortController();
  #hurryTimer: NodeJS.Timeout | undefined;
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

  /** The run was interrupted, and its end must not take long: the agent's programs may slow packing down. */
  hurry(): void {
    const ms = this.#options.interruptedMs ?? interruptedMs;
    this.#hurryTimer ??= setTimeout(() => this.#hurrying.abort(), ms).unref();
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
    const { listener, observed } = this.#options;
    let counts: UnpushedCounts | undefined;
    const onCounts = (found: UnpushedCounts): void => {
      counts = found;
    };
    try {
      const patterns = sessionPatterns(this.#options.harness, session);
      if (!(await this.#hasWork(patterns))) return '';
      const upload = () => this.#upload(patterns, isFinal, signal, onCounts);
      const packed = await (this.#options.trace?.step('save checkpoint', upload) ?? upload());
      if (!packed) return this.#lastNotes;
      const { commits, files, diffs, notes, skipped, parts, bytes } = packed;
      for (const diff of diffs) listener.diff(diff);
      listener.unpushed({ commits, files, isSaved: parts > 0, ...(notes.length > 0 && { isPartial: true }) });
      if (skipped.length > 0) this.#warn(`Never in a checkpoint: ${skipped.join(' ')}`);
      if (parts === 0) {
        observed.add({ what: 'checkpointFailed' });
        return this.#warn(tooLarge(bytes));
      }
      return this.#noteLeftOut(notes, isFinal);
    } catch (error) {
      if (signal.aborted) return '';
      observed.add({ what: 'checkpointFailed' });
      if (counts) listener.unpushed({ ...counts, isSaved: false });
      const reason = this.#hurrying.signal.aborted
        ? 'it took too long after the interrupt'
        : messageOf(error);
      return this.#warn(`The agent's work could not be saved: ${reason}.`);
    }
  }

  async #hasWork(patterns: readonly string[]): Promise<boolean> {
    if (patterns.length > 0 || this.#options.repos.length > 0) return true;
    // One entry: there may be millions. The folder itself can't be replaced by the agent.
    for await (const _ of await opendir(this.#options.workspaceFolder)) return true;
    return false;
  }

  async #upload(
    patterns: readonly string[],
    isFinal: boolean,
    runSignal: AbortSignal,
    onCounts: (counts: UnpushedCounts) => void,
  ): Promise<Packed | undefined> {
    const { client, processes, repos } = this.#options;
    const signal = AbortSignal.any([runSignal, this.#hurrying.signal]);
    const checkpointId = randomUUID();
    const packed = await pack({
      processes,
      repos,
      patterns,
      fingerprint: this.#fingerprint,
      signal,
      onCounts,
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

  /** A warning when something is left out for the first time, and one with the last state at the end of the run. */
  #noteLeftOut(notes: readonly string[], isFinal: boolean): string {
    this.#lastNotes = notes.length > 0 ? `Not in the checkpoint: ${notes.join(' ')}` : '';
    if (this.#lastNotes !== '' && (isFinal || !this.#hasWarnedOfNotes)) this.#warn(this.#lastNotes);
    this.#hasWarnedOfNotes ||= this.#lastNotes !== '';
    return this.#lastNotes;
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
