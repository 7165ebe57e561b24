import { Ajv, type AnySchema, type AnySchemaObject, type ErrorObject, type Options } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import ret, { type SetToken, type Tokens, types } from 'ret';
import { isDeeperThan } from '../json.ts';

/**
 * A JSON Schema (draft 2020-12, or 07 where it says so). Only the worker thread compiles and evaluates one: callers
 * write schemas, and either step may never end.
 */
export interface Schema {
  /** What is wrong with a value; empty when it is valid. */
  errorsIn(value: unknown): readonly ErrorObject[];
}

/** References are compiled once each and not copied to where they are used, which could double with every level. */
const options: Options = {
  strict: false,
  allErrors: true,
  verbose: true,
  logger: false,
  inlineRefs: false,
  code: { optimize: false },
};
const mostProblems = 20;
const problemLength = 500;

/** Throws an Error that says what is wrong when the text is not a JSON Schema. */
export function compileSchema(text: string): Schema {
  const schema: unknown = JSON.parse(text);
  // One for each schema: names that a schema declares with $id must not meet those of another.
  const ajv = isDraft7(schema) ? new Ajv(options) : new Ajv2020(options);
  formats.default(ajv);
  const validate = ajv.compile(schema as AnySchema);
  return { errorsIn: (value) => (validate(value) ? [] : (validate.errors ?? [])) };
}

function isDraft7(schema: unknown): boolean {
  const dialect = typeof schema === 'object' && schema !== null && '$schema' in schema ? schema.$schema : '';
  return typeof dialect === 'string' && dialect.includes('draft-07');
}

/** The errors as text, few and short enough for a reply. */
export const problemsIn = (schema: Schema, value: unknown): string[] =>
  schema
    .errorsIn(value)
    .slice(0, mostProblems)
    .map((e) => `${e.instancePath || 'the output'} ${e.message ?? 'is not valid'}`.slice(0, problemLength));

/**
 * Finds a smallest instance of a JSON Schema by repair. It starts with a placeholder, asks the validator what is wrong
 * and changes the value accordingly, until nothing is wrong. Where a repair has alternatives (`anyOf`, `enum`, several
 * types) it takes the first; the others are tried afterwards, those closest to the first choices first.
 */
const mostAttempts = 300;
const mostDepth = 32;
const mostItems = 5000;
const mostLength = 100_000;

/** A value of which nothing is known yet: no type accepts it. In the end it becomes null. */
const placeholder = Symbol('placeholder');

/** `undefined` when none is found. */
export function smallestInstance({ errorsIn }: Schema): unknown {
  /** By how many choices they differ from the first ones. */
  const attempts: (() => unknown)[][] = [[() => placeholder]];
  const seen = new Set<string>();
  while (seen.size < mostAttempts) {
    const deviations = attempts.findIndex((queue) => queue.length > 0);
    if (deviations === -1) return undefined;
    const value = attempts[deviations]?.shift()?.();
    const text = JSON.stringify(value, (_, inner) => (inner === placeholder ? '\0' : inner));
    if (seen.has(text) || isDeeperThan(value, mostDepth)) continue;
    seen.add(text);
    const errors = errorsIn(value);
    if (errors.length > 0) {
      const groups = repairsByPlace(errors);
      if (groups.some((repairs) => repairs.length === 0)) continue;
      const first = groups.flatMap((repairs) => repairs.slice(0, 1));
      attempts[deviations]?.push(() => repaired(value, first));
      attempts[deviations + 1] ??= [];
      for (const [at, repairs] of groups.entries())
        for (const other of repairs.slice(1))
          attempts[deviations + 1]?.push(() => repaired(value, first.with(at, other)));
    } else if (text.includes('"\\u0000"')) {
      attempts[deviations]?.unshift(() => copyOf(value, null));
    } else return value;
  }
  return undefined;
}

interface Repair {
  readonly path: string;
  readonly change: (value: never) => unknown;
}

const alternatives = ['anyOf', 'oneOf', 'not', 'if', 'contains'];

/**
 * Errors at different places are repaired together, unless they may be those of different alternatives: below a place
 * with alternatives one repair at a time is made.
 */
