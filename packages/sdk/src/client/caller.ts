import type { BodyOf, ReplyOf } from '../contract/routes.ts';
import { Connection, type ConnectionOptions, type Sent } from './connection.ts';
import { ConnectionError, MusterError } from './errors.ts';
import type { ServerSentEvent } from './event-parser.ts';
import {
  defaultRetries,
  delayMs,
  isPassing,
  type Persistence,
  pause,
  persist,
  type Retry,
  type RetryLimits,
} from './persistence.ts';
import { type Operation, repetition } from './repetition.ts';

export interface ClientOptions extends ConnectionOptions {
  /** Merged over the defaults: 6 tries within 30 seconds. `{ tries: 1 }` turns retries off. */
  readonly retries?: Partial<RetryLimits> | undefined;
  /** How long one try of an ordinary call may take; 30 seconds. */
  readonly timeoutMs?: number | undefined;
  /** After how much silence a wait or a stream is opened again; 45 seconds. The service speaks every 15. */
  readonly silenceMs?: number | undefined;
  /** Told before each retry, waits and streams included. */
  readonly onRetry?: ((retry: Retry) => void) | undefined;
}

/** Of every method. */
export interface CallSettings {
  readonly signal?: AbortSignal | undefined;
  /** Instead of the client's. */
  readonly timeoutMs?: number | undefined;
}

/** Read one by one: an AbortController fits too, and its signal is no property of its own. */
export const settingsOf = ({ signal, timeoutMs }: CallSettings): CallSettings => ({ signal, timeoutMs });

export interface Question<N extends Operation> extends Omit<Sent, 'body' | 'isLong'> {
  readonly body?: BodyOf<N>;
  /** Safe although its operation is not in general. */
  readonly isSafe?: boolean;
  /** Looks whether a refusal only means that an earlier try did it; if so, says what that one's reply was. */
  readonly whenRepeated?: (refusal: MusterError) => Promise<ReplyOf<N> | undefined>;
}

/** A connection that lasted so long was a good one: the next failure is a first. */
const steadyMs = 5_000;

/** Calls that outlive faults of the network, each by its rule in `repetition`. */
export class Caller {
  readonly connection: Connection;
  readonly limits: RetryLimits;
  readonly #options: ClientOptions;

  constructor(options: ClientOptions) {
    this.connection = new Connection(options);
    this.limits = { ...defaultRetries, ...options.retries };
    this.#options = options;
  }

  async ask<N extends Operation>(name: N, question: Question<N>): Promise<ReplyOf<N>> {
    const { isSafe, whenRepeated, ...sent } = question;
    const isLong = repetition[name] === 'held';
    const timeoutMs = isLong
      ? (this.#options.silenceMs ?? 45_000)
      : (sent.timeoutMs ?? this.#options.timeoutMs ?? 30_000);
    const persistence: Persistence = {
      operation: name,
      isSafe: isSafe ?? repetition[name] !== 'unsent',
      limits: isLong ? this.#endless : this.limits,
      signal: sent.signal,
      onRetry: this.#options.onRetry,
    };
    return persist(persistence, async (mayHaveHappened) => {
      try {
        return await this.connection.ask(name, { ...sent, timeoutMs, isLong });
      } catch (error) {
        if (!mayHaveHappened || !(error instanceof MusterError) || isPassing(error)) throw error;
        const earlier = await whenRepeated?.(error);
        if (earlier === undefined) throw error;
        return earlier;
      }
    });
  }

  /**
   * The events of a stream that opens itself again whenever it ends, is cut, or falls silent. `prepare` says how, each
   * time; `null` says that it has been. It ends when the signal aborts, and throws what the service refuses.
   */
  async *events(
    name: Operation,
    signal: AbortSignal | undefined,
    prepare: () => Sent,
  ): AsyncGenerator<ServerSentEvent | null, void, void> {
    for (let failures = 1; !signal?.aborted; failures++) {
      const openedMs = performance.now();
      let error: Error = new ConnectionError('the stream ended');
      try {
        const sent: Sent = { ...prepare(), signal, timeoutMs: this.#options.silenceMs ?? 45_000 };
        for await (const event of this.connection.events(name, sent)) {
          if (event) failures = 0;
          yield event;
          if (signal?.aborted) return;
        }
      } catch (thrown) {
        if (signal?.aborted) return;
        if (!isPassing(thrown)) throw thrown;
        error = thrown;
      }
      if (performance.now() - openedMs > steadyMs) failures = 0;
      const delay = delayMs(Math.max(1, failures), this.limits, error);
      this.#options.onRetry?.({ operation: name, failures, delayMs: delay, error });
      await pause(delay, signal).catch(() => {});
    }
  }

  get #endless(): RetryLimits {
    const { POSITIVE_INFINITY } = Number;
    return { ...this.limits, tries: POSITIVE_INFINITY, withinMs: POSITIVE_INFINITY };
  }
}
