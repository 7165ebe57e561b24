import type { ReportItem } from '@muster/sdk/contract';
import type { HarnessListener } from '../../harness/harness.ts';

export type SetupListener = Pick<HarnessListener, 'item' | 'action'>;

/** Of those who come while a copy is being made. An item is at most a few KiB. */
const keptItems = 200;

type Outcome =
  | { readonly type: 'made' }
  | { readonly type: 'aborted' }
  | { readonly type: 'failed'; readonly error: unknown };

/** A copy that is being made. Those who wait for it get everything that its commands print. */
export class CopyBeingMade {
  /** Never rejects. */
  readonly done: Promise<Outcome>;
  /** Of the caller that makes it. */
  readonly signal: AbortSignal;
  readonly #items: ReportItem[] = [];
  readonly #listeners = new Set<SetupListener>();
  #action = '';

  constructor(make: (listener: SetupListener) => Promise<void>, signal: AbortSignal) {
    const listener: SetupListener = {
      item: (item) => {
        if (this.#items.length < keptItems) this.#items.push(item);
        for (const one of this.#listeners) one.item(item);
      },
      action: (action) => {
        this.#action = action;
        for (const one of this.#listeners) one.action(action);
      },
    };
    this.signal = signal;
    this.done = make(listener).then(
      () => ({ type: 'made' }) as const,
      (error: unknown) => (signal.aborted ? { type: 'aborted' } : { type: 'failed', error }),
    );
  }

  follow(listener: SetupListener): Promise<Outcome> {
    for (const item of this.#items) listener.item(item);
    if (this.#action) listener.action(this.#action);
    this.#listeners.add(listener);
    return this.done;
  }

  unfollow(listener: SetupListener): void {
    this.#listeners.delete(listener);
  }
}
