/** What a caller gets when its tenant's work already fills its share of a queue. */
export class OverloadedError extends Error {
  override readonly name = 'OverloadedError';
}

/**
 * Places, or bytes, that tenants share. Each tenant may hold as many as are still free: one alone gets half of them, two
 * get a third each, and so on. However many a tenant asks for, there is always room for the next tenant.
 */
export class FairShare {
  readonly #held = new Map<number, number>();
  #free: number;

  constructor(places: number) {
    this.#free = places;
  }

  /** Takes so many places, or none. False: they are beyond this tenant's share. */
  take(tenant: number, count = 1): boolean {
    const held = (this.#held.get(tenant) ?? 0) + count;
    if (held > this.#free) return false;
    this.#held.set(tenant, held);
    this.#free -= count;
    return true;
  }

  release(tenant: number, count = 1): void {
    const held = (this.#held.get(tenant) ?? 0) - count;
    if (held > 0) this.#held.set(tenant, held);
    else this.#held.delete(tenant);
    this.#free += count;
  }
}
