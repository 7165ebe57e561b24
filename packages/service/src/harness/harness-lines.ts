import { setImmediate } from 'node:timers/promises';
import { limits } from '@muster/sdk/contract';

/**
 * The lines that a harness prints, each a JSON value. The agent can write to this stream too, and a tool can return
 * anything. So lines are bounded byte by byte while they arrive, before anything parses them. Long strings are cut,
 * because a harness prints whole files. A line that is still too large, too deep or has too many values is left out.
 * What remains takes some tens of milliseconds to parse and to report.
 */
const bounds = {
  /** Of one string that is not an image. No report accepts a longer one. */
  stringBytes: limits.bodyBytes,
  /** Of one image, in base64. */
  imageBytes: Math.ceil(limits.attachmentBytes / 3) * 4,
  /** Of all images of a line: Claude Code prints the same image twice. */
  imagesBytes: 16 * 1024 * 1024,
  /** Of everything else in a line. */
  textBytes: 4 * 1024 * 1024,
  values: 25_000,
  depth: limits.bodyDepth,
};

/** A line that is too large, too deep or has too many values. */
export interface LeftOutLine {
  /** Its first characters. */
  readonly beginning: string;
  readonly reason: string;
}

/** In one turn of the event loop. */
const bytesPerTurn = 256 * 1024;
const linesPerTurn = 50;

/**
 * Yields lines without their line breaks; empty ones are skipped. Ends with the stream, also if that is an error: the
 * exit of the process says why.
 */
export async function* boundedLines(
  stream: AsyncIterable<Buffer>,
  onLeftOut: (line: LeftOutLine) => void,
): AsyncGenerator<Buffer> {
  let scanner = new LineScanner();
  let bytes = 0;
  let lines = 0;
  try {
    for await (const chunk of stream)
      for (const { part, isEnd } of partsOf(chunk)) {
        scanner.add(part);
        const line = isEnd ? scanner.end() : noLine;
        if (isEnd) scanner = new LineScanner();
        if (!Buffer.isBuffer(line)) onLeftOut(line);
        else if (line.length > 0) yield line;
        bytes += part.length + (Buffer.isBuffer(line) ? line.length : 0);
        lines += 1;
        if (bytes < bytesPerTurn && lines < linesPerTurn) continue;
        bytes = 0;
        lines = 0;
        await setImmediate();
      }
  } catch {}
}

const noLine = Buffer.alloc(0);

/** The parts of lines in a chunk, and whether the line ends there. */
function* partsOf(chunk: Buffer): Generator<{ readonly part: Buffer; readonly isEnd: boolean }> {
  for (let at = 0; at < chunk.length; ) {
    const newline = chunk.indexOf('\n', at);
    const end = newline === -1 ? chunk.length : newline;
    yield { part: chunk.subarray(at, end), isEnd: newline !== -1 };
    at = end + 1;
  }
}

const [quote, comma, backslash, letterU] = [0x22, 0x2c, 0x5c, 0x75];
const [openBracket, closeBracket, openBrace, closeBrace] = [0x5b, 0x5d, 0x7b, 0x7d];
const beginningBytes = 200;
/** A line may arrive byte by byte, and each part takes some hundred bytes of memory. */
const partsPerJoin = 1024;
const cutMark = Buffer.from('…');

/** How PNG, JPEG, GIF and WebP begin in base64. */
const imageBeginnings = ['iVBO', '/9j/', 'R0lG', 'UklG'].map((text) => Buffer.from(text).readInt32BE());
const base64Bytes = tableOf(Buffer.from('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/='));
/** Of one byte, and neither a quote nor the beginning of an escape. */
const plainBytes = tableOf(
  Array.from({ length: 128 }, (_, i) => i).filter((byte) => byte !== quote && byte !== backslash),
);

function tableOf(bytes: Iterable<number>): Uint8Array {
  const table = new Uint8Array(256);
  for (const byte of bytes) table[byte] = 1;
  return table;
}

/** One line, which arrives in parts. The line need not be valid JSON. */
class LineScanner {
  readonly #kept: Buffer[] = [];
  #keptBytes = 0;
  /** How many of the parts at the beginning are joined ones. */
  #joined = 0;
  #imagesBytes = 0;
  #values = 1;
  #depth = 0;
  #reason: string | undefined;
  #isInString = false;
  #stringBytes = 0;
  /** Its first four bytes. */
  #stringBeginning = 0;
  #isImage = false;
  #isCut = false;
  /** How many of the next bytes belong to an escape. */
  #escapeBytes = 0;

