/** A bucket per key that refills by the second; off when the rate is 0. */
export class RateLimit {
  readonly #perSecond: number;
  readonly #buckets = new Map<string, { tokens: number; atMs: number }>();

  constructor(perSecond: number) {
    this.#perSecond = perSecond;
  }

  /** Takes a token, or says how many seconds until there is one. */
  take(keyId: string, nowMs: number = performance.now()): number {
    if (this.#perSecond <= 0) return 0;
    const full = Math.max(1, this.#perSecond);
    const bucket = this.#buckets.get(keyId) ?? { tokens: full, atMs: nowMs };
    const refilled = Math.min(full, bucket.tokens + ((nowMs - bucket.atMs) / 1000) * this.#perSecond);
    const isAllowed = refilled >= 1;
    if (this.#buckets.size > 10_000) this.#buckets.clear();
    this.#buckets.set(keyId, { tokens: isAllowed ? refilled - 1 : refilled, atMs: nowMs });
    return isAllowed ? 0 : (1 - refilled) / this.#perSecond;
  }
}
