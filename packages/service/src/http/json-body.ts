import { isUtf8 } from 'node:buffer';
import { limits } from '@muster/sdk/contract';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { exceededBound, isObject } from '../lib/json.ts';
import { invalidField } from './errors.ts';

const largeBytes = 64 * 1024;

/** Bodies are JSON objects. An empty one is `{}`; a missing media type is taken for JSON. */
export function readJsonOnly(app: FastifyInstance): void {
  const turn = turnTaking();
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, async (request: FastifyRequest, bytes: Buffer) => {
    refuseOtherMediaType(request);
    if (bytes.length > largeBytes) await turn();
    return parseBody(bytes);
  });
}

export function refuseOtherMediaType({ headers }: FastifyRequest): void {
  const type = headers['content-type'];
  if (type && !/^application\/(?:[\w.-]+\+)?json\s*(?:;|$)/i.test(type)) {
    throw invalidField('Content-Type', 'must be application/json');
  }
}

export function parseBody(bytes: Buffer): Record<string, unknown> {
  if (bytes.length === 0) return {};
  if (exceededBound(bytes, { depth: limits.bodyDepth })) {
    throw invalidField('', `the body must not be nested deeper than ${limits.bodyDepth} levels`);
  }
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

/** Large bodies get a turn of the event loop each: several in one turn would hold up everyone else. */
function turnTaking(): () => Promise<void> {
  let last = Promise.resolve();
  return () => {
    last = last.then(() => new Promise((resolve) => setImmediate(resolve)));
    return last;
  };
}