function repairsByPlace(errors: readonly ErrorObject[]): Repair[][] {
  const forks = new Set(errors.filter((e) => alternatives.includes(e.keyword)).map((e) => e.instancePath));
  const groups = new Map<string, Repair[]>();
  const seen = new Set<string>();
  for (const error of errors) {
    const { instancePath: path, schemaPath } = error;
    const place = prefixesOf(path).find((prefix) => forks.has(prefix)) ?? path;
    const repairs = groups.get(place) ?? [];
    groups.set(place, repairs);
    // The same keyword has one error for each missing property.
    if (seen.has(`${path} ${schemaPath}`)) continue;
    seen.add(`${path} ${schemaPath}`);
    repairs.push(...changesFor(error).map((change) => ({ path, change })));
  }
  return [...groups.values()];
}

/** `/a/b` → ``, `/a`, `/a/b` */
const prefixesOf = (path: string): string[] => {
  const parts = path.split('/');
  return parts.map((_, at) => parts.slice(0, at + 1).join('/'));
};

const repaired = (value: unknown, repairs: readonly Repair[]): unknown => {
  const root = { value: copyOf(value, placeholder) };
  for (const { path, change } of repairs) {
    const keys = ['value', ...path.split('/').slice(1).map(unescaped)];
    const last = keys.pop() ?? '';
    const parent = keys.reduce<unknown>((inner, key) => Object(inner)[key], root);
    if (typeof parent === 'object' && parent !== null)
      Object.assign(parent, { [last]: change(Object(parent)[last] as never) });
  }
  return root.value;
};

const unescaped = (key: string): string => key.replaceAll('~1', '/').replaceAll('~0', '~');

function copyOf(value: unknown, unknownAs: unknown): unknown {
  if (value === placeholder) return unknownAs;
  if (Array.isArray(value)) return value.map((item) => copyOf(item, unknownAs));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, copyOf(inner, unknownAs)]));
}

type Change = Repair['change'];
const emptyValues: Readonly<Record<string, unknown>> = {
  null: null,
  boolean: false,
  number: 0,
  string: '',
  array: [],
  object: {},
};
const anyValues = Object.values(emptyValues);

const to = (...values: readonly unknown[]): Change[] =>
  values.map((value) => () => copyOf(value, placeholder));

/** The changes that may repair the error of a keyword, the best first. */
function changesFor({ keyword, params, parentSchema = {} }: ErrorObject): Change[] {
  const { limit } = params as { limit: number };
  switch (keyword) {
    case 'type':
      return [params.type].flat().flatMap((type) => (type === 'integer' ? toInteger : to(emptyValues[type])));
    case 'const':
      return to(params.allowedValue);
    case 'enum':
      return to(...(params.allowedValues as unknown[]));
    case 'pattern':
      return to(...samplesOf(params.pattern));
    case 'format':
      return params.format in formatSamples ? to(formatSamples[params.format]) : [];
    case 'minLength':
      return limit > mostLength ? [] : [(text: string) => text.padEnd(limit, text.at(-1) ?? 'a')];
    case 'minimum':
    case 'maximum':
      return to(limit);
    case 'exclusiveMinimum':
      return to(
        Math.floor(limit) + 1,
        ...between(limit, parentSchema.exclusiveMaximum, parentSchema.maximum),
      );
    case 'exclusiveMaximum':
      return to(Math.ceil(limit) - 1, ...between(limit, parentSchema.exclusiveMinimum, parentSchema.minimum));
    case 'multipleOf':
      return [(number: number) => awayFromZero(number / params.multipleOf) * params.multipleOf];
    case 'minItems':
      if (limit > mostItems) return [];
      return [(items: unknown[]) => [...items, ...Array(limit - items.length).fill(placeholder)]];
    case 'contains':
      return [(items: unknown[]) => [...items, placeholder]];
    case 'uniqueItems':
      return anotherItem(Math.max(params.i, params.j));
    case 'required':
      return [(fields: object) => withNames(fields, parentSchema.required)];
    case 'dependentRequired':
    case 'dependencies':
      return [(fields: object) => withNames(fields, [params.missingProperty])];
    case 'minProperties':
      return limit > mostItems ? [] : [(fields: object) => withMoreNames(fields, limit, parentSchema)];
    case 'not':
    case 'if':
    case 'oneOf':
    case 'false schema':
      return to(...anyValues);
    default:
      return [];
  }
}

