/** Calls when nothing was seen for so long; never while `isHeldUp` says that nothing could come. */
export class Watchdog {
  readonly #timer: NodeJS.Timeout;

  constructor(stallMs: number, isHeldUp: () => boolean, onStall: () => void) {
    this.#timer = setTimeout(() => {
      if (isHeldUp()) this.#timer.refresh();
      else onStall();
    }, stallMs);
  }

  seen(): void {
    this.#timer.refresh();
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}
