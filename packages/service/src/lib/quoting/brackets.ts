/** The brackets of links and images, and what is hidden between them. */
export class Brackets {
  readonly hidden: (readonly [from: number, to: number])[] = [];
  readonly #hasDefinitions: boolean;
  readonly #open: { readonly from: number; readonly isHidden: boolean }[] = [];
  #lastClosed = -3;

  constructor(hasDefinitions: boolean) {
    this.#hasDefinitions = hasDefinitions;
  }

  open(from: number, isImage: boolean): void {
    const isName = this.#hasDefinitions && this.#lastClosed === from - 2;
    this.#open.push({ from, isHidden: isImage || isName });
  }

  closeAll(at: number): void {
    while (this.#open.length > 0) this.close(at);
  }

  /** Whether a bracket was open. */
  close(at: number): boolean {
    const opened = this.#open.pop();
    if (!opened) return false;
    this.#lastClosed = at;
    if (!opened.isHidden) return true;
    // What is hidden inside of this is part of it.
    while ((this.hidden.at(-1)?.[0] ?? -1) >= opened.from) this.hidden.pop();
    this.hidden.push([opened.from, at]);
    return true;
  }
}
