import { OverloadedError } from './fair-share.ts';

interface Turns {
  running: number;
  readonly waiting: (() => void)[];
}

const mostWaiting = 1000;

/** Lets so much work of one tenant run at a time. The rest waits, in order, and the other tenants do not. */
export class TenantTurns {
  readonly #mostRunning: number;
  readonly #what: string;
  readonly #turns = new Map<number, Turns>();

  /** `what` is the work, in the plural. */
  constructor(mostRunning: number, what: string) {
    this.#mostRunning = mostRunning;
    this.#what = what;
  }

  async run<T>(tenant: number, work: () => Promise<T>): Promise<T> {
    const turns = this.#turns.get(tenant) ?? { running: 0, waiting: [] };
    this.#turns.set(tenant, turns);
    if (turns.running < this.#mostRunning) turns.running += 1;
    else if (turns.waiting.length < mostWaiting)
      await new Promise<void>((resolve) => turns.waiting.push(resolve));
    else throw new OverloadedError(`too many ${this.#what} of this tenant are waiting; try again`);
    try {
      return await work();
    } finally {
      // Who is next takes over the place.
      const next = turns.waiting.shift();
      if (next) next();
      else turns.running -= 1;
      if (turns.running === 0) this.#turns.delete(tenant);
    }
  }
}
