const patienceMs = 1_000;
const pauseMs = 200;

/** One line on standard error that changes while something takes long; nothing where nobody sees it. */
export class Progress {
  readonly #isSeen = process.stderr.isTTY === true;
  #nextMs = Date.now() + patienceMs;
  #isShown = false;

  show(text: () => string): void {
    if (!this.#isSeen || Date.now() < this.#nextMs) return;
    this.#nextMs = Date.now() + pauseMs;
    this.#isShown = true;
    process.stderr.write(`\r\x1b[K${text()}`);
  }

  clear(): void {
    if (this.#isShown) process.stderr.write('\r\x1b[K');
    this.#isShown = false;
  }
}
