/** The longest time that a timer can count. */
const maxTimerMs = 2 ** 31 - 1;

/** Something to wait for that may already have happened. */
export class Change {
  #isDue = false;
  #wake: () => void = () => {};

  happened(): void {
    this.#isDue = true;
    this.#wake();
  }

  /** Resolves when it has happened since the last call, or when the time is over. */
  async within(ms: number): Promise<void> {
    if (!this.#isDue && ms > 0) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, Math.min(ms, maxTimerMs));
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    this.#isDue = false;
  }
}
