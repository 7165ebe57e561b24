import { limits } from '@muster/sdk/contract';

/**
 * Texts on their way to the service. Agents print anything: PostgreSQL refuses NUL and lone surrogates, the contract
 * bounds the length, and a request has a size.
 */

/** As it can be stored: NUL and lone surrogates become U+FFFD. */
export function storable(text: string): string {
  return text.replaceAll('\0', '\uFFFD').replace(/\p{Surrogate}/gu, '\uFFFD');
}

/** The same for every text of a JSON value, names of fields included. What is nested too deep is left out. */
export function storableValue(value: unknown, levelsLeft: number = limits.documentDepth): unknown {
  if (typeof value === 'string') return storable(value);
  if (typeof value !== 'object' || value === null) return value;
  if (levelsLeft === 0) return mark.trim();
  if (Array.isArray(value)) return value.map((inner) => storableValue(inner, levelsLeft - 1));
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [storable(name), storableValue(inner, levelsLeft - 1)]),
  );
}

const mark = ' […]';

/** Storable, at most so many characters, and at most so many bytes as JSON. */
export function bounded(text: string, mostCharacters: number, mostBytes = Number.POSITIVE_INFINITY): string {
  let kept = text;
  let most = mostCharacters;
  // Each round at least halves what is too large, so that escapes and wide characters need few rounds.
  while (kept.length > most || (mostBytes !== Number.POSITIVE_INFINITY && jsonBytes(kept) > mostBytes)) {
    if (kept.length <= most) most = Math.floor(kept.length / 2);
    kept = text.slice(0, Math.max(0, most - mark.length)) + mark.slice(0, most);
  }
  return storable(kept);
}

export const jsonBytes = (value: unknown): number => Buffer.byteLength(JSON.stringify(value) ?? '');
