import { setTimeout as delay } from 'node:timers/promises';
import { HostError } from './host-error.ts';

const defaults = {
  /** Calls at the same time. */
  concurrency: 8,
  /** How many writes may follow each other directly; then one per `writeSpacingMs`. */
  writeBurst: 10,
  writeSpacingMs: 1_000,
  /** A call that would have to wait longer is rejected with the time to wait. */
  longestWaitMs: 10_000,
  /** Calls that wait. */
  mostWaiting: 1_000,
};

/** What to wait when a host limits without saying for how long; doubled each time, up to the second one. */
const firstPauseMs = 60_000;
const longestPauseMs = 60 * 60_000;

/**
 * Keeps the calls with one credential within the limits of its host: few at a time, writes spaced, and none while the
 * host has asked to wait. GitHub allows 80 new comments a minute; the defaults stay below that.
 */
export class Limiter {
  readonly #limits: typeof defaults;
  readonly #waiting: (() => void)[] = [];
  #active = 0;
  /** When the next write would be due if writes had never come in bursts. */
  #nextWriteAt = 0;
  #pausedUntil = 0;
  /** Pauses in a row whose length the host did not say. */
  #pauses = 0;

  constructor(limits: Partial<typeof defaults> = {}) {
    this.#limits = { ...defaults, ...limits };
  }

  async run<T>(isWrite: boolean, call: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    if (isWrite) await this.#spaceWrite(signal);
    await this.#enter();
    try {
      await this.#wait(this.#pausedUntil - Date.now(), signal);
      const result = await call().catch((error: unknown) => {
        throw this.heed(error);
      });
      this.#pauses = 0;
      return result;
    } finally {
      this.#leave();
    }
  }

  /** Starts a pause if the error asks for one. Returns the error, with the time to wait. */
  heed(error: unknown): unknown {
    if (!(error instanceof HostError) || error.kind !== 'limited') return error;
    if (error.retryAfterMs > 0) return this.#pause(error, error.retryAfterMs);
    const now = Date.now();
    // Calls that were under way together are limited together: that is one pause.
    if (this.#pausedUntil > now) return this.#pause(error, this.#pausedUntil - now);
    const pauseMs = Math.min(firstPauseMs * 2 ** this.#pauses, longestPauseMs);
    this.#pauses += 1;
    return this.#pause(error, pauseMs);
  }

  #pause(error: HostError, pauseMs: number): HostError {
    this.#pausedUntil = Math.max(this.#pausedUntil, Date.now() + pauseMs);
    return new HostError('limited', error.status, error.message, pauseMs);
  }

  async #enter(): Promise<void> {
    if (this.#active < this.#limits.concurrency) {
      this.#active += 1;
      return;
    }
    if (this.#waiting.length >= this.#limits.mostWaiting)
      throw new HostError(
        'limited',
        0,
        'too many calls to the host are waiting',
        this.#limits.writeSpacingMs,
      );
    await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  /** Hands the place to the call that waited longest. */
  #leave(): void {
    const next = this.#waiting.shift();
    if (next) next();
    else this.#active -= 1;
  }

  async #spaceWrite(signal: AbortSignal | undefined): Promise<void> {
    const now = Date.now();
    const earliest = now - (this.#limits.writeBurst - 1) * this.#limits.writeSpacingMs;
    const dueAt = Math.max(this.#nextWriteAt, earliest);
    const waitMs = dueAt - now;
    if (waitMs <= this.#limits.longestWaitMs) this.#nextWriteAt = dueAt + this.#limits.writeSpacingMs;
    await this.#wait(waitMs, signal);
  }

  async #wait(waitMs: number, signal: AbortSignal | undefined): Promise<void> {
    if (waitMs <= 0) return;
    if (waitMs > this.#limits.longestWaitMs)
      throw new HostError('limited', 0, 'the host asked to wait before further calls', waitMs);
    await delay(waitMs, undefined, { ...(signal && { signal }) }).catch(() => {
      throw new HostError('unknown', 0, 'the call was canceled before it started');
    });
  }
}
