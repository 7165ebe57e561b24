import { sampleNumber, sampleText } from './scalar-sample.ts';

/** Picks one of `arity` alternatives. */
export type Choose = (arity: number) => number;

type Keywords = Readonly<Record<string, unknown>>;

const mostDepth = 32;
const mostNodes = 5000;
const types = ['null', 'boolean', 'integer', 'number', 'string', 'array', 'object'];

/** One attempt at an instance of a schema; `undefined` where none comes of it. */
export class Instance {
  readonly #root: unknown;
  readonly #choose: Choose;
  #nodes = 0;

  constructor(root: unknown, choose: Choose) {
    this.#root = root;
    this.#choose = choose;
  }

  build(): unknown {
    return this.#value(this.#root, 0, 0);
  }

  /** `nth` asks for another value each time, for arrays whose items must differ. */
  #value(schema: unknown, depth: number, nth: number): unknown {
    this.#nodes += 1;
    if (schema === false || depth > mostDepth || this.#nodes > mostNodes) return undefined;
    const all = this.#resolve(schema, depth);
    if (!all) return undefined;
    if ('const' in all) return all.const;
    if (Array.isArray(all.enum)) return all.enum[(this.#pick(all.enum.length) + nth) % all.enum.length];
    switch (this.#typeOf(all)) {
      case 'boolean':
        return nth % 2 === 1;
      case 'integer':
        return sampleNumber(all, true, nth);
      case 'number':
        return sampleNumber(all, false, nth);
      case 'string':
        return sampleText(all, nth);
      case 'array':
        return this.#array(all, depth);
      case 'object':
        return this.#object(all, depth);
      default:
        return null;
    }
  }

  /** References followed, alternatives chosen, everything that must hold at once merged into one schema. */
  #resolve(schema: unknown, depth: number): Keywords | undefined {
    if (schema === true) return {};
    if (!isObject(schema) || depth > mostDepth) return undefined;
    const parts: unknown[] = [];
    if (typeof schema.$ref === 'string') parts.push(this.#lookUp(schema.$ref));
    if (Array.isArray(schema.allOf)) parts.push(...schema.allOf);
    for (const options of [schema.anyOf, schema.oneOf])
      if (Array.isArray(options)) parts.push(options[this.#pick(options.length)]);
    if (schema.if !== undefined) parts.push(...this.#branch(schema));
    const { $ref, allOf, anyOf, oneOf, if: _if, then, else: _else, ...own } = schema;
    return parts.reduce<Keywords | undefined>((merged, part) => {
      const resolved = this.#resolve(part, depth + 1);
      return merged && resolved && merge(merged, resolved);
    }, own);
  }

  #branch(schema: Keywords): unknown[] {
    if (this.#pick(2) === 0) return [schema.if, schema.then ?? true];
    return [schema.else ?? true];
  }

  #lookUp(ref: string): unknown {
    if (!ref.startsWith('#')) return undefined;
    const names = decodeURIComponent(ref.slice(1)).split('/').slice(1);
    return names.reduce<unknown>((value, name) => {
      const key = name.replaceAll('~1', '/').replaceAll('~0', '~');
      return (isObject(value) || Array.isArray(value)) && Object.hasOwn(value, key)
        ? (value as Keywords)[key]
        : undefined;
    }, this.#root);
  }

  #typeOf(schema: Keywords): unknown {
    if (Array.isArray(schema.type)) return schema.type[this.#pick(schema.type.length)];
    if (schema.type !== undefined) return schema.type;
    const has = (...names: string[]) => names.some((name) => name in schema);
    if (has('properties', 'required', 'minProperties', 'patternProperties')) return 'object';
    if (has('items', 'prefixItems', 'minItems', 'contains')) return 'array';
    if (has('minLength', 'maxLength', 'pattern', 'format')) return 'string';
    if (has('minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf')) return 'number';
    // Nothing is said but perhaps `not`: any type may be the right one.
    return types[this.#pick('not' in schema ? types.length : 1)];
  }

  #array(schema: Keywords, depth: number): unknown[] | undefined {
    const tuple = [schema.prefixItems, schema.items].find(Array.isArray) ?? [];
    const rest = [Array.isArray(schema.items) ? schema.additionalItems : schema.items, true].find(
      (s) => s !== undefined,
    );
    const contained = schema.contains === undefined ? 0 : count(schema.minContains, 1);
    const length = Math.max(count(schema.minItems, 0), contained);
    if (length > mostNodes) return undefined;
    const items: unknown[] = [];
    for (let i = 0; i < length; i++) {
      const own: unknown = i < tuple.length ? tuple[i] : rest;
      const wanted = i < contained ? { allOf: [own, schema.contains] } : own;
      const item = this.#value(wanted, depth + 1, schema.uniqueItems === true ? i : 0);
      if (item === undefined) return undefined;
      items.push(item);
    }
    return items;
  }

  #object(schema: Keywords, depth: number): unknown {
    const entries = new Map<string, unknown>();
    for (const name of this.#names(schema)) {
      const value = this.#value(propertySchema(schema, name), depth + 1, 0);
      if (value === undefined) return undefined;
      entries.set(name, value);
    }
    return Object.fromEntries(entries);
  }

  /** What is required, what that requires in turn, and optional or invented names up to `minProperties`. */
  #names(schema: Keywords): Set<string> {
    const names = new Set(texts(schema.required));
    for (const dependents of [schema.dependentRequired, schema.dependencies])
      for (const name of names)
        if (isObject(dependents)) for (const other of texts(dependents[name])) names.add(other);
    const least = Math.min(count(schema.minProperties, 0), mostNodes);
    const optional = isObject(schema.properties) ? Object.keys(schema.properties) : [];
    for (let i = 0; names.size < least; i++) names.add(optional[i] ?? `p${i}`);
    return names;
  }

  #pick(arity: number): number {
    return arity > 1 ? this.#choose(arity) : 0;
  }
}

function propertySchema(schema: Keywords, name: string): unknown {
  if (isObject(schema.properties) && Object.hasOwn(schema.properties, name)) return schema.properties[name];
  if (isObject(schema.patternProperties))
    for (const [pattern, value] of Object.entries(schema.patternProperties))
      if (matches(pattern, name)) return value;
  return schema.additionalProperties ?? true;
}

/** Both must hold. Bounds take the stricter one, properties are merged, of the rest the later word counts. */
function merge(a: Keywords, b: Keywords): Keywords {
  const merged: Record<string, unknown> = { ...a };
  for (const [key, value] of Object.entries(b)) {
    const before = merged[key];
    merged[key] = before === undefined ? value : mergeKeyword(key, before, value);
  }
  return merged;
}

function mergeKeyword(key: string, a: unknown, b: unknown): unknown {
  if (key === 'required') return [...new Set([...texts(a), ...texts(b)])];
  if (typeof a === 'number' && typeof b === 'number')
    return /^(max|exclusiveMax)/.test(key) ? Math.min(a, b) : Math.max(a, b);
  if (key === 'enum' && Array.isArray(a) && Array.isArray(b))
    return a.filter((x) => b.some((y) => JSON.stringify(x) === JSON.stringify(y)));
  if (key === 'type') return commonTypes([a].flat(), [b].flat());
  if (/^(properties|patternProperties|\$defs|definitions)$/.test(key) && isObject(a) && isObject(b))
    return mergeProperties(a, b);
  return b;
}

function mergeProperties(a: Keywords, b: Keywords): Keywords {
  const names = [...new Set([...Object.keys(a), ...Object.keys(b)])];
  return Object.fromEntries(
    names.map((name) => {
      if (!Object.hasOwn(a, name)) return [name, b[name]];
      return [name, Object.hasOwn(b, name) ? { allOf: [a[name], b[name]] } : a[name]];
    }),
  );
}

function commonTypes(a: readonly unknown[], b: readonly unknown[]): unknown {
  const common = a.filter((type) => b.includes(type) || (type === 'integer' && b.includes('number')));
  if (common.length > 0) return common;
  return a.includes('number') && b.includes('integer') ? 'integer' : [...a];
}

function matches(pattern: string, name: string): boolean {
  try {
    return new RegExp(pattern, 'u').test(name);
  } catch {
    return false;
  }
}

const isObject = (value: unknown): value is Keywords =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const texts = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((v) => typeof v === 'string') : [];
const count = (value: unknown, otherwise: number): number =>
  typeof value === 'number' && value >= 0 ? Math.ceil(value) : otherwise;
