/**
 * How long the runner may act. The service counts from the poll it last saw; the runner counts from the moment it
 * sent that poll, which is earlier, and stops a margin before the end, because stopping takes a while. Its clock is
 * monotonic: nobody can set it back.
 */
export class Lease {
  readonly #onLost: () => void;
  #endsAt = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(onLost: () => void) {
    this.#onLost = onLost;
  }

  static now(): number {
    return performance.now();
  }

  renew(sentAt: number, leaseMs: number): void {
    // The process stood still past the end, and its timer has not come yet: the lease was lost all the same.
    if (this.#endsAt > 0 && !this.holds()) this.#lose();
    this.#endsAt = sentAt + leaseMs - Math.min(leaseMs / 2, Math.max(leaseMs / 5, 200));
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#lose(), Math.max(0, this.#endsAt - Lease.now()));
  }

  /** A process that was stopped and goes on asks this before its timers had a chance. */
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
