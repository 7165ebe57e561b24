import { constants, createReadStream } from 'node:fs';
import { access, open, rename, rm } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip } from 'node:zlib';
import { ArchiveError, cutOff, type RowCounts } from '../store/archive/archive-format.ts';
import { CommandError, exitCodes } from './exit-codes.ts';

/** Archives as files: compressed, for their owner alone, and never half of one in the place of a whole one. */
export interface Target {
  readonly file: string;
  readonly replaces: boolean;
}

export async function writeArchive(
  { file, replaces }: Target,
  lines: AsyncIterable<string>,
  signal: AbortSignal,
): Promise<void> {
  const written = replaces ? `${file}.part` : file;
  if (replaces) await rm(written, { force: true });
  const handle = await open(written, 'wx', 0o600).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'EEXIST')
      throw new CommandError(`${file} is there already; --force replaces it`, exitCodes.conflict);
    throw new CommandError(`${file} can't be written: ${error.message}`, exitCodes.usage);
  });
  try {
    // `flush` has the file on the disk before it counts as written.
    await pipeline(lines, createGzip(), handle.createWriteStream({ flush: true }), { signal });
    if (replaces) await rename(written, file);
  } catch (error) {
    await rm(written, { force: true });
    throw error;
  }
}

export async function pipeArchive(lines: AsyncIterable<string>, signal: AbortSignal): Promise<void> {
  await pipeline(lines, createGzip(), process.stdout, { signal, end: false });
}

export async function refuseUnreadable(file: string): Promise<void> {
  if (file === '-') return;
  await access(file, constants.R_OK).catch((error: Error) => {
    throw new CommandError(`${file} can't be read: ${error.message}`, exitCodes.usage);
  });
}

/** What the file holds, unpacked as it is asked for. */
export async function* readArchive(file: string, signal: AbortSignal): AsyncGenerator<Buffer> {
  const source = file === '-' ? process.stdin : createReadStream(file);
  const unpacked = createGunzip({ chunkSize: 256 * 1024 });
  const done = pipeline(source, unpacked, { signal });
  done.catch(() => {});
  try {
    yield* unpacked as AsyncIterable<Buffer>;
    await done;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'Z_BUF_ERROR') throw cutOff();
    if (code?.startsWith('Z_'))
      throw new ArchiveError(`${file} is not an archive of muster export, or damaged.`);
    throw error;
  }
}

export const rowsIn = (counts: Readonly<RowCounts>): number =>
  Object.values(counts).reduce((sum, count) => sum + count, 0);

/** `12 agents, 310 timeline entries, 1 key, 345 rows in all`. */
export function countsText(counts: Readonly<RowCounts>): string {
  const named = Object.entries(words).map(([table, [one, many]]) =>
    counts[table] === 1 ? `1 ${one}` : `${counts[table] ?? 0} ${many}`,
  );
  return `${named.join(', ')}, ${rowsIn(counts)} rows in all`;
}

const words = {
  agents: ['agent', 'agents'],
  timeline: ['timeline entry', 'timeline entries'],
  resources: ['resource', 'resources'],
  keys: ['key', 'keys'],
} as const;
