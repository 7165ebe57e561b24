const mostKnown = 1000;

/**
 * Which providers and git hosts agents may wait for on this runner. A run that reaches one of them reports it, and the
 * service retries some of the agents that wait. It says when none waits; then it is reported again only after a failure.
 * After a start nothing is known, because agents may have begun to wait before.
 */
export class Outages {
  readonly #awaitedByNone = new Set<string>();

  mayBeAwaited(name: string): boolean {
    return !this.#awaitedByNone.has(name);
  }

  failed(name: string): void {
    this.#awaitedByNone.delete(name);
  }

  /** After a report that these were reached. The reply names what agents still wait for. */
  reported(names: readonly string[], awaited: readonly string[]): void {
    if (this.#awaitedByNone.size > mostKnown) this.#awaitedByNone.clear();
    for (const name of names) if (!awaited.includes(name)) this.#awaitedByNone.add(name);
  }
}
