/** Why PostgreSQL could not store a text, or null. */
export function unsafeText(text: string): string | null {
  if (text.includes('\u0000')) return 'must not contain the character U+0000';
  return text.isWellFormed() ? null : 'must be well-formed Unicode (it has a lone surrogate)';
}

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

interface UnsafePlace {
  readonly path: string;
  readonly problem: string;
}

/** The first place in a JSON value that can't be stored safely, or null. Values deeper than `maxDepth` are unsafe too. */
export function unsafePlace(value: unknown, maxDepth: number): UnsafePlace | null {
  const unsafe = unsafeWithin(value, maxDepth, maxDepth);
  return unsafe && { ...unsafe, path: unsafe.path.replace(/^\./, '') };
}

/** Paths are put together only for what is unsafe. The recursion ends at `maxDepth`. */
function unsafeWithin(value: unknown, levels: number, maxDepth: number): UnsafePlace | null {
  if (typeof value === 'string') return unsafeAt('', unsafeText(value));
  if (typeof value === 'number' && !Number.isFinite(value))
    return unsafeAt('', 'must be a number that JSON can hold');
  if (typeof value !== 'object' || value === null) return null;
  if (levels === 0) return unsafeAt('', `must not be nested deeper than ${maxDepth} levels`);
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i += 1) {
      const unsafe = unsafeWithin(value[i], levels - 1, maxDepth);
      if (unsafe) return unsafeAt(`[${i}]${unsafe.path}`, unsafe.problem);
    }
    return null;
  }
  for (const key in value) {
    const problem = key === '__proto__' ? 'must not be named __proto__' : unsafeText(key);
    if (problem) return unsafeAt(`.${key}`, problem);
    const unsafe = unsafeWithin((value as Record<string, unknown>)[key], levels - 1, maxDepth);
    if (unsafe) return unsafeAt(`.${key}${unsafe.path}`, unsafe.problem);
  }
  return null;
}

const unsafeAt = (path: string, problem: string | null): UnsafePlace | null =>
  problem === null ? null : { path, problem };

/** Whether arrays and objects are nested in more than this number of levels. The recursion ends there. */
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
  /** Objects and arrays. */
  readonly objects?: number;
}

/**
 * Which bound a JSON text exceeds, found before it is parsed: a few megabytes of brackets become hundreds of megabytes
 * of objects. Takes linear time and no memory. The text need not be valid JSON.
 */
export function exceededBound(
  json: Uint8Array,
  { depth: mostDepth, values: mostValues = unbounded, objects: mostObjects = unbounded }: JsonBounds,
): keyof JsonBounds | undefined {
  let depth = 0;
  let values = 1;
  let objects = 0;
  for (let at = 0; at < json.length; at++) {
    const byte = json[at];
    if (byte === quote) at = endOfString(json, at);
    else if (byte === 0x2c) values += 1;
    else if (byte === 0x5b || byte === 0x7b) {
      depth += 1;
      values += 1;
      objects += 1;
    } else if (byte === 0x5d || byte === 0x7d) depth -= 1;
    if (depth > mostDepth) return 'depth';
    if (values > mostValues) return 'values';
    if (objects > mostObjects) return 'objects';
  }
  return undefined;
}

const unbounded = Number.POSITIVE_INFINITY;
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
