import { statfsSync } from 'node:fs';
import { statfs } from 'node:fs/promises';

export interface DiskSpace {
  /** For processes that are not root. */
  readonly freeBytes: number;
  readonly totalBytes: number;
}

interface FileSystem {
  readonly bavail: number;
  readonly blocks: number;
  readonly bsize: number;
}

const spaceOf = ({ bavail, blocks, bsize }: FileSystem): DiskSpace => ({
  freeBytes: bavail * bsize,
  totalBytes: blocks * bsize,
});

/** The disk of a folder. */
export const diskSpace = async (folder: string): Promise<DiskSpace> => spaceOf(await statfs(folder));

export const diskSpaceNow = (folder: string): DiskSpace => spaceOf(statfsSync(folder));

const minReserveBytes = 2e9;
const reservedShare = 0.05;

/** How much of a disk agents leave free. `reserveGb` is the operator's choice; null: 5 % of the disk, at least 2 GB. */
export const reserveOf = ({ totalBytes }: DiskSpace, reserveGb: number | null): number =>
  reserveGb === null ? Math.max(minReserveBytes, totalBytes * reservedShare) : reserveGb * 1e9;

export const gigabytes = (bytes: number): string => `${(bytes / 1e9).toFixed(bytes < 10e9 ? 2 : 0)} GB`;

/** PostgreSQL's log grows in files of 16 MiB, and it stops if one can't be made. */
const databaseBytes = 64 * 1024 ** 2;
/** How long the disk counts as full after a statement has failed because of it. */
const fullMs = 10_000;

/** Whether the database can write. Only the disk of an embedded one can be measured. */
export class DatabaseDisk {
  /** The data folder of the embedded database; null for a database elsewhere. */
  readonly #folder: string | null;
  #fullUntilMs = 0;

  constructor(folder: string | null) {
    this.#folder = folder;
  }

  /** Of a statement that failed. Returns whether a full disk is the reason. */
  note(error: unknown): boolean {
    const isFull = isDiskFull(error);
    if (isFull) this.#fullUntilMs = performance.now() + fullMs;
    return isFull;
  }

  /** Why the database can't write, and what to do; null if it can. */
  problem(): string | null {
    const free = this.#folder === null ? Number.POSITIVE_INFINITY : freeBytesOf(this.#folder);
    if (free < databaseBytes) {
      const mebibytes = Math.floor(free / 1024 ** 2);
      return `the disk of the database is full: ${mebibytes} MiB are free; free some space on the disk of MUSTER_DATA`;
    }
    return performance.now() < this.#fullUntilMs
      ? 'the disk of the database is full; free some space there'
      : null;
  }
}

function freeBytesOf(folder: string): number {
  try {
    return diskSpaceNow(folder).freeBytes;
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

/** PostgreSQL's code for a full disk; XX000 is also that of a file that it can't write, as when a session begins. */
function isDiskFull(error: unknown): boolean {
  const { code, message = '', cause } = error as { code?: string; message?: string; cause?: unknown };
  if (code === '53100' || (code === 'XX000' && /could not write|no space left/i.test(message))) return true;
  return typeof cause === 'object' && cause !== null && isDiskFull(cause);
}
