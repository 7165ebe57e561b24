import type { EventEmitter } from 'node:events';

interface Waiter {
  readonly amount: number;
  readonly admit: () => void;
}

export type Release = () => void;

/**
 * A limited amount (of bytes, processes, lookups) that requests share. A request waits, in order of arrival, until there
 * is enough for it. It has not been read by then: its bytes stay in the socket.
 */
export class Capacity {
  #free: number;
  readonly #waiting = new Set<Waiter>();

  constructor(total: number) {
    this.#free = total;
  }

  get free(): number {
    return this.#free;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /** Undefined when `holder` closes while it waits. Otherwise the amount is taken until it is released. */
  take(amount: number, holder: EventEmitter & { readonly destroyed: boolean }): Promise<Release | undefined> {
    if (holder.destroyed) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      const leave = (): void => {
        this.#waiting.delete(waiter);
        this.#admit();
        resolve(undefined);
      };
      const waiter: Waiter = {
        amount,
        admit: () => {
          holder.off('close', leave);
          resolve(this.#release(amount));
        },
      };
      holder.once('close', leave);
      this.#waiting.add(waiter);
      this.#admit();
    });
  }

  #release(amount: number): Release {
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      this.#free += amount;
      this.#admit();
    };
  }

  #admit(): void {
    for (const waiter of this.#waiting) {
      if (waiter.amount > this.#free) return;
      this.#waiting.delete(waiter);
      this.#free -= waiter.amount;
      waiter.admit();
    }
  }
}
