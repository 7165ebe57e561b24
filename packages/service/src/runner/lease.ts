import { backoffMs } from './retry.ts';

const maxWaitMs = 10_000;
const minPauseMs = 100;

/**
 * How long the runner may act. The service counts from the last poll, or report, that it received; the runner counts from
 * when it sent that, which is earlier, and stops a margin before the end, because stopping takes time. Its clock is
 * monotonic.
 */
export class Lease {
  readonly #onLost: () => void;
  #sentAt = 0;
  #endsAt = 0;
  #leaseMs = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(onLost: () => void) {
    this.#onLost = onLost;
  }

  static now(): number {
    return performance.now();
  }

  renew(sentAt: number, leaseMs: number): void {
    // If the process was suspended past the end, the lease was lost although its timer has not fired yet.
    if (this.#endsAt > 0 && !this.holds()) this.#lose();
    // The reply to an earlier request may arrive later.
    if (sentAt < this.#sentAt) return;
    this.#sentAt = sentAt;
    this.#leaseMs = leaseMs;
    this.#endsAt = sentAt + leaseMs - Math.min(leaseMs / 2, Math.max(leaseMs / 8, 200));
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#lose(), this.leftMs);
  }

  get leftMs(): number {
    return Math.max(0, this.#endsAt - Lease.now());
  }

  /**
   * How long the service may hold the next poll. A lease counts from the sending of the last poll that was answered. If the
   * reply to the next one is lost, two waits have passed, and what is left must last for an outage of half a lease and a
   * poll after it.
   */
  get pollWaitMs(): number {
    return Math.min(maxWaitMs, Math.floor(this.#leaseMs / 8));
  }

  /** Between failed polls; shorter when the lease is about to end. */
  pauseMs(failures: number): number {
    const mostMs = this.leftMs / 8 || maxWaitMs;
    return Math.min(backoffMs(failures), Math.max(minPauseMs, mostMs));
  }

  /** Also right in a process that was suspended and whose timers have not fired yet. */
  holds(): boolean {
    return Lease.now() < this.#endsAt;
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#endsAt = 0;
  }

  #lose(): void {
    this.end();
    this.#onLost();
  }
}
