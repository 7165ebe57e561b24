import type { Readable } from 'node:stream';

/** Reads a stream by lines and by lengths, and holds no more of it than is asked for and one chunk. */
export class ByteReader {
  readonly #chunks: AsyncIterator<Buffer>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(stream: Readable) {
    this.#chunks = stream[Symbol.asyncIterator]();
  }

  /** Without its end; undefined when there is none. Throws at a line that is longer than this. */
  async line(mostBytes = 4096): Promise<string | undefined> {
    for (;;) {
      const end = this.#rest.indexOf('\n');
      if (end >= 0) return this.#take(end + 1).toString('utf8', 0, end);
      if (this.#rest.length > mostBytes) throw new Error('a line is too long');
      if (!(await this.#fill())) return undefined;
    }
  }

  async bytes(length: number): Promise<Buffer> {
    const parts: Buffer[] = [];
    for (let missing = length; missing > 0; ) {
      if (this.#rest.length === 0 && !(await this.#fill())) throw new Error('it ended early');
      const part = this.#take(Math.min(missing, this.#rest.length));
      parts.push(part);
      missing -= part.length;
    }
    return Buffer.concat(parts);
  }

  #take(length: number): Buffer {
    const taken = this.#rest.subarray(0, length);
    this.#rest = this.#rest.subarray(length);
    return taken;
  }

  async #fill(): Promise<boolean> {
    const { done, value } = await this.#chunks.next();
    if (done) return false;
    this.#rest = this.#rest.length === 0 ? value : Buffer.concat([this.#rest, value]);
    return true;
  }
}
