import { limits } from '@muster/sdk/contract';
import { invalid, type Refusal } from '../../domain/refusal.ts';
import { isObject } from '../../lib/json.ts';
import { type Document, shown, typeText } from './document.ts';

/** The paths of a mask, or null for a full replace. */
export function parseMask(mask: string): string[][] | null | Refusal {
  if (mask.trim() === '' || mask.trim() === '*') return null;
  const paths = mask.split(',').map((path) => path.trim().split('.'));
  if (paths.length > limits.maskPaths)
    return invalid('updateMask', `must have at most ${limits.maskPaths} paths; got ${paths.length}`);
  if (paths.some((path) => path.some((segment) => segment === ''))) {
    return invalid('updateMask', `must be paths joined by commas, such as a.b,c; got ${shown(mask)}`);
  }
  if (paths.some((path) => path.includes('*')))
    return invalid('updateMask', `must be * alone, or name fields; got ${shown(mask)}`);
  if (paths.some((path) => path.includes('__proto__')))
    return invalid('updateMask', `must not name __proto__; got ${shown(mask)}`);
  return paths;
}

/** Takes the fields named by the mask from the payload; a path that the payload lacks clears the field. */
export function patched(base: Document, payload: Document, mask: readonly string[][]): Document | Refusal {
  let result: Document = base;
  for (const path of mask) {
    const problem =
      scalarAbove('the payload', payload, path) ?? scalarAbove('the stored document', result, path);
    if (problem) return invalid('updateMask', problem);
    result = withValue(result, path, valueAt(payload, path));
  }
  return result;
}

/** A field above the path that has no fields; null if there is none. */
function scalarAbove(where: string, document: Document, path: readonly string[]): string | null {
  let value: unknown = document;
  for (const [at, segment] of path.entries()) {
    if (!isObject(value)) {
      const above = path.slice(0, at).join('.');
      return `${shown(path.join('.'))}: ${shown(above)} is ${typeText(value)}, not an object, in ${where}`;
    }
    if (!Object.hasOwn(value, segment)) return null;
    value = value[segment];
  }
  return null;
}

const absent = Symbol('absent');

function valueAt(document: Document, path: readonly string[]): unknown {
  let value: unknown = document;
  for (const segment of path) {
    if (!isObject(value) || !Object.hasOwn(value, segment)) return absent;
    value = value[segment];
  }
  return value;
}

function withValue(document: Document, [first = '', ...rest]: readonly string[], value: unknown): Document {
  const { [first]: current, ...others } = document;
  const has = Object.hasOwn(document, first);
  if (rest.length === 0) return value === absent ? others : { ...document, [first]: value };
  if (!has && value === absent) return document;
  return { ...document, [first]: withValue(has ? (current as Document) : {}, rest, value) };
}
