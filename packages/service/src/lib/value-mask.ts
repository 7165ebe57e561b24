import { setImmediate } from 'node:timers/promises';
import { addPlace, type Place, TextMatcher } from './text-matcher.ts';

/** Shorter values are words that occur by chance. */
const leastLength = 8;
const mark = '***';
/** To search this many bytes takes milliseconds. */
const chunkBytes = 256 * 1024;
/** More levels than any text of a harness or of a tool has. */
const mostLevels = 200;

/**
 * Replaces the values of secrets in texts by `***`. Of a value with several lines, each line is replaced too, and values
 * also where they are escaped as in JSON. Takes linear time, whatever the values and texts are.
 */
export class ValueMask {
  #matcher: TextMatcher | null = null;
  #hidden: readonly string[] = [];
  /** Of the values' bytes; made when it is needed. */
  #byteMatcher: TextMatcher | undefined;

  constructor(values: readonly string[] = []) {
    this.hide(values);
  }

  /** From now on these values are replaced, instead of those before. */
  hide(values: readonly string[]): void {
    this.#hidden = [...new Set(values.flatMap(spellings).filter((text) => text.length >= leastLength))];
    this.#matcher = this.#hidden.length > 0 ? new TextMatcher(this.#hidden) : null;
    this.#byteMatcher = undefined;
  }

  get isEmpty(): boolean {
    return this.#matcher === null;
  }

  /** Whether the bytes contain one of the values. Searches a part at a time, so that other work can go on. */
  async occursIn(bytes: Buffer): Promise<boolean> {
    if (this.isEmpty) return false;
    // One character per byte.
    this.#byteMatcher ??= new TextMatcher(this.#hidden.map((text) => Buffer.from(text).toString('latin1')));
    let node = 0;
    for (let from = 0; from < bytes.length; from += chunkBytes) {
      if (from > 0) await setImmediate();
      const found = this.#byteMatcher.search(bytes.toString('latin1', from, from + chunkBytes), node);
      if (found.places.length > 0) return true;
      node = found.node;
    }
    return false;
  }

  /** A text may have been cut: the beginning of a value at its end is replaced too. */
  text(text: string): string {
    if (!this.#matcher) return text;
    const { places, begun } = this.#matcher.search(text);
    return withMarks(text, withBegun(places, begun, text.length));
  }

  /** Every text in a JSON value, including the names of fields. */
  value<T>(value: T): T {
    return this.#matcher ? (this.#masked(value, mostLevels) as T) : value;
  }

  #masked(value: unknown, levelsLeft: number): unknown {
    if (typeof value === 'string') return this.text(value);
    if (typeof value !== 'object' || value === null) return value;
    if (levelsLeft === 0) return mark;
    if (Array.isArray(value)) return value.map((inner) => this.#masked(inner, levelsLeft - 1));
    return Object.fromEntries(
      Object.entries(value).map(([name, inner]) => [this.text(name), this.#masked(inner, levelsLeft - 1)]),
    );
  }

  /** For a text that arrives in parts, and that may be divided within a value. */
  stream(): MaskedStream {
    return new MaskedStream(this.#matcher);
  }
}

/** Holds back what may be the beginning of a value until the next part shows whether it is. */
export class MaskedStream {
  readonly #matcher: TextMatcher | null;
  #held = '';
  #places: Place[] = [];
  #begun = 0;
  #node = 0;

  constructor(matcher: TextMatcher | null) {
    this.#matcher = matcher;
  }

  add(text: string): string {
    if (!this.#matcher) return text;
    const { places, begun, node } = this.#matcher.search(text, this.#node);
    const before = this.#held.length;
    for (const [from, to] of places) addPlace(this.#places, [from + before, to + before]);
    this.#held += text;
    this.#begun = begun;
    this.#node = node;
    let end = this.#held.length - begun;
    for (const [from, to] of this.#places.toReversed()) if (to > end) end = Math.min(end, from);
    return this.#take(end);
  }

  end(): string {
    this.#places = withBegun(this.#places, this.#begun, this.#held.length);
    return this.#take(this.#held.length);
  }

  #take(end: number): string {
    const masked = withMarks(
      this.#held.slice(0, end),
      this.#places.filter(([, to]) => to <= end),
    );
    this.#held = this.#held.slice(end);
    this.#places = this.#places.flatMap(([from, to]) => (to > end ? [[from - end, to - end] as const] : []));
    return masked;
  }
}

function withBegun(places: readonly Place[], begun: number, length: number): Place[] {
  const all = [...places];
  if (begun >= leastLength) addPlace(all, [length - begun, length]);
  return all;
}

function withMarks(text: string, places: readonly Place[]): string {
  let masked = '';
  let end = 0;
  for (const [from, to] of places) {
    masked += text.slice(end, from) + mark;
    end = to;
  }
  return masked + text.slice(end);
}

function spellings(value: string): string[] {
  const lines = value.split(/[\r\n]+/).map((line) => line.trim());
  return [value.trim(), ...lines.flatMap((line) => [line, JSON.stringify(line).slice(1, -1)])];
}
