import { Transform, type TransformCallback } from 'node:stream';

/** More than any message has: what a tool returns is cut by Claude itself. */
const longestLineBytes = 32 * 1024 * 1024;
const newline = 0x0a;

/**
 * What a process of the agent says, line by line, to somebody who keeps a line until it is whole. The agent can write
 * there too: at a line without an end nothing more is passed on, and `onEndless` is told.
 */
export class BoundedLines extends Transform {
  readonly #onEndless: () => void;
  #lineBytes = 0;

  constructor(onEndless: () => void) {
    super();
    this.#onEndless = onEndless;
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    if (this.#lineBytes > longestLineBytes) return done();
    const end = chunk.lastIndexOf(newline);
    this.#lineBytes = end === -1 ? this.#lineBytes + chunk.length : chunk.length - end - 1;
    if (this.#lineBytes <= longestLineBytes) return done(null, chunk);
    this.#onEndless();
    done();
  }
}
