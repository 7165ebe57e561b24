import type { Section } from './arrange.ts';

/** Heights in pixels. */
export interface Sizes {
  readonly row: number;
  readonly header: number;
}

export interface PositionedSection extends Section {
  /** The index of its first row in the whole list. */
  readonly first: number;
  /** From the top of the list. */
  readonly top: number;
  readonly height: number;
}

/** A range of rows; `to` is exclusive. */
interface RowRange {
  readonly from: number;
  readonly to: number;
}

/** The position of every row. All rows have the same height, so nothing is measured. */
export class Layout {
  readonly rows: readonly string[];
  readonly sections: readonly PositionedSection[];
  readonly #sizes: Sizes;
  readonly #firstRows: ReadonlySet<number>;
  /** Built on demand: in a busy fleet most layouts are replaced before they need it. */
  #indexes: ReadonlyMap<string, number> | null = null;

  constructor(sections: readonly Section[], sizes: Sizes) {
    this.#sizes = sizes;
    this.rows = sections.flatMap(({ pages }) => pages);
    let [first, top] = [0, 0];
    this.sections = sections.map((section) => {
      const positioned = {
        ...section,
        first,
        top,
        height: sizes.header + section.pages.length * sizes.row,
      };
      first += section.pages.length;
      top += positioned.height;
      return positioned;
    });
    this.#firstRows = new Set(this.sections.map((section) => section.first));
  }

  /** Undefined for an agent that is not in the list. */
  indexOf(page: string | null): number | undefined {
    if (page === null) return undefined;
    this.#indexes ??= new Map(this.rows.map((row, index) => [row, index]));
    return this.#indexes.get(page);
  }

  /** From the top of the list. */
  topOf(index: number): number {
    const section = this.sections.findLast(({ first }) => first <= index);
    return section ? section.top + this.#sizes.header + (index - section.first) * this.#sizes.row : 0;
  }

  /** The height of a row. The first row of a section includes the section's header. */
  heightOf(index: number): number {
    return this.#sizes.row + (this.#firstRows.has(index) ? this.#sizes.header : 0);
  }

  /** The rows that are completely between two heights. */
  rowsWithin(top: number, bottom: number): RowRange {
    return { from: this.#firstRowBelow(top), to: this.#firstRowBelow(bottom - this.#sizes.row + 1) };
  }

  #firstRowBelow(height: number): number {
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
 * How far to scroll so that the given rows stay where they were: the median of their movements, because single rows may
 * have moved anywhere.
 */
export function scrollShift(before: Layout, after: Layout, { from, to }: RowRange): number {
  const shifts: number[] = [];
  for (let index = from; index < to; index += 1) {
    const now = after.indexOf(before.rows[index] ?? null);
    if (now !== undefined) shifts.push(after.topOf(now) - before.topOf(index));
  }
  shifts.sort((a, b) => a - b);
  return shifts[shifts.length >> 1] ?? 0;
}
