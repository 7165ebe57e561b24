import { parentPort } from 'node:worker_threads';
import { messageOf } from '../errors.ts';
import { compileSchema, problemsIn, type Schema, smallestInstance } from './schema.ts';
import type { SchemaAnswer, SchemaJob } from './schema-worker.ts';

/** The thread that compiles and evaluates schemas. The main thread ends it when a job takes too long. */
const cached = new Map<string, Schema>();
const mostCached = 4;

function schemaOf(text: string): Schema {
  const schema = cached.get(text) ?? compileSchema(text);
  cached.delete(text);
  cached.set(text, schema);
  for (const [oldest] of cached) if (cached.size > mostCached) cached.delete(oldest);
  return schema;
}

function answerTo({ schema: text, value, sample }: SchemaJob): SchemaAnswer {
  let schema: Schema;
  try {
    schema = schemaOf(text);
  } catch (error) {
    return { type: 'bad-schema', message: messageOf(error).slice(0, 1000) };
  }
  try {
    if (sample) return { type: 'done', problems: [], sample: JSON.stringify(smallestInstance(schema)) };
    return { type: 'done', problems: value === undefined ? [] : problemsIn(schema, JSON.parse(value)) };
  } catch (error) {
    // A schema that refers to itself without end, for example.
    return { type: 'over-limit', message: messageOf(error).slice(0, 1000) };
  }
}

parentPort?.on('message', (job: SchemaJob) => parentPort?.postMessage(answerTo(job)));
parentPort?.postMessage('ready');
