/** What a caller gets when its tenant's work already fills its share of a queue. */
export class OverloadedError extends Error {
  override readonly name = 'OverloadedError';
}

/**
 * Places that tenants share. Each tenant may hold as many as are still free: one alone gets half of them, two get a
 * third each, and so on. However many a tenant asks for, there is always room for the next tenant.
 */
export class FairShare {
  readonly #held = new Map<number, number>();
  #free: number;

  constructor(places: number) {
    this.#free = places;
  }

  /** Takes a place. False: this tenant holds its share. */
  take(tenant: number): boolean {
    const held = this.#held.get(tenant) ?? 0;
    if (held >= this.#free) return false;
    this.#held.set(tenant, held + 1);
    this.#free -= 1;
    return true;
  }

  release(tenant: number): void {
    const held = this.#held.get(tenant) ?? 0;
    if (held > 1) this.#held.set(tenant, held - 1);
    else this.#held.delete(tenant);
    this.#free += 1;
  }
}