const awayFromZero = (number: number): number => Math.sign(number) * Math.ceil(Math.abs(number));

const toInteger: Change = (value: unknown) => (typeof value === 'number' ? awayFromZero(value) : 0);

const between = (limit: number, ...others: readonly unknown[]): number[] =>
  others.filter((other) => typeof other === 'number').map((other) => (limit + other) / 2);

/** An item that differs from another one: of the same type where possible. */
const anotherItem = (index: number): Change[] =>
  [1, -1, ...anyValues].map((other) => (items: unknown[]) => {
    const item = items[index];
    if (typeof item === 'number') return items.with(index, item + Number(other));
    if (typeof item === 'string') return items.with(index, item + (item.at(-1) ?? 'a'));
    return items.with(index, typeof item === 'boolean' ? !item : other);
  });

const withNames = (fields: object, names: readonly string[]): object => ({
  ...Object.fromEntries(names.map((name) => [name, placeholder])),
  ...fields,
});

function withMoreNames(
  fields: object,
  least: number,
  { required = [], properties = {} }: AnySchemaObject,
): object {
  const names = new Set<string>([...required, ...Object.keys(fields)]);
  for (const name of Object.keys(properties)) if (names.size < least) names.add(name);
  for (let nth = 0; names.size < least; nth++) names.add(`p${nth}`);
  return withNames(fields, [...names]);
}

const formatSamples: Readonly<Record<string, string>> = {
  'date-time': '1970-01-01T00:00:00Z',
  date: '1970-01-01',
  time: '00:00:00Z',
  duration: 'P1D',
  email: 'a@a.aa',
  'idn-email': 'a@a.aa',
  hostname: 'a',
  'idn-hostname': 'a',
  ipv4: '0.0.0.0',
  ipv6: '::',
  uri: 'a:a',
  iri: 'a:a',
  url: 'http://a.aa',
  uuid: '00000000-0000-0000-0000-000000000000',
  byte: 'aaaa',
};

/** The declared types put the function below `default`; it is the module itself. */
const tokenize = ret as unknown as (pattern: string) => Tokens;

/** A short text that matches a regular expression; none where it has look-around or back references. */
function samplesOf(pattern: string): string[] {
  try {
    return [sampleOf(tokenize(pattern))];
  } catch {
    return [];
  }
}

function sampleOf(token: Tokens): string {
  switch (token.type) {
    case types.ROOT:
    case types.GROUP:
      if ('followedBy' in token || 'notFollowedBy' in token) throw new Error('look-around');
      return (token.options?.[0] ?? token.stack ?? []).map(sampleOf).join('');
    case types.POSITION:
      return '';
    case types.CHAR:
      return String.fromCodePoint(token.value);
    case types.SET:
      return characterOf(token);
    case types.REPETITION: {
      const text = token.min > 0 ? sampleOf(token.value) : '';
      if (text.length * token.min > mostLength) throw new Error('too long');
      return text.repeat(token.min);
    }
    default:
      throw new Error('a back reference');
  }
}

const usualCharacters = 'a0A-_ .!@/:~éあ\n';

function characterOf(set: Extract<SetToken, { type: types.SET }>): string {
  const ranges = set.set.flatMap((part) => (part.type === types.RANGE ? [part.from] : []));
  const usual = [...usualCharacters].map((character) => character.charCodeAt(0));
  const single = set.set.flatMap((part) => (part.type === types.CHAR ? [part.value] : []));
  const found = [...ranges, ...usual, ...single].find((code) => isIn(set, code));
  if (found === undefined) throw new Error('an empty class');
  return String.fromCodePoint(found);
}

function isIn(token: SetToken, code: number): boolean {
  if (token.type === types.CHAR) return token.value === code;
  if (token.type === types.RANGE) return token.from <= code && code <= token.to;
  return token.set.some((part) => isIn(part, code)) !== token.not;
}
