import { isUtf8 } from 'node:buffer';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { limits, type Schema } from '@muster/sdk/contract';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { exceededBound, isObject, unsafeText } from '../lib/json.ts';
import { validator } from '../lib/validator.ts';
import { invalidField } from './errors.ts';

const largeBytes = 64 * 1024;

/** Bodies are JSON objects. An empty body is `{}`; a missing media type counts as JSON. */
export function readJsonOnly(app: FastifyInstance): void {
  // In one turn of the event loop, one large body is parsed or goes on to be checked: other requests are served between.
  let turns: Promise<void> = Promise.resolve();
  const ownTurn = (): Promise<void> => {
    turns = turns.then(() => nextTurn());
    return turns;
  };
  app.removeAllContentTypeParsers();
  // Named too: what only `*` matches is looked for again with each request.
  app.addContentTypeParser(
    ['application/json', '*'],
    { parseAs: 'buffer' },
    async (request: FastifyRequest, bytes: Buffer) => {
      refuseOtherMediaType(request);
      if (bytes.length <= largeBytes) return parseBody(bytes);
      await ownTurn();
      const body = parseBody(bytes);
      await ownTurn();
      return body;
    },
  );
}

function refuseOtherMediaType({ headers }: FastifyRequest): void {
  const type = headers['content-type'];
  if (type && !/^application\/(?:[\w.-]+\+)?json\s*(?:;|$)/i.test(type))
    throw invalidField('Content-Type', 'must be application/json');
}

function parseBody(bytes: Buffer): Record<string, unknown> {
  if (bytes.length === 0) return {};
  const exceeded = exceededBound(bytes, { depth: limits.bodyDepth, objects: limits.bodyObjects });
  if (exceeded === 'depth')
    throw invalidField('', `the body must not be nested deeper than ${limits.bodyDepth} levels`);
  if (exceeded) throw invalidField('', `the body must have at most ${limits.bodyObjects} objects and lists`);
  let body: unknown;
  try {
    if (!isUtf8(bytes)) throw new Error('it is not UTF-8');
    body = JSON.parse(bytes.toString());
  } catch (error) {
    throw invalidField('', `the body is not JSON: ${(error as Error).message}`);
  }
  if (!isObject(body)) throw invalidField('', 'the body must be a JSON object');
  return body;
}

/**
 * A body as the schema defines it: null is the same as absent, unknown fields are dropped and the first of them listed in
 * `ignored`, and text that the database can't store is refused. Values that the schema leaves open are passed on
 * unchanged. Objects without a dropped field are not copied.
 */
export function checked(body: unknown, schema: Schema, ignored: string[] = []): unknown {
  const value = walk(body, schema, [], ignored);
  const violation = validator(schema)(value);
  if (violation) throw invalidField(violation.field, violation.description);
  return value;
}

const mostListed = 50;

/** The field names and indexes that lead to a value. The walk has one list, because hardly any place is ever named. */
type Place = (string | number)[];

function pathOf(place: Place): string {
  let path = '';
  for (const part of place)
    path = typeof part === 'number' ? `${path}[${part}]` : path ? `${path}.${part}` : part;
  return path;
}

function walk(value: unknown, schema: Schema, place: Place, ignored: string[]): unknown {
  if (typeof value === 'string') {
    const problem = unsafeText(value);
    if (problem) throw invalidField(pathOf(place), problem);
    return value;
  }
  if (isObject(value)) return walkObject(value, schema, place, ignored);
  const { items } = schema;
  if (!Array.isArray(value) || !items) return value;
  for (let i = 0; i < value.length; i += 1) {
    place.push(i);
    value[i] = walk(value[i], items, place, ignored);
    place.pop();
  }
  return value;
}

function walkObject(
  object: Record<string, unknown>,
  schema: Schema,
  place: Place,
  ignored: string[],
): Record<string, unknown> {
  const { properties, additionalProperties } = schema;
  const ofOthers = typeof additionalProperties === 'object' ? additionalProperties : undefined;
  let known: Record<string, unknown> | undefined;
  for (const key in object) {
    place.push(key);
    if (key === '__proto__') throw invalidField(pathOf(place), 'must not be named __proto__');
    const problem = ofOthers && unsafeText(key);
    if (problem) throw invalidField(pathOf(place.slice(0, -1)), `its keys ${problem}`);
    const value = object[key];
    const isSet = value !== null && value !== undefined;
    const isKnown = !properties || ofOthers || Object.hasOwn(properties, key);
    if (isSet && isKnown) {
      const ofField = ofOthers ?? properties?.[key];
      (known ?? object)[key] = ofField ? walk(value, ofField, place, ignored) : value;
    } else {
      known ??= fieldsBefore(key, object);
      if (isSet && ignored.length < mostListed) ignored.push(pathOf(place));
    }
    place.pop();
  }
  return known ?? object;
}

function fieldsBefore(key: string, object: Record<string, unknown>): Record<string, unknown> {
  const fields: Record<string, unknown> = {};
  for (const field in object) {
    if (field === key) break;
    fields[field] = object[field];
  }
  return fields;
}
