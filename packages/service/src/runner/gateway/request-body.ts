import type { IncomingMessage, ServerResponse } from 'node:http';
import { JobThread } from '../../lib/job-thread.ts';
import { packageFile } from '../../lib/package-file.ts';
import { Capacity, type Release } from './capacity.ts';
import type { CheckedRequest, UncheckedRequest } from './provider-request.ts';

export interface ReceiveOptions {
  /** The body's size is taken from it before the first byte is read. */
  readonly memory: Capacity;
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
  { memory, mostBytes, withinMs }: ReceiveOptions,
): Promise<ReceivedBody | undefined> {
  const encoding = request.headers['content-encoding'] ?? 'identity';
  if (encoding !== 'identity')
    return discard(request, withinMs, 415, `\`content-encoding\`: expected identity; got ${encoding}`);
  // Node has checked that it is a number. A body without a length may have the largest size.
  const declared = Number(request.headers['content-length'] ?? mostBytes);
  const tooLarge = `The body is larger than ${mostBytes} bytes`;
  if (declared > mostBytes) return discard(request, withinMs, 413, tooLarge);
  const release = await memory.take(declared, response);
  if (!release) return undefined;
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

/** The bundle: a thread can't be started from a TypeScript source. */
const workerFile = packageFile('dist/bundle/request-check-worker.js');

/** Checking the largest body takes about 300 MB. */
const heapMb = 512;

/** An idle thread ends after this time, which frees its memory. */
const idleMs = 30_000;

/**
 * Checks requests on a worker thread, one at a time. A body of 32 MiB takes up to a second, and the main thread may
 * also be serving the API.
 */
export class RequestChecker {
  /** To be taken for each check. */
  readonly turn = new Capacity(1);
  readonly #thread = new JobThread<UncheckedRequest, CheckedRequest>(workerFile, {
    maxOldGenerationSizeMb: heapMb,
  });
  #idle: NodeJS.Timeout | undefined;

  /** Moves the bytes to the thread. */
  async check(request: UncheckedRequest): Promise<CheckedRequest> {
    clearTimeout(this.#idle);
    try {
      const checked = await this.#thread.ask(request, [request.bytes.buffer]);
      this.#idle = setTimeout(() => void this.#thread.end(), idleMs).unref();
      return checked;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ERR_WORKER_OUT_OF_MEMORY') throw error;
      return { type: 'refused', status: 413, message: 'The body takes too much memory to be checked' };
    }
  }
}
