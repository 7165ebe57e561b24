import type { Section } from './arrange.ts';

/** Heights in pixels. */
export interface Sizes {
  readonly row: number;
  readonly header: number;
}

export interface LaidSection extends Section {
  /** The place of its first row among all rows. */
  readonly first: number;
  /** From the top of the list. */
  readonly top: number;
  readonly height: number;
}

/** Where everything stands. All rows are equally high, so nothing has to be measured. */
export class Layout {
  readonly rows: readonly string[];
  readonly sections: readonly LaidSection[];
  readonly #sizes: Sizes;
  readonly #firsts: ReadonlySet<number>;
  /** Made when somebody asks: most layouts of a busy fleet are gone before. */
  #places: ReadonlyMap<string, number> | null = null;

  constructor(sections: readonly Section[], sizes: Sizes) {
    this.#sizes = sizes;
    this.rows = sections.flatMap(({ pages }) => pages);
    let [first, top] = [0, 0];
    this.sections = sections.map((section) => {
      const laid = { ...section, first, top, height: sizes.header + section.pages.length * sizes.row };
      first += section.pages.length;
      top += laid.height;
      return laid;
    });
    this.#firsts = new Set(this.sections.map((section) => section.first));
  }

  /** Undefined for one that is not in the list. */
  placeOf(page: string | null): number | undefined {
    if (page === null) return undefined;
    this.#places ??= new Map(this.rows.map((one, at) => [one, at]));
    return this.#places.get(page);
  }

  /** From the top of the list. */
  topOf(place: number): number {
    const section = this.sections.findLast(({ first }) => first <= place);
    return section ? section.top + this.#sizes.header + (place - section.first) * this.#sizes.row : 0;
  }

  /** What a row takes of the list; the first of a section takes the header above it along. */
  sizeOf(place: number): number {
    return this.#sizes.row + (this.#firsts.has(place) ? this.#sizes.header : 0);
  }

  /** The rows that are wholly between two heights. */
  within(top: number, bottom: number): { readonly from: number; readonly to: number } {
    return { from: this.#firstAt(top), to: this.#firstAt(bottom - this.#sizes.row + 1) };
  }

  #firstAt(height: number): number {
    let [low, high] = [0, this.rows.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.topOf(middle) < height) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/**
 * How far the list must be scrolled so that what was in view stays where it was: as far as most of it has moved. One
 * row of it may have gone anywhere.
 */
export function driftOf(before: Layout, after: Layout, view: { from: number; to: number }): number {
  const drifts: number[] = [];
  for (let place = view.from; place < view.to; place += 1) {
    const now = after.placeOf(before.rows[place] ?? null);
    if (now !== undefined) drifts.push(after.topOf(now) - before.topOf(place));
  }
  drifts.sort((a, b) => a - b);
  return drifts[drifts.length >> 1] ?? 0;
}
