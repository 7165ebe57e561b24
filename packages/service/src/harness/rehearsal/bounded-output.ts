/** Keeps the beginning and the end of a stream, and says how much was left out between them. */
export class BoundedOutput {
  readonly #halfBytes: number;
  readonly #head: Buffer[] = [];
  #headBytes = 0;
  #tail: Buffer[] = [];
  #tailBytes = 0;
  #leftOutBytes = 0;

  constructor(keepBytes: number) {
    this.#halfBytes = Math.ceil(keepBytes / 2);
  }

  add(chunk: Buffer): void {
    const head = chunk.subarray(0, this.#halfBytes - this.#headBytes);
    if (head.length > 0) this.#head.push(head);
    this.#headBytes += head.length;
    const rest = chunk.subarray(head.length);
    if (rest.length === 0) return;
    this.#tail.push(rest);
    this.#tailBytes += rest.length;
    // Cut only now and then: cutting at each chunk would copy the tail over and over.
    if (this.#tailBytes > 2 * this.#halfBytes) this.#cutTail();
  }

  toString(): string {
    this.#cutTail();
    const note = this.#leftOutBytes > 0 ? [Buffer.from(`\n… ${this.#leftOutBytes} bytes left out …\n`)] : [];
    return Buffer.concat([...this.#head, ...note, ...this.#tail]).toString('utf8');
  }

  #cutTail(): void {
    const excess = this.#tailBytes - this.#halfBytes;
    if (excess <= 0) return;
    this.#tail = [Buffer.concat(this.#tail).subarray(excess)];
    this.#tailBytes -= excess;
    this.#leftOutBytes += excess;
  }
}
