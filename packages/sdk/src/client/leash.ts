/**
 * What holds one try: the caller's signal, and a clock against connections that say nothing any more. `renew` starts
 * the clock anew, `rest` stops it while nobody waits for the wire.
 */
export class Leash {
  readonly #controller = new AbortController();
  readonly #outer: AbortSignal | undefined;
  readonly #ms: number | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(outer: AbortSignal | undefined, ms: number | undefined) {
    outer?.throwIfAborted();
    this.#outer = outer;
    this.#ms = ms;
    outer?.addEventListener('abort', this.#pull);
    this.renew();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  readonly renew = (): void => {
    this.rest();
    if (this.#ms === undefined || this.#ms === Number.POSITIVE_INFINITY) return;
    this.#timer = setTimeout(
      () => this.#controller.abort(new Error(`nothing came for ${this.#ms} ms`)),
      this.#ms,
    );
  };

  rest(): void {
    clearTimeout(this.#timer);
  }

  release(): void {
    this.rest();
    this.#outer?.removeEventListener('abort', this.#pull);
  }

  /** Lets go, and closes what is still open. */
  cut(): void {
    this.release();
    this.#controller.abort();
  }

  readonly #pull = (): void => this.#controller.abort(this.#outer?.reason);
}
