/** The longest delay of a timer. */
const maxTimerMs = 2 ** 31 - 1;

/** Calls `work` with a signal that is set when `watch` calls back, and when the signal aborts. */
export async function withWakeSignal<T>(
  signal: AbortSignal,
  watch: (wake: () => void) => () => void,
  work: (wakeSignal: WakeSignal) => Promise<T>,
): Promise<T> {
  const wakeSignal = new WakeSignal();
  const wake = () => wakeSignal.happened();
  const unwatch = watch(wake);
  signal.addEventListener('abort', wake);
  try {
    return await work(wakeSignal);
  } finally {
    unwatch();
    signal.removeEventListener('abort', wake);
  }
}

/** An event to wait for, which may have happened before the wait begins. */
export class WakeSignal {
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
