/**
 * How long a draining runner keeps its runs: until `drainMs` have passed, then it hands them back. Until then it can take
 * runs again, if it drains only because the service asked for it.
 */
export class Drain {
  readonly #drainMs: number;
  readonly #handBack: () => void;
  #state: 'none' | 'asked' | 'own' | 'handing back' = 'none';
  #timer: NodeJS.Timeout | undefined;

  constructor(drainMs: number, handBack: () => void) {
    this.#drainMs = drainMs;
    this.#handBack = handBack;
  }

  begin(isAsked: boolean): void {
    if (this.#state === 'handing back') return;
    this.#state = isAsked && this.#state !== 'own' ? 'asked' : 'own';
    if (this.#drainMs) this.#timer ??= setTimeout(() => this.#end(), this.#drainMs);
    else this.#end();
  }

  /** Whether the runner takes runs, or could take some again. Without any, it ends. */
  capabilities(isServing: boolean, runs: number): readonly 'undrain'[] {
    return isServing || (this.#state === 'asked' && runs > 0) ? ['undrain'] : [];
  }

  /** Returns whether the runner takes runs again. */
  revert(): boolean {
    if (this.#state !== 'asked') return false;
    this.#state = 'none';
    this.close();
    return true;
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #end(): void {
    this.#state = 'handing back';
    this.#handBack();
  }
}
