import { Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { CommandError } from './errors.ts';

/** What a checkpoint has of one repository. */
export interface SavedRepository {
  /** Its path in the agent's workspace, or its name. */
  readonly key: string;
  /** HEAD in the first line, then a line per branch. */
  readonly refs: string;
  readonly bundle: Buffer | undefined;
}

const block = 512;
const maxName = 4096;
/** An archive has at most 64 MiB. What it unpacks to is read past, what is kept of it is limited. */
const maxUnpacked = 16 * 1024 ** 3;
const maxKept = 512 * 1024 ** 2;

/**
 * Reads the repositories of a checkpoint in memory. The archive was made by the agent, so nothing of it becomes a path, a
 * link or a permission on this machine: only regular files below `repos/` are read.
 */
export async function readRepositories(archive: Buffer): Promise<SavedRepository[]> {
  const files = new Map<string, Buffer>();
  const isWanted = (name: string): boolean => /^(\.\/)?repos\/.+\.(refs|bundle)$/.test(name);
  try {
    for await (const { name, content } of filesIn(archive, isWanted))
      files.set(name.replace(/^(\.\/)?repos\//, ''), content);
  } catch (error) {
    if (error instanceof CommandError) throw error;
    throw damaged((error as Error).message);
  }
  return [...files]
    .filter(([name]) => name.endsWith('.refs'))
    .map(([name, content]) => {
      const key = name.slice(0, -'.refs'.length);
      return { key, refs: content.toString(), bundle: files.get(`${key}.bundle`) };
    });
}

const damaged = (why: string): CommandError =>
  new CommandError(`the checkpoint is not a valid archive: ${why}`);

interface ArchivedFile {
  readonly name: string;
  readonly content: Buffer;
}

/** The wanted regular files of a compressed tar archive. */
async function* filesIn(
  archive: Buffer,
  isWanted: (name: string) => boolean,
): AsyncGenerator<ArchivedFile, void, void> {
  const unpacked = Readable.from([archive], { objectMode: false }).pipe(createGunzip());
  const bytes = new ArchiveBytes(unpacked);
  let longName: string | undefined;
  let kept = 0;
  try {
    for (;;) {
      const header = await bytes.take(block);
      if (header === undefined || header[0] === 0) return;
      const size = Number.parseInt(textIn(header, 124, 12), 8);
      if (!(size >= 0)) throw damaged('a size is not a number');
      const type = textIn(header, 156, 1);
      const padding = (block - (size % block)) % block;
      if (type === 'L' && size <= maxName) {
        longName = textIn((await bytes.take(size)) ?? Buffer.alloc(0), 0, size);
        await bytes.skip(padding);
        continue;
      }
      const prefix = header.toString('latin1', 257, 263) === 'ustar\0' ? textIn(header, 345, 155) : '';
      const name = longName ?? `${prefix ? `${prefix}/` : ''}${textIn(header, 0, 100)}`;
      longName = undefined;
      const isFile = type === '0' || type === '';
      if (isFile && isWanted(name)) {
        kept += size;
        if (kept > maxKept) throw damaged('its repositories are too large');
        const content = await bytes.take(size);
        if (!content) throw damaged('it is truncated');
        yield { name, content };
      } else await bytes.skip(size);
      await bytes.skip(padding);
    }
  } finally {
    unpacked.destroy();
  }
}

const textIn = (bytes: Buffer, from: number, length: number): string => {
  const field = bytes.subarray(from, from + length);
  const end = field.indexOf(0);
  return field.toString('utf8', 0, end < 0 ? field.length : end).trim();
};

/** Reads a stream by lengths. */
class ArchiveBytes {
  readonly #chunks: AsyncIterator<Buffer>;
  #rest: Buffer = Buffer.alloc(0);
  #read = 0;

  constructor(stream: Readable) {
    this.#chunks = stream[Symbol.asyncIterator]();
  }

  /** Undefined at the end of the stream. */
  async take(length: number): Promise<Buffer | undefined> {
    const parts: Buffer[] = [];
    const isWhole = await this.#each(length, (part) => parts.push(part));
    return isWhole ? Buffer.concat(parts) : undefined;
  }

  async skip(length: number): Promise<void> {
    await this.#each(length, () => {});
  }

  async #each(length: number, use: (part: Buffer) => void): Promise<boolean> {
    for (let missing = length; missing > 0; ) {
      if (this.#rest.length === 0) {
        const { done, value } = await this.#chunks.next();
        if (done) return false;
        this.#rest = value;
        this.#read += value.length;
        if (this.#read > maxUnpacked) throw damaged('it is too large');
      }
      const part = this.#rest.subarray(0, missing);
      this.#rest = this.#rest.subarray(part.length);
      missing -= part.length;
      use(part);
    }
    return true;
  }
}
