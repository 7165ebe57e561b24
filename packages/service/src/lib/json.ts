/** What PostgreSQL could not store as text, or what would reach an object's prototype. */
export function unsafeText(text: string): string | null {
  if (text.includes('\u0000')) return 'must not contain the character U+0000';
  return text.isWellFormed() ? null : 'must be well-formed Unicode (it has a lone surrogate)';
}

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The first unsafe place in a parsed JSON value, or null. Values deeper than `maxDepth` are unsafe too. */
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

/** Whether arrays and objects are nested in more than so many levels. It calls itself at most that often. */
export function isDeeperThan(value: unknown, mostLevels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (mostLevels === 0) return true;
  const children: readonly unknown[] = Array.isArray(value) ? value : Object.values(value);
  return children.some((child) => isDeeperThan(child, mostLevels - 1));
}

const nodeBytes = 32;

/** About how much memory a value takes, which for very many small parts is far more than their JSON. */
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

const quote = 0x22;
const backslash = 0x5c;

/** The same of JSON that is not parsed yet. It need not be valid. */
export function isTextDeeperThan(json: Buffer, mostLevels: number): boolean {
  let levels = 0;
  for (let at = 0; at < json.length; at++) {
    const byte = json[at];
    if ((byte === 0x5b || byte === 0x7b) && ++levels > mostLevels) return true;
    if (byte === 0x5d || byte === 0x7d) levels -= 1;
    if (byte !== quote) continue;
    at = endOfText(json, at + 1);
    if (at < 0) return false;
  }
  return false;
}

const numberAt = /-?\d+(\.\d+)?([eE][+-]?\d+)?/y;

/**
 * The first number in a valid JSON text that would come back as another one, or null: parsing loses the digits of large
 * integers and everything beyond a double's range. Strings are skipped; each character is looked at once.
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
  // Below 10^21 it would be written without an exponent, as an integer that is not safe.
  return !isInteger && Math.abs(value) >= 1e21;
}

/** Where the closing quote is; a quote behind an odd number of backslashes does not close. */
function endOfText(json: Buffer, start: number): number {
  for (let end = json.indexOf(quote, start); end >= 0; end = json.indexOf(quote, end + 1)) {
    let before = end - 1;
    while (before >= start && json[before] === backslash) before -= 1;
    if ((end - before) % 2 === 1) return end;
  }
  return -1;
}
