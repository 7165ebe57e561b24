/** Thrown when the work of a tenant already fills its share of a queue. */
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

  /** Takes all of these places or none. False: the tenant's share is too small. */
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

interface Turns {
  running: number;
  readonly waiting: (() => void)[];
}

const maxWaiting = 1000;

/** Limits how much work of one tenant runs at a time. The rest waits in order; other tenants are not affected. */
export class TenantTurns {
  readonly #maxRunning: number;
  readonly #workName: string;
  readonly #turns = new Map<number, Turns>();

  /** `workName` is a plural. */
  constructor(maxRunning: number, workName: string) {
    this.#maxRunning = maxRunning;
    this.#workName = workName;
  }

  async run<T>(tenant: number, work: () => Promise<T>): Promise<T> {
    const turns = this.#turns.get(tenant) ?? { running: 0, waiting: [] };
    this.#turns.set(tenant, turns);
    if (turns.running < this.#maxRunning) turns.running += 1;
    else if (turns.waiting.length < maxWaiting)
      await new Promise<void>((resolve) => turns.waiting.push(resolve));
    else throw new OverloadedError(`too many ${this.#workName} of this tenant are waiting; try again`);
    try {
      return await work();
    } finally {
      // The next one takes over the place.
      const next = turns.waiting.shift();
      if (next) next();
      else turns.running -= 1;
      if (turns.running === 0) this.#turns.delete(tenant);
    }
  }
}
