import { limits } from '@muster/sdk/contract';

/**
 * Text for the service. Agents print anything: PostgreSQL refuses NUL and lone surrogates, the contract limits the
 * length, and requests have a maximum size. NUL and lone surrogates become U+FFFD.
 */
export function storable(text: string): string {
  return text.replaceAll('\0', '\uFFFD').replace(/\p{Surrogate}/gu, '\uFFFD');
}

/** The same for every string of a JSON value, including field names. Levels that are nested too deep are cut. */
export function storableValue(value: unknown, levelsLeft: number = limits.documentDepth): unknown {
  if (typeof value === 'string') return storable(value);
  if (typeof value !== 'object' || value === null) return value;
  if (levelsLeft === 0) return truncationMark.trim();
  if (Array.isArray(value)) return value.map((inner) => storableValue(inner, levelsLeft - 1));
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [storable(name), storableValue(inner, levelsLeft - 1)]),
  );
}

const truncationMark = ' […]';

/** Storable text with a maximum length in characters, and in bytes as JSON. */
export function bounded(text: string, maxLength: number, maxBytes = Number.POSITIVE_INFINITY): string {
  let kept = text;
  let length = maxLength;
  // Each round at least halves a text that is too large, so few rounds are needed.
  while (kept.length > length || (maxBytes !== Number.POSITIVE_INFINITY && jsonBytes(kept) > maxBytes)) {
    if (kept.length <= length) length = Math.floor(kept.length / 2);
    kept = text.slice(0, Math.max(0, length - truncationMark.length)) + truncationMark.slice(0, length);
  }
  return storable(kept);
}

export const jsonBytes = (value: unknown): number => Buffer.byteLength(JSON.stringify(value) ?? '');
