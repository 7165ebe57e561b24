import type { Fleet } from '../live/fleet.ts';
import type { SeenAgents } from '../live/model/seen-agents.ts';
import { type Arrangement, arrange, isSameOrder, type Section, type Summary } from './arrange.ts';
import { type Filter, noFilter } from './filter.ts';

export interface RosterView {
  readonly sections: readonly Section[];
  readonly summary: Summary;
  /** The order on the page is not the newest: it is held while somebody points at it. */
  readonly isBehind: boolean;
  readonly isLoaded: boolean;
  readonly error: unknown;
}

type Followed = Pick<Fleet, 'entries' | 'state' | 'subscribe'>;

/** Nobody reads faster than this, and the rows themselves change at once. */
const everyMs = 250;
/** Of an order that is held only the counts can be seen. */
const heldEveryMs = 1_000;
/** So many times as long as it took, nothing is arranged again: the larger the fleet, the calmer. */
const restFactor = 10;
/** Time alone changes the order too: whoever is silent sinks. */
const idleMs = 10_000;
const holdMs = 2_000;

/**
 * The live order of the list. A row that moves away in the moment in which it is clicked opens the wrong agent; so the
 * order is held while the pointer moves over the list, while the list is scrolled and while the marker is moved by keys,
 * and two seconds longer. What a row says is never held, and neither are the counts. Once nobody touches the list the
 * order follows by itself.
 */
export class Roster {
  readonly #fleet: Followed;
  readonly #seen: SeenAgents;
  readonly #listeners = new Set<() => void>();
  #filter = noFilter;
  #view: RosterView | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #dueMs = Number.POSITIVE_INFINITY;
  #arrangedMs = 0;
  #tookMs = 0;
  #heldUntilMs = 0;

  constructor(fleet: Followed, seen: SeenAgents) {
    this.#fleet = fleet;
    this.#seen = seen;
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    const unfollow = [this.#fleet.subscribe(this.#followSoon), this.#seen.subscribe(this.#followSoon)];
    this.#followSoon();
    return () => {
      this.#listeners.delete(listener);
      for (const leave of unfollow) leave();
      if (this.#listeners.size === 0) this.#rest();
    };
  };

  /** Another filter is another list, which is there at once. */
  view(filter: Filter): RosterView {
    if (this.#view && filter === this.#filter) return this.#view;
    this.#filter = filter;
    this.#view = this.#look(this.#arranged());
    return this.#view;
  }

  /** Somebody is busy with the list. */
  hold(): void {
    this.#heldUntilMs = Date.now() + holdMs;
  }

  /** The newest order, now: the reader wants it, or has just changed it. */
  settle(): void {
    this.#heldUntilMs = 0;
    this.#follow();
  }

  readonly #followSoon = (): void => this.#followAt(this.#arrangedMs + this.#restMs());

  #restMs(): number {
    const isHeld = Date.now() < this.#heldUntilMs;
    return Math.max(isHeld ? heldEveryMs : everyMs, restFactor * this.#tookMs);
  }

  #followAt(atMs: number): void {
    if (atMs >= this.#dueMs) return;
    clearTimeout(this.#timer);
    this.#dueMs = atMs;
    this.#timer = setTimeout(this.#follow, Math.max(0, atMs - Date.now()));
  }

  #rest(): void {
    clearTimeout(this.#timer);
    this.#dueMs = Number.POSITIVE_INFINITY;
  }

  readonly #follow = (): void => {
    this.#rest();
    const next = this.#arranged();
    const before = this.#view;
    const isSame = before !== null && isSameOrder(before.sections, next.sections);
    const isHeld = before !== null && !isSame && Date.now() < this.#heldUntilMs;
    this.#view = this.#look({
      ...next,
      // The same order is the same array, so that the list is not drawn again for nothing.
      sections: before && (isSame || isHeld) ? before.sections : next.sections,
    });
    if (isHeld) this.#view = { ...this.#view, isBehind: true };
    this.#followAt(isHeld ? this.#heldUntilMs : this.#arrangedMs + idleMs);
    for (const listener of this.#listeners) listener();
  };

  #arranged(): Arrangement {
    this.#arrangedMs = Date.now();
    const isSeen = this.#seen.isSeen.bind(this.#seen);
    const startMs = performance.now();
    const arrangement = arrange(this.#fleet.entries(), isSeen, this.#filter, this.#arrangedMs);
    this.#tookMs = performance.now() - startMs;
    return arrangement;
  }

  #look({ sections, summary }: Arrangement): RosterView {
    const { isLoaded, error } = this.#fleet.state;
    return { sections, summary, isBehind: false, isLoaded, error };
  }
}
