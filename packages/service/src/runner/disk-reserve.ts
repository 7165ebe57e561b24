import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { type DiskSpace, diskSpace, gigabytes, reserveOf } from '../lib/disk-space.ts';
import type { RunnerLog } from '../lib/log.ts';
import { agentsFolder } from './agent-folders.ts';
import { folderSizes } from './disk.ts';
import { pauseUnless } from './retry.ts';

export interface DiskReserveOptions {
  readonly dataFolder: string;
  /** Null: 5 % of the disk, at least 2 GB. 0: no reserve. */
  readonly diskReserveGb: number | null;
  readonly log: RunnerLog;
  readonly runs: () => readonly StoppableRun[];
  /** The free space is below the reserve now, or no longer. */
  readonly onChange: () => void;
  readonly spaceOf?: (folder: string) => Promise<DiskSpace>;
}

export interface StoppableRun {
  readonly ref: { readonly agentKey: string; readonly runId: number };
  readonly done: Promise<void>;
  /** Ends the run with DISK_FULL. Returns false if it has ended or is ending. */
  stopForDisk(message: string): boolean;
}

const checkMs = 1000;
const measureMs = 5000;
const endMs = 5000;
/** Free space changes also because of the runner's own files. */
const noiseBytes = 1024 ** 2;

/**
 * Keeps a part of the runner's disk free: a full disk stops every agent, and a database on the same disk. Below the
 * reserve the runner takes no runs, and the run whose agent uses most of the disk is stopped. If the free space shrinks
 * further, the next one is stopped, and so on.
 */
export class DiskReserve {
  readonly #options: DiskReserveOptions;
  #isBelow = false;
  #space: DiskSpace | null = null;
  /** The free space after a run was stopped. */
  #stoppedAt = Number.POSITIVE_INFINITY;

  constructor(options: DiskReserveOptions) {
    this.#options = options;
  }

  get isBelow(): boolean {
    return this.#isBelow;
  }

  /** As last measured. */
  get space(): DiskSpace | null {
    return this.#space;
  }

  async watch(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.check().catch((error: unknown) =>
        this.#options.log.warn({ err: error }, 'disk check failed'),
      );
      await pauseUnless(signal, checkMs);
    }
  }

  async check(): Promise<void> {
    const { space, reserveBytes } = await this.#measure();
    this.#space = space;
    const isBelow = space.freeBytes < reserveBytes;
    if (isBelow !== this.#isBelow) this.#changed(isBelow, space, reserveBytes);
    const isFilling = space.freeBytes < this.#stoppedAt - noiseBytes;
    if (isBelow && isFilling) await this.#stopLargest(space, reserveBytes);
  }

  async #measure() {
    const { dataFolder, diskReserveGb, spaceOf = diskSpace } = this.#options;
    const space = await spaceOf(dataFolder);
    return { space, reserveBytes: reserveOf(space, diskReserveGb) };
  }

  #changed(isBelow: boolean, { freeBytes }: DiskSpace, reserveBytes: number): void {
    const { log, onChange } = this.#options;
    this.#isBelow = isBelow;
    this.#stoppedAt = Number.POSITIVE_INFINITY;
    const fields = { free: gigabytes(freeBytes), reserve: gigabytes(reserveBytes) };
    if (isBelow) log.error(fields, 'disk almost full: no runs are started');
    else log.info(fields, 'disk has free space again');
    onChange();
  }

  async #stopLargest({ freeBytes }: DiskSpace, reserveBytes: number): Promise<void> {
    const { dataFolder, runs, log } = this.#options;
    const live = runs();
    const folders = live.map(({ ref }) => join(agentsFolder(dataFolder), ref.agentKey));
    const sizes = await folderSizes(folders, measureMs);
    const bySize = live
      .map((run, i) => ({ run, size: sizes[i] ?? 0 }))
      .sort((a, b) => (a.size === b.size ? 0 : b.size - a.size));
    for (const { run, size } of bySize) {
      const uses = Number.isFinite(size) ? `uses ${gigabytes(size)}` : 'uses more than could be measured';
      const message =
        `The disk of the runner is almost full: ${gigabytes(freeBytes)} are free, ${gigabytes(reserveBytes)} are ` +
        `kept free. This run was stopped because its agent ${uses}, more than the agents of other runs. Its files ` +
        'are kept; it continues when there is space again. Killing the agent deletes its files.';
      if (!run.stopForDisk(message)) continue;
      log.warn({ ...run.ref, bytes: size }, 'disk almost full: run stopped');
      // Its end may be hard to report, if the database is on this disk.
      await Promise.race([run.done, pause(endMs, undefined, { ref: false })]);
      break;
    }
    this.#stoppedAt = (await this.#measure()).space.freeBytes;
  }
}
