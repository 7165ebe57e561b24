/** Why PostgreSQL could not store a text, or null. */
export function unsafeText(text: string): string | null {
  if (text.includes('\u0000')) return 'must not contain the character U+0000';
  return text.isWellFormed() ? null : 'must be well-formed Unicode (it has a lone surrogate)';
}

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The first place in a JSON value that can't be stored safely, or null. Values deeper than `maxDepth` are unsafe too. */
export function unsafePlace(
  value: unknown,
  maxDepth: number,
  path = '',
): { path: string; problem: string } | null {
  const stack: { value: unknown; path: string; depth: number }[] = [{ value, path, depth: 0 }];
  for (let item = stack.pop(); item; item = stack.pop()) {
    const { depth } = item;
    const at = item.path;
    if (typeof item.value === 'string') {
      const problem = unsafeText(item.value);
      if (problem) return { path: at, problem };
    }
    if (typeof item.value === 'number' && !Number.isFinite(item.value)) {
      return { path: at, problem: 'must be a number that JSON can hold' };
    }
    if (typeof item.value !== 'object' || item.value === null) continue;
    if (depth >= maxDepth) return { path: at, problem: `must not be nested deeper than ${maxDepth} levels` };
    for (const [key, child] of Object.entries(item.value)) {
      const next = Array.isArray(item.value) ? `${at}[${key}]` : at ? `${at}.${key}` : key;
      const problem = key === '__proto__' ? 'must not be named __proto__' : unsafeText(key);
      if (problem) return { path: next, problem };
      stack.push({ value: child, path: next, depth: depth + 1 });
    }
  }
  return null;
}

/** Whether arrays and objects are nested in more than so many levels. The recursion is no deeper than that. */
export function isDeeperThan(value: unknown, mostLevels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (mostLevels === 0) return true;
  const children: readonly unknown[] = Array.isArray(value) ? value : Object.values(value);
  return children.some((child) => isDeeperThan(child, mostLevels - 1));
}

const nodeBytes = 32;

/** About how much memory a value takes. For many small parts that is far more than the size of their JSON. */
export function heapBytesOf(value: unknown): number {
  let bytes = 0;
  const stack: unknown[] = [value];
  while (stack.length > 0) {
    const item = stack.pop();
    bytes += nodeBytes;
    if (typeof item === 'string') bytes += item.length;
    if (typeof item !== 'object' || item === null) continue;
    if (Array.isArray(item)) for (const child of item) stack.push(child);
    else {
      for (const key in item) {
        bytes += key.length;
        stack.push((item as Record<string, unknown>)[key]);
      }
    }
  }
  return bytes;
}

export interface JsonBounds {
  readonly depth: number;
  readonly values?: number;
}

/**
 * Which bound a JSON text exceeds, found before it is parsed: a few megabytes of brackets become hundreds of megabytes
 * of objects. Takes linear time and no memory. The text need not be valid JSON.
 */
export function exceededBound(
  json: Uint8Array,
  { depth: mostDepth, values: mostValues = Number.POSITIVE_INFINITY }: JsonBounds,
): keyof JsonBounds | undefined {
  let depth = 0;
  let values = 1;
  for (let at = 0; at < json.length; at++) {
    const byte = json[at];
    if (byte === quote) at = endOfString(json, at);
    else if (byte === 0x2c) values += 1;
    else if (byte === 0x5b || byte === 0x7b) {
      depth += 1;
      values += 1;
    } else if (byte === 0x5d || byte === 0x7d) depth -= 1;
    if (depth > mostDepth) return 'depth';
    if (values > mostValues) return 'values';
  }
  return undefined;
}

const quote = 0x22;
const backslash = 0x5c;

/** The index of the closing quote, or the end of the text. */
function endOfString(json: Uint8Array, start: number): number {
  for (let end = json.indexOf(quote, start + 1); end !== -1; end = json.indexOf(quote, end + 1)) {
    let escapes = 0;
    while (json[end - 1 - escapes] === backslash) escapes += 1;
    if (escapes % 2 === 0) return end;
  }
  return json.length;
}

const numberAt = /-?\d+(\.\d+)?([eE][+-]?\d+)?/y;

/**
 * The first number in a valid JSON text that parsing would change, or null: large integers lose digits, and a double has
 * a limited range. Takes linear time.
 */
export function unstorableNumber(json: string): string | null {
  for (let at = 0; at < json.length; at += 1) {
    const character = json[at] as string;
    if (character === '"') {
      at += 1;
      while (json[at] !== '"') at += json[at] === '\\' ? 2 : 1;
    } else if (character === '-' || (character >= '0' && character <= '9')) {
      numberAt.lastIndex = at;
      const [literal = '', fraction, exponent] = numberAt.exec(json) ?? [];
      if (!isStorable(literal, fraction === undefined && exponent === undefined)) return literal.slice(0, 40);
      at += literal.length - 1;
    }
  }
  return null;
}

function isStorable(literal: string, isInteger: boolean): boolean {
  const value = Number(literal);
  if (!Number.isFinite(value)) return false;
  if (value === 0) return !/[1-9]/.test(literal.split(/[eE]/)[0] ?? '');
  if (!Number.isInteger(value) || Number.isSafeInteger(value)) return true;
  // Below 10^21 it is serialized without an exponent, as an unsafe integer.
  return !isInteger && Math.abs(value) >= 1e21;
}
