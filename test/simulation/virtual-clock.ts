interface Event {
  readonly atMs: number;
  readonly order: number;
  readonly callback: () => void;
  isCanceled: boolean;
}

const realSetImmediate = globalThis.setImmediate;
/** Resolves when all promise callbacks that follow from the last event have run. */
const settled = (): Promise<void> => new Promise((resolve) => realSetImmediate(() => resolve()));

/**
 * Time that passes only from one event to the next. While it is installed, timers, `Date.now` and `performance.now` of the
 * code under test belong to it, so a simulated minute takes as long as what happens in it.
 */
export class VirtualClock {
  nowMs: number;
  steps = 0;
  #order = 0;
  readonly #heap: Event[] = [];
  #isoMs = -1;
  #iso = '';

  constructor(startMs: number) {
    this.nowMs = startMs;
  }

  /** ISO 8601, as the store's clock tells it. */
  get now(): string {
    if (this.#isoMs !== this.nowMs) {
      this.#isoMs = this.nowMs;
      this.#iso = new Date(this.nowMs).toISOString();
    }
    return this.#iso;
  }

  after(ms: number, callback: () => void): Event {
    this.#order += 1;
    const event = { atMs: this.nowMs + Math.max(0, ms), order: this.#order, callback, isCanceled: false };
    this.#push(event);
    return event;
  }

  delay(ms: number): Promise<void> {
    return new Promise((resolve) => this.after(ms, resolve));
  }

  /** Lets the next event callback. False: there is none, or the next comes after `untilMs`. */
  async step(untilMs: number): Promise<boolean> {
    let event = this.#heap[0];
    while (event?.isCanceled) {
      this.#pop();
      event = this.#heap[0];
    }
    if (!event || event.atMs > untilMs) return false;
    this.#pop();
    this.nowMs = event.atMs;
    this.steps += 1;
    event.callback();
    await settled();
    return true;
  }

  /** Puts this clock in the place of the real ones; returns how to put those back. */
  install(): () => void {
    const real = {
      setTimeout: globalThis.setTimeout,
      clearTimeout: globalThis.clearTimeout,
      setInterval: globalThis.setInterval,
      clearInterval: globalThis.clearInterval,
    };
    const [realNow, realMonotonic] = [Date.now, performance.now];
    const cancel = (event: unknown): void => {
      if (event) (event as Event).isCanceled = true;
    };
    Object.assign(globalThis, {
      setTimeout: (callback: () => void, ms = 0) => this.after(ms, callback),
      clearTimeout: cancel,
      setInterval: () => null,
      clearInterval: cancel,
    });
    Date.now = () => this.nowMs;
    performance.now = () => this.nowMs;
    return () => {
      Object.assign(globalThis, real);
      Date.now = realNow;
      performance.now = realMonotonic;
    };
  }

  #push(event: Event): void {
    const heap = this.#heap;
    let i = heap.push(event) - 1;
    while (i > 0) {
      const parent = (i - 1) >> 1;
      if (isBefore(heap[parent] as Event, event)) break;
      heap[i] = heap[parent] as Event;
      i = parent;
    }
    heap[i] = event;
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (!last || heap.length === 0) return;
    let i = 0;
    for (;;) {
      let child = 2 * i + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && isBefore(heap[child + 1] as Event, heap[child] as Event)) child += 1;
      if (isBefore(last, heap[child] as Event)) break;
      heap[i] = heap[child] as Event;
      i = child;
    }
    heap[i] = last;
  }
}

const isBefore = (a: Event, b: Event): boolean => a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);
