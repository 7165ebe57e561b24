import { Progress } from './progress.ts';

const lookMs = 250;
/** Where nobody watches, a short trouble is no news. */
const newsMs = 3_000;

/** What is waited for, for how long already, and what is in the way. Seen in a terminal, once it takes long. */
export class Waiting {
  readonly #progress = new Progress();
  #trouble = '';
  #troubledSinceMs: number | undefined;
  #isTold = false;

  async during<T>(what: string, work: Promise<T>): Promise<T> {
    const beganMs = Date.now();
    const timer = setInterval(() => {
      const seconds = Math.round((Date.now() - beganMs) / 1000);
      this.#progress.show(() => `${what} ${seconds}s${this.#trouble && ` (${this.#trouble})`}`);
    }, lookMs);
    try {
      return await work;
    } finally {
      clearInterval(timer);
      this.end();
    }
  }

  /** The service is tried again: seen as it passes in a terminal, told once in a log. */
  trouble(message: string): void {
    this.#trouble = `${message}; trying again`;
    this.#troubledSinceMs ??= Date.now();
    if (process.stderr.isTTY) this.#progress.show(() => this.#trouble);
    else if (!this.#isTold && Date.now() - this.#troubledSinceMs >= newsMs) {
      this.#isTold = true;
      process.stderr.write(`muster: ${this.#trouble}\n`);
    }
  }

  /** Makes room for a line of the command. */
  clear(): void {
    this.#progress.clear();
  }

  end(): void {
    this.#trouble = '';
    this.#troubledSinceMs = undefined;
    this.#isTold = false;
    this.clear();
  }
}
