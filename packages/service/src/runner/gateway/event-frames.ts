/**
 * Reads the binary events of AWS (`application/vnd.amazon.eventstream`) as far as metering needs them. A frame is
 *
 *   total length (4 bytes), length of the headers (4), checksum (4), headers, payload, checksum (4)
 *
 * In Bedrock the payload of a `chunk` is JSON with the event of the Messages API in base64. An exception has its name in
 * a header. Checksums are left to the client, which gets every byte unchanged.
 */
export class FrameSplitter {
  readonly #onData: (data: string, isWhole: boolean) => void;
  readonly #prelude = Buffer.alloc(preludeBytes);
  /** How much of the current frame has arrived, and its parts if it is kept. */
  #received = 0;
  #total = 0;
  #parts: Buffer[] = [];

  constructor(onData: (data: string, isWhole: boolean) => void) {
    this.#onData = onData;
  }

  write(chunk: Buffer): void {
    for (let at = 0; at < chunk.length; ) {
      const end = this.#received < preludeBytes ? preludeBytes : this.#total;
      const part = chunk.subarray(at, at + end - this.#received);
      if (end === preludeBytes) part.copy(this.#prelude, this.#received);
      else if (this.#total <= mostFrameBytes) this.#parts.push(part);
      this.#received += part.length;
      at += part.length;
      if (this.#received < end) return;
      if (end === preludeBytes) this.#begin();
      if (this.#received >= this.#total) this.#finish();
    }
  }

  /** An unfinished frame says nothing. */
  end(): void {
    this.#received = 0;
    this.#parts = [];
  }

  #begin(): void {
    // A length that can't be is a frame without content: what follows is not understood, but always read on.
    this.#total = Math.max(this.#prelude.readUInt32BE(0), preludeBytes + checksumBytes);
  }

  #finish(): void {
    const body = Buffer.concat(this.#parts);
    const headersLength = this.#prelude.readUInt32BE(4);
    this.end();
    // Usage is in small events; longer ones were not kept.
    if (body.length < headersLength + checksumBytes) return;
    const data = dataOf(
      exceptionIn(body.subarray(0, headersLength)),
      body.subarray(headersLength, body.length - checksumBytes).toString(),
    );
    if (data !== undefined) this.#onData(data, true);
  }
}

const preludeBytes = 12;
const checksumBytes = 4;
const mostFrameBytes = 256 * 1024;

/** The event of the Messages API; an exception as an error event of it. */
function dataOf(exception: string | undefined, payload: string): string | undefined {
  if (exception !== undefined)
    return JSON.stringify({
      type: 'error',
      error: { type: exception, message: textIn(payload, 'message') ?? '' },
    });
  const bytes = textIn(payload, 'bytes');
  return bytes === undefined ? undefined : Buffer.from(bytes, 'base64').toString();
}

function textIn(payload: string, name: string): string | undefined {
  try {
    const value: unknown = (JSON.parse(payload) as Record<string, unknown> | null)?.[name];
    return typeof value === 'string' ? value : undefined;
  } catch {
    return undefined;
  }
}

const stringType = 7;

/** The value of `:exception-type`. Bedrock's headers are all strings; one of another type ends the search. */
function exceptionIn(headers: Buffer): string | undefined {
  for (let at = 0; at < headers.length; ) {
    const nameEnd = at + 1 + (headers[at] ?? 0);
    if (nameEnd + 3 > headers.length || headers[nameEnd] !== stringType) return undefined;
    const valueEnd = nameEnd + 3 + headers.readUInt16BE(nameEnd + 1);
    if (headers.toString('latin1', at + 1, nameEnd) === ':exception-type')
      return headers.toString('utf8', nameEnd + 3, valueEnd);
    at = valueEnd;
  }
  return undefined;
}
