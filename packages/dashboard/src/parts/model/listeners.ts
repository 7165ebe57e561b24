/** Subscribers of a store, in the form that `useSyncExternalStore` takes. */
export class Listeners {
  readonly #listeners = new Set<() => void>();

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  get count(): number {
    return this.#listeners.size;
  }

  notify(): void {
    for (const listener of this.#listeners) listener();
  }
}