  end(): Buffer | LeftOutLine {
    if (this.#reason === undefined)
      return this.#kept.length === 1 ? (this.#kept[0] as Buffer) : Buffer.concat(this.#kept);
    const bytes = Buffer.concat(this.#kept, Math.min(this.#keptBytes, beginningBytes));
    return { beginning: bytes.toString(), reason: this.#reason };
  }

  add(part: Buffer): void {
    if (this.#reason !== undefined) return;
    let from = 0;
    for (let at = 0; at < part.length; at++) {
      if (this.#isInString) at = this.#skipPlain(part, at);
      const byte = part[at];
      if (byte === undefined) break;
      if (!this.#isInString) this.#scanStructure(byte);
      else {
        if (!this.#isCut && this.#mayCutBefore(byte)) {
          this.#isCut = true;
          this.#keep(part.subarray(from, at));
          this.#keep(cutMark);
        }
        if (this.#endsString(byte)) {
          if (this.#isCut) from = at;
          this.#endString();
        }
      }
    }
    if (!this.#isCut) this.#keep(part.subarray(from));
    this.#checkSize();
  }

  #scanStructure(byte: number): void {
    if (byte === quote) {
      this.#isInString = true;
      this.#stringBytes = 0;
      this.#escapeBytes = 0;
    } else if (byte === comma) this.#addValue();
    else if (byte === openBracket || byte === openBrace) {
      this.#addValue();
      this.#depth += 1;
      if (this.#depth > bounds.depth) this.#reason ??= `more than ${bounds.depth} levels`;
    } else if (byte === closeBracket || byte === closeBrace) this.#depth -= 1;
  }

  #addValue(): void {
    this.#values += 1;
    if (this.#values > bounds.values) this.#reason ??= `more than ${bounds.values} values`;
  }

  /** Returns the index of the next byte of a string that has to be looked at. */
  #skipPlain(part: Buffer, from: number): number {
    if (this.#stringBytes < 4 || this.#escapeBytes > 0) return from;
    const table = this.#isImage ? base64Bytes : plainBytes;
    const end = this.#isCut
      ? part.length
      : Math.min(part.length, from + this.#mostBytes() - this.#stringBytes);
    let at = from;
    while (at < end && table[part[at] as number] === 1) at++;
    this.#stringBytes += at - from;
    return at;
  }

  #mostBytes(): number {
    return this.#isImage ? bounds.imageBytes : bounds.stringBytes;
  }

  /** A string that is too long, and not within an escape or a character of several bytes. */
  #mayCutBefore(byte: number): boolean {
    if (this.#stringBytes < this.#mostBytes() || this.#escapeBytes > 0) return false;
    return byte !== quote && (byte & 0xc0) !== 0x80;
  }

  /** Counts a byte of a string, unless it is the quote that ends it. */
  #endsString(byte: number): boolean {
    if (this.#escapeBytes > 0)
      this.#escapeBytes = this.#escapeBytes === 1 && byte === letterU ? 4 : this.#escapeBytes - 1;
    else if (byte === quote) return true;
    else if (byte === backslash) this.#escapeBytes = 1;
    this.#stringBytes += 1;
    if (this.#stringBytes > 4) this.#isImage &&= base64Bytes[byte] === 1;
    else {
      this.#stringBeginning = (this.#stringBeginning << 8) | byte;
      this.#isImage = this.#stringBytes === 4 && imageBeginnings.includes(this.#stringBeginning);
    }
    return false;
  }

  #endString(): void {
    if (this.#isImage) this.#imagesBytes += this.#keptOfString();
    this.#isInString = false;
    this.#isImage = false;
    this.#isCut = false;
  }

  #keptOfString(): number {
    return Math.min(this.#stringBytes, bounds.imageBytes);
  }

  #keep(bytes: Buffer): void {
    if (bytes.length > 0) this.#kept.push(bytes);
    this.#keptBytes += bytes.length;
    if (this.#kept.length - this.#joined < partsPerJoin) return;
    this.#kept.push(Buffer.concat(this.#kept.splice(this.#joined)));
    this.#joined += 1;
  }

  #checkSize(): void {
    const images = this.#imagesBytes + (this.#isImage ? this.#keptOfString() : 0);
    if (images > bounds.imagesBytes) this.#reason ??= `more than ${bounds.imagesBytes} bytes of images`;
    if (this.#keptBytes - images > bounds.textBytes)
      this.#reason ??= `more than ${bounds.textBytes} bytes of text`;
  }
}

export const leftOutText = (harness: string, { reason }: LeftOutLine): string =>
  `A message of ${harness} is not shown: it has ${reason}. Later ones of this kind are not reported.`;
