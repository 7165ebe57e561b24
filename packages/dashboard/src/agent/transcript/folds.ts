/** What is unfolded, kept while its row is out of sight and so out of the page. */
export class Folds {
  readonly #open = new Set<string>();
  readonly #listeners = new Set<() => void>();

  isOpen(name: string): boolean {
    return this.#open.has(name);
  }

  set(name: string, isOpen: boolean): void {
    if (isOpen) this.#open.add(name);
    else this.#open.delete(name);
    for (const listener of this.#listeners) listener();
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };
}
