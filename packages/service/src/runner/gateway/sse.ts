const newline = 0x0a;

/** A line longer than this is passed over: no event that a provider sends is. */
const longestLineBytes = 32 * 1024 * 1024;

/** Finds the data of server-sent events in a stream of bytes, wherever it is cut into chunks. */
export class EventSplitter {
  readonly #onData: (data: string) => void;
  #parts: Buffer[] = [];
  #bytes = 0;
  #lines: string[] = [];

  constructor(onData: (data: string) => void) {
    this.#onData = onData;
  }

  write(chunk: Buffer): void {
    let from = 0;
    for (let to = chunk.indexOf(newline); to !== -1; to = chunk.indexOf(newline, from)) {
      this.#keep(chunk.subarray(from, to));
      this.#line();
      from = to + 1;
    }
    this.#keep(chunk.subarray(from));
  }

  /** What was begun counts too: a stream may be cut behind its last event. */
  end(): void {
    this.#line();
    this.#dispatch();
  }

  #keep(part: Buffer): void {
    this.#bytes += part.length;
    if (this.#bytes > longestLineBytes) this.#parts = [];
    else if (part.length > 0) this.#parts.push(part);
  }

  #line(): void {
    const line = Buffer.concat(this.#parts).toString().replace(/\r$/, '');
    this.#parts = [];
    this.#bytes = 0;
    if (line === '') this.#dispatch();
    else if (line.startsWith('data:')) this.#lines.push(line.slice('data:'.length).trimStart());
  }

  #dispatch(): void {
    const data = this.#lines.join('\n');
    this.#lines = [];
    if (data !== '') this.#onData(data);
  }
}
