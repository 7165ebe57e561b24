import { isUtf8 } from 'node:buffer';
import { limits, type Schema } from '@muster/sdk/contract';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { exceededBound, isObject, unsafeText } from '../lib/json.ts';
import { validator } from '../lib/validator.ts';
import { invalidField } from './errors.ts';

const largeBytes = 64 * 1024;

/** Bodies are JSON objects. An empty body is `{}`; a missing media type counts as JSON. */
export function readJsonOnly(app: FastifyInstance): void {
  // Large bodies are parsed one per turn of the event loop, so that several of them don't delay other requests.
  let turn = Promise.resolve();
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, async (request: FastifyRequest, bytes: Buffer) => {
    refuseOtherMediaType(request);
    if (bytes.length > largeBytes) {
      turn = turn.then(() => new Promise((resolve) => setImmediate(resolve)));
      await turn;
    }
    return parseBody(bytes);
  });
}

function refuseOtherMediaType({ headers }: FastifyRequest): void {
  const type = headers['content-type'];
  if (type && !/^application\/(?:[\w.-]+\+)?json\s*(?:;|$)/i.test(type))
    throw invalidField('Content-Type', 'must be application/json');
}

function parseBody(bytes: Buffer): Record<string, unknown> {
  if (bytes.length === 0) return {};
  if (exceededBound(bytes, { depth: limits.bodyDepth }))
    throw invalidField('', `the body must not be nested deeper than ${limits.bodyDepth} levels`);
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
 * A body as the schema defines it: null is the same as absent, unknown fields are dropped and listed in `ignored`, and
 * text that the database can't store is refused. Values that the schema leaves open are passed on unchanged.
 */
export function checked(body: unknown, schema: Schema, ignored: string[] = []): unknown {
  const value = walk(body, schema, '', ignored);
  const violation = validator(schema)(value);
  if (violation) throw invalidField(violation.field, violation.description);
  return value;
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
