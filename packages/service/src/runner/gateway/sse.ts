const newline = 0x0a;

/** A longer text is not kept whole: 32 answers may come at once, and what is whole is parsed on the runner's thread. */
const mostBytes = 256 * 1024;
const tailBytes = 64 * 1024;

/** A text that arrives in parts: kept whole as long as it is short, else only its end. */
export class BoundedText {
  #parts: Buffer[] = [];
  #bytes = 0;
  #isWhole = true;

  add(part: Buffer): void {
    if (part.length === 0) return;
    this.#parts.push(part);
    this.#bytes += part.length;
    if (this.#bytes <= mostBytes) return;
    const end = Buffer.concat(this.#parts).subarray(-tailBytes);
    // A copy, or the tail would hold all that it is the tail of.
    this.#parts = [Buffer.from(end)];
    this.#bytes = end.length;
    this.#isWhole = false;
  }

  /** What is left of it; it begins again, empty. */
  take(): { readonly text: string; readonly isWhole: boolean } {
    const taken = { text: Buffer.concat(this.#parts).toString(), isWhole: this.#isWhole };
    this.#parts = [];
    this.#bytes = 0;
    this.#isWhole = true;
    return taken;
  }
}

/**
 * Finds the data of server-sent events in a stream of bytes, wherever it is cut into chunks. Each of the providers'
 * events has its data on one line. Of a line that is too long only the end is told.
 */
export class EventSplitter {
  readonly #onData: (data: string, isWhole: boolean) => void;
  readonly #line = new BoundedText();

  constructor(onData: (data: string, isWhole: boolean) => void) {
    this.#onData = onData;
  }

  write(chunk: Buffer): void {
    let from = 0;
    for (let to = chunk.indexOf(newline); to !== -1; to = chunk.indexOf(newline, from)) {
      this.#line.add(chunk.subarray(from, to));
      this.end();
      from = to + 1;
    }
    this.#line.add(chunk.subarray(from));
  }

  /** What was begun counts too: a stream may be cut behind its last event. */
  end(): void {
    const { text, isWhole } = this.#line.take();
    if (!isWhole) this.#onData(text, false);
    else if (text.startsWith('data:')) this.#onData(text.slice('data:'.length).trim(), true);
  }
}
