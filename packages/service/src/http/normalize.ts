import type { Schema } from '@muster/sdk/contract';
import { isObject, unsafeText } from '../lib/json.ts';
import { invalidField } from './errors.ts';

export interface Normalized {
  readonly value: unknown;
  /** Fields that the schema does not know; they are dropped. */
  readonly ignored: string[];
}

/**
 * A body as the schema sees it: null is the same as absent, unknown fields are dropped and named, and text that no
 * store could keep is refused. Values that the schema leaves open are passed on as they are, but for unsafe text.
 */
export function normalize(body: unknown, schema: Schema): Normalized {
  const ignored: string[] = [];
  return { value: walk(body, schema, '', ignored), ignored };
}

function walk(value: unknown, schema: Schema, path: string, ignored: string[]): unknown {
  if (typeof value === 'string') {
    const problem = unsafeText(value);
    if (problem) throw invalidField(path, problem);
    return value;
  }
  if (Array.isArray(value)) {
    const { items } = schema;
    return items ? value.map((item, i) => walk(item, items, `${path}[${i}]`, ignored)) : value;
  }
  if (!isObject(value)) return value;
  const { properties, additionalProperties } = schema;
  const known: Record<string, unknown> = {};
  for (const key of Object.keys(value)) {
    const at = path ? `${path}.${key}` : key;
    if (key === '__proto__') throw invalidField(at, 'must not be named __proto__');
    if (value[key] === null || value[key] === undefined) continue;
    if (typeof additionalProperties === 'object') {
      const problem = unsafeText(key);
      if (problem) throw invalidField(path, `its keys ${problem}`);
      known[key] = walk(value[key], additionalProperties, at, ignored);
    } else if (!properties) known[key] = value[key];
    else if (Object.hasOwn(properties, key))
      known[key] = walk(value[key], properties[key] ?? {}, at, ignored);
    else ignored.push(at);
  }
  return known;
}
