import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Capacity, Release } from './capacity.ts';

export interface ReceiveOptions {
  /** The body's size is taken from each before the first byte is read. */
  readonly memories: readonly Capacity[];
  readonly mostBytes: number;
  readonly withinMs: number;
}

export type ReceivedBody =
  | { readonly type: 'whole'; readonly bytes: Uint8Array<ArrayBuffer>; readonly release: Release }
  | { readonly type: 'refused'; readonly status: 400 | 408 | 413 | 415; readonly message: string };

/** Reads the body of a request within limits of size, memory and time. Undefined when the client disconnected. */
export async function receiveBody(
  request: IncomingMessage,
  response: ServerResponse,
  { memories, mostBytes, withinMs }: ReceiveOptions,
): Promise<ReceivedBody | undefined> {
  const encoding = request.headers['content-encoding'] ?? 'identity';
  if (encoding !== 'identity')
    return discard(request, withinMs, 415, `\`content-encoding\`: expected identity; got ${encoding}`);
  // Node has checked that it is a number. A body without a length may have the largest size.
  const declared = Number(request.headers['content-length'] ?? mostBytes);
  const tooLarge = `The body is larger than ${mostBytes} bytes`;
  if (declared > mostBytes) return discard(request, withinMs, 413, tooLarge);
  const taken: Release[] = [];
  const release = (): void => {
    for (const giveBack of taken) giveBack();
  };
  for (const memory of memories) {
    const share = await memory.take(declared, response);
    if (!share) return void release();
    taken.push(share);
  }
  const bytes = new Uint8Array(Buffer.allocUnsafeSlow(declared).buffer as ArrayBuffer);
  const end = await fill(bytes, request, withinMs);
  if (typeof end === 'number') return { type: 'whole', bytes: bytes.subarray(0, end), release };
  release();
  if (end === 'gone') return undefined;
  if (end === 'late')
    return { type: 'refused', status: 408, message: `The body did not arrive within ${withinMs / 1_000} s` };
  return discard(request, withinMs, 413, tooLarge);
}

/** The number of bytes received, or why the body is not complete. */
function fill(
  bytes: Uint8Array,
  request: IncomingMessage,
  withinMs: number,
): Promise<number | 'late' | 'gone' | 'too large'> {
  return new Promise((resolve) => {
    let length = 0;
    const finish = (end: number | 'late' | 'gone' | 'too large'): void => {
      clearTimeout(timer);
      request.off('data', take);
      request.pause();
      resolve(end);
    };
    const take = (chunk: Buffer): void => {
      if (length + chunk.length > bytes.length) return finish('too large');
      bytes.set(chunk, length);
      length += chunk.length;
    };
    const timer = setTimeout(() => finish('late'), withinMs);
    request.on('data', take);
    request.once('end', () => finish(length));
    request.once('close', () => finish('gone'));
  });
}

/** Discards a refused body for a limited time: a client that is still sending would not read the answer. */
function discard(
  request: IncomingMessage,
  withinMs: number,
  status: 413 | 415,
  message: string,
): ReceivedBody {
  const timer = setTimeout(() => request.destroy(), withinMs);
  request.once('close', () => clearTimeout(timer));
  request.resume();
  return { type: 'refused', status, message };
}
