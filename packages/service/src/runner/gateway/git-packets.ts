/** Git's packets: four hexadecimal digits of length, then the content; `0000` alone is a flush. */
const mostPacketBytes = 65_520;
const bandBytes = mostPacketBytes - 5;

export const flush = Buffer.from('0000');

export function packet(content: string | Buffer): Buffer {
  const bytes = Buffer.from(content);
  return Buffer.concat([Buffer.from((bytes.length + 4).toString(16).padStart(4, '0')), bytes]);
}

/** One band of a multiplexed answer: 1 is the answer itself, 2 is shown to the user behind `remote:`. */
export function band(number: 1 | 2, content: Buffer): Buffer {
  const packets: Buffer[] = [];
  for (let at = 0; at < content.length; at += bandBytes)
    packets.push(packet(Buffer.concat([Buffer.of(number), content.subarray(at, at + bandBytes)])));
  return Buffer.concat(packets);
}

/** What a client sent is not what git sends. */
export class MalformedRequest extends Error {}

/** Reads packets off the beginning of a stream, and hands over what is behind them. */
export class PacketReader {
  readonly #source: AsyncIterator<Buffer>;
  #held: Buffer = Buffer.alloc(0);

  constructor(source: AsyncIterable<Buffer>) {
    this.#source = source[Symbol.asyncIterator]();
  }

  /** The packets before the next flush; none when the stream has ended. */
  async untilFlush(mostBytes: number): Promise<Buffer[]> {
    const packets: Buffer[] = [];
    for (let bytes = 0; bytes <= mostBytes; ) {
      const digits = (await this.take(4)).toString('latin1');
      if (digits === '0000' || (digits === '' && packets.length === 0)) return packets;
      const length = /^[0-9a-f]{4}$/i.test(digits) ? Number.parseInt(digits, 16) : 0;
      if (length < 4 || length > mostPacketBytes)
        throw new MalformedRequest('the request is not in the form of git packets');
      const content = await this.take(length - 4);
      if (content.length < length - 4)
        throw new MalformedRequest('the request ended in the middle of a packet');
      packets.push(content);
      bytes += length;
    }
    throw new MalformedRequest('the request names too many refs');
  }

  /** So many bytes, or fewer at the end of the stream. */
  async take(bytes: number): Promise<Buffer> {
    while (this.#held.length < bytes) {
      const next = await this.#source.next();
      if (next.done) break;
      this.#held = Buffer.concat([this.#held, next.value]);
    }
    const taken = this.#held.subarray(0, bytes);
    this.#held = this.#held.subarray(bytes);
    return taken;
  }

  async *rest(): AsyncGenerator<Buffer> {
    if (this.#held.length > 0) yield this.#held;
    this.#held = Buffer.alloc(0);
    for (let next = await this.#source.next(); !next.done; next = await this.#source.next()) yield next.value;
  }
}
