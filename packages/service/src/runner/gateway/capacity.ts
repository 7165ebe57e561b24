import type { EventEmitter } from 'node:events';

interface Waiter {
  readonly amount: number;
  readonly admit: () => void;
}

export type Release = () => void;

export type Holder = EventEmitter & { readonly destroyed: boolean };

/**
 * A limited amount (of bytes, processes, lookups) that requests share. A request waits, in order of arrival, until there
 * is enough for it. It has not been read by then: its bytes stay in the socket.
 */
export class Capacity {
  #free: number;
  readonly #shared: Capacity | undefined;
  readonly #waiting = new Set<Waiter>();

  /** What is taken is taken from `shared` as well. */
  constructor(total: number, shared?: Capacity) {
    this.#free = total;
    this.#shared = shared;
  }

  /** Undefined when `holder` closes while it waits. Otherwise the amount is taken until it is released. */
  async take(amount: number, holder: Holder): Promise<Release | undefined> {
    const release = await this.#takeOwn(amount, holder);
    if (!release || !this.#shared) return release;
    const releaseShared = await this.#shared.take(amount, holder);
    if (!releaseShared) return void release();
    return () => {
      releaseShared();
      release();
    };
  }

  #takeOwn(amount: number, holder: Holder): Promise<Release | undefined> {
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
