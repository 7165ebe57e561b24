import type { EventEmitter } from 'node:events';

interface Waiter {
  readonly amount: number;
  readonly admit: () => void;
}

export type Release = () => void;

/**
 * So much of something (bytes, processes, lookups) for so many requests. Whoever finds too little left waits, in order
 * of arrival, without having read anything: what a request can't have yet stays in the socket of its sender.
 */
export class Capacity {
  readonly total: number;
  #free: number;
  readonly #waiting = new Set<Waiter>();

  constructor(total: number) {
    this.total = total;
    this.#free = total;
  }

  get free(): number {
    return this.#free;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /** `holder` stops waiting when it closes, and gets undefined. What was taken is kept until it is released. */
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
