import { type ClientOperation, paths } from '../contract/paths.ts';
import type { BodyOf, ReplyOf } from '../contract/routes.ts';
import { Connection, type ConnectionOptions, type Request } from './connection.ts';
import { ConnectionError, MusterError } from './errors.ts';
import type { ServerSentEvent } from './event-parser.ts';
import {
  defaultRetries,
  delayMs,
  isTransient,
  pause,
  type Retry,
  type RetryLimits,
  withRetries,
} from './retries.ts';

export interface ClientOptions extends ConnectionOptions {
  /** Merged over the defaults: 6 tries within 30 seconds. `{ tries: 1 }` turns retries off. */
  readonly retries?: Partial<RetryLimits> | undefined;
  /** How long one try of an ordinary call may take; 30 seconds. */
  readonly timeoutMs?: number | undefined;
  /** After how much silence a wait or a stream is reopened; 45 seconds. The service sends something every 15. */
  readonly silenceMs?: number | undefined;
  /** Called before each retry, also of waits and streams. */
  readonly onRetry?: ((retry: Retry) => void) | undefined;
}

/** The last argument of every method. */
export interface CallSettings {
  readonly signal?: AbortSignal | undefined;
  /** Overrides the client's. */
  readonly timeoutMs?: number | undefined;
}

interface CallOptions<N extends ClientOperation>
  extends Pick<Request, 'headers' | 'params' | 'query' | 'upload'> {
  /** Overrides the operation's retry policy. */
  readonly isSafe?: boolean;
  /** Called when a repeated request is refused. If an earlier try caused the refusal, returns the reply of that try. */
  readonly whenRepeated?: (refusal: MusterError) => Promise<ReplyOf<N> | undefined>;
}

/** A stream that was open this long counts as working: the next failure is the first one again. */
const steadyMs = 5_000;

/** Calls with retries, each by the retry policy of its operation. */
export class Caller {
  readonly connection: Connection;
  readonly limits: RetryLimits;
  readonly #options: ClientOptions;
  readonly #silenceMs: number;

  constructor(options: ClientOptions) {
    this.connection = new Connection(options);
    this.limits = { ...defaultRetries, ...options.retries };
    this.#options = options;
    this.#silenceMs = options.silenceMs ?? 45_000;
  }

  async call<N extends ClientOperation>(
    name: N,
    body: BodyOf<N>,
    // Read one by one: an AbortController is accepted too, and its signal is not an own property.
    { signal, timeoutMs }: CallSettings,
    { isSafe = paths[name].retry !== 'unsent', whenRepeated, ...request }: CallOptions<N> = {},
  ): Promise<ReplyOf<N>> {
    const isLong = paths[name].retry === 'long';
    const ordinaryMs = timeoutMs ?? this.#options.timeoutMs ?? 30_000;
    const sent: Request = {
      ...request,
      body,
      signal,
      isLong,
      timeoutMs: isLong ? this.#silenceMs : ordinaryMs,
    };
    const { POSITIVE_INFINITY } = Number;
    const endless = { ...this.limits, tries: POSITIVE_INFINITY, withinMs: POSITIVE_INFINITY };
    const { onRetry } = this.#options;
    const loop = { operation: name, isSafe, limits: isLong ? endless : this.limits, signal, onRetry };
    return withRetries(loop, async (mayBeRepeated) => {
      try {
        return await this.connection.call(name, sent);
      } catch (error) {
        if (!mayBeRepeated || !(error instanceof MusterError) || isTransient(error)) throw error;
        const earlier = await whenRepeated?.(error);
        if (earlier === undefined) throw error;
        return earlier;
      }
    });
  }

  /**
   * The events of a stream that reopens itself when it ends, breaks or falls silent. `prepare` makes the request each
   * time; `null` says that the stream was opened. It ends when the signal aborts, and throws when the service refuses it.
   */
  async *events(
    name: ClientOperation,
    signal: AbortSignal | undefined,
    prepare: () => Request,
  ): AsyncGenerator<ServerSentEvent | null, void, void> {
    for (let failures = 1; !signal?.aborted; failures++) {
      const openedMs = performance.now();
      let error: Error = new ConnectionError('the stream ended');
      try {
        const request: Request = { ...prepare(), signal, timeoutMs: this.#silenceMs };
        for await (const event of this.connection.events(name, request)) {
          if (event) failures = 0;
          yield event;
          if (signal?.aborted) return;
        }
      } catch (thrown) {
        if (signal?.aborted) return;
        if (!isTransient(thrown)) throw thrown;
        error = thrown;
      }
      if (performance.now() - openedMs > steadyMs) failures = 0;
      const delay = delayMs(Math.max(1, failures), this.limits, error);
      this.#options.onRetry?.({ operation: name, failures, delayMs: delay, error });
      await pause(delay, signal).catch(() => {});
    }
  }
}

export interface Page<T> {
  readonly entries: readonly T[];
  /** Empty on the last page. */
  readonly nextPageToken: string;
}

/** The entries of all pages, each page read when it is needed. */
export async function* readPages<T>(
  firstToken: string | undefined,
  read: (pageToken: string) => Promise<Page<T>>,
): AsyncGenerator<T, void, void> {
  let token = firstToken ?? '';
  do {
    const { entries, nextPageToken } = await read(token);
    yield* entries;
    token = nextPageToken;
  } while (token !== '');
}
