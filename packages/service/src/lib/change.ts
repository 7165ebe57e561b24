/** The longest delay of a timer. */
const maxTimerMs = 2 ** 31 - 1;

/** An event to wait for, which may have happened before the wait begins. */
export class Change {
  #isDue = false;
  #wake: () => void = () => {};

  happened(): void {
    this.#isDue = true;
    this.#wake();
  }

  /** Resolves when it has happened since the last call, or after the time. */
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
