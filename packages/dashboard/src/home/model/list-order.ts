import type { AgentEntry } from '@muster/sdk';
import { Listeners } from '../../parts/model/listeners.ts';
import {
  type Arrangement,
  arrange,
  isSameOrder,
  type Section,
  type Summary,
  type Viewer,
} from './arrange.ts';
import { type Filter, noFilter } from './filter.ts';

interface ListOrderView {
  readonly sections: readonly Section[];
  readonly summary: Summary;
  /** The order on the page is not the newest, because the user is busy with the list. */
  readonly isBehind: boolean;
  readonly isLoaded: boolean;
  readonly error: unknown;
}

/** The part of the fleet that the order follows. */
interface AgentSource {
  readonly entries: () => Iterable<readonly [page: string, AgentEntry]>;
  readonly state: { readonly isLoaded: boolean; readonly error: unknown };
  readonly subscribe: (listener: () => void) => () => void;
}

/** Fast enough for a reader; the rows themselves update immediately. */
const updateMs = 250;
/** While the order is held, only the counts change on the page. */
const heldUpdateMs = 1_000;
/** The pause after an update is at least this many times its duration: large fleets update less often. */
const pauseFactor = 10;
/** The order changes without changes of the fleet: silent agents move down. */
const idleUpdateMs = 10_000;
const holdMs = 2_000;

/**
 * The live order of the list. If a row moved away while the user clicks it, the click would open the wrong agent. So the
 * order is held while the pointer moves over the list, while the list is scrolled, while the selection moves by keyboard,
 * and for two seconds longer. The contents of the rows and the counts are never held.
 */
export class ListOrder {
  readonly #agents: AgentSource;
  readonly #viewer: Viewer;
  readonly #listeners = new Listeners();
  #filter = noFilter;
  #view: ListOrderView | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #dueMs = Number.POSITIVE_INFINITY;
  #arrangedMs = 0;
  #durationMs = 0;
  #heldUntilMs = 0;

  constructor(agents: AgentSource, viewer: Viewer) {
    this.#agents = agents;
    this.#viewer = viewer;
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    const unsubscribe = [this.#listeners.subscribe(listener), this.#agents.subscribe(this.#updateSoon)];
    this.#updateSoon();
    return () => {
      for (const end of unsubscribe) end();
      if (this.#listeners.count === 0) this.#cancelUpdate();
    };
  };

  /** A new filter is applied immediately. */
  view(filter: Filter): ListOrderView {
    if (this.#view && filter === this.#filter) return this.#view;
    this.#filter = filter;
    this.#view = this.#viewOf(this.#arrange());
    return this.#view;
  }

  /** The user is busy with the list. */
  hold(): void {
    this.#heldUntilMs = Date.now() + holdMs;
  }

  /** Shows the newest order now: the user asked for it or has just changed it. */
  updateNow(): void {
    this.#heldUntilMs = 0;
    this.#update();
  }

  readonly #updateSoon = (): void => this.#updateAt(this.#arrangedMs + this.#pauseMs());

  #pauseMs(): number {
    // The first agents.
    if (this.#view?.summary.totals.everyone === 0) return 0;
    const isHeld = Date.now() < this.#heldUntilMs;
    return Math.max(isHeld ? heldUpdateMs : updateMs, pauseFactor * this.#durationMs);
  }

  #updateAt(atMs: number): void {
    if (atMs >= this.#dueMs) return;
    clearTimeout(this.#timer);
    this.#dueMs = atMs;
    this.#timer = setTimeout(this.#update, Math.max(0, atMs - Date.now()));
  }

  #cancelUpdate(): void {
    clearTimeout(this.#timer);
    this.#dueMs = Number.POSITIVE_INFINITY;
  }

  readonly #update = (): void => {
    this.#cancelUpdate();
    const next = this.#arrange();
    const before = this.#view;
    const isSame = before !== null && isSameOrder(before.sections, next.sections);
    const isHeld = before !== null && !isSame && Date.now() < this.#heldUntilMs;
    this.#view = this.#viewOf({
      ...next,
      // The same array for the same order, so that the list is not rendered again.
      sections: before && (isSame || isHeld) ? before.sections : next.sections,
    });
    if (isHeld) this.#view = { ...this.#view, isBehind: true };
    this.#updateAt(isHeld ? this.#heldUntilMs : this.#arrangedMs + idleUpdateMs);
    this.#listeners.notify();
  };

  #arrange(): Arrangement {
    this.#arrangedMs = Date.now();
    const startMs = performance.now();
    const arrangement = arrange(this.#agents.entries(), this.#filter, this.#viewer, this.#arrangedMs);
    this.#durationMs = performance.now() - startMs;
    return arrangement;
  }

  #viewOf({ sections, summary }: Arrangement): ListOrderView {
    const { isLoaded, error } = this.#agents.state;
    return { sections, summary, isBehind: false, isLoaded, error };
  }
}
