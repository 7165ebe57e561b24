/**
 * Decodes base64 that comes in pieces, into memory that is reserved once. Only base64 with its padding is valid: what
 * decoding would skip, or what would be encoded in another way, is not.
 */
export class Base64Decoder {
  readonly #bytes: Buffer;
  #length = 0;
  #rest = '';
  #isPadded = false;
  #isValid = true;
  #isTooLong = false;

  constructor(mostBytes: number) {
    this.#bytes = Buffer.allocUnsafe(mostBytes);
  }

  write(piece: string): void {
    const text = this.#rest + piece;
    const end = text.length - (text.length % 4);
    this.#rest = text.slice(end);
    if (end > 0) this.#decode(text.slice(0, end));
  }

  /** What was decoded, or what is wrong with it. */
  end(): Buffer | 'too long' | 'invalid' {
    if (!this.#isValid || this.#rest !== '') return 'invalid';
    return this.#isTooLong ? 'too long' : this.#bytes.subarray(0, this.#length);
  }

  #decode(text: string): void {
    const from = this.#length;
    const padding = text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0;
    const length = (text.length / 4) * 3 - padding;
    this.#isValid &&= !this.#isPadded;
    this.#isPadded ||= padding > 0;
    this.#isTooLong ||= from + length > this.#bytes.length;
    if (!this.#isValid || this.#isTooLong) return;
    this.#length += this.#bytes.write(text, from, 'base64');
    this.#isValid = this.#bytes.toString('base64', from, this.#length) === text;
  }
}
