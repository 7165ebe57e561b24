export interface KeptReply {
  readonly etag: string;
  /** To the next page of a list. */
  readonly link: string | undefined;
  readonly bytes: Buffer;
}

const most = { replyBytes: 1024 * 1024, bytes: 64 * 1024 * 1024 };
/** Of an entry without its key, its reply and its link. */
const entryBytes = 500;

/** Replies with their ETag, the least recently used given up first. */
export class KeptReplies {
  readonly #mostBytes: number;
  readonly #replies = new Map<string, KeptReply>();
  #bytes = 0;

  constructor(mostBytes = most.bytes) {
    this.#mostBytes = mostBytes;
  }

  find(key: string): KeptReply | undefined {
    const found = this.#replies.get(key);
    if (!found) return undefined;
    this.#replies.delete(key);
    this.#replies.set(key, found);
    return found;
  }

  keep(key: string, reply: KeptReply): void {
    this.#drop(key);
    if (reply.bytes.length > most.replyBytes || reply.etag.length > entryBytes) return;
    this.#replies.set(key, reply);
    this.#bytes += sizeOf(key, reply);
    for (const oldest of this.#replies.keys()) {
      if (this.#bytes <= this.#mostBytes) return;
      this.#drop(oldest);
    }
  }

  #drop(key: string): void {
    const dropped = this.#replies.get(key);
    if (!dropped) return;
    this.#replies.delete(key);
    this.#bytes -= sizeOf(key, dropped);
  }
}

const sizeOf = (key: string, { bytes, link = '' }: KeptReply): number =>
  bytes.length + key.length + link.length + entryBytes;

/** Of this process: hosts of all integrations share its memory. */
export const keptReplies = new KeptReplies();
