import { parentPort } from 'node:worker_threads';
import { messageOf } from '../message-of.ts';
import { compileSchema, type Schema } from './schema.ts';
import type { SchemaAnswer, SchemaJob } from './schema-worker.ts';
import { smallestInstance } from './smallest-instance.ts';

/** The thread that compiles and evaluates schemas. What goes on too long here is ended from outside. */
const kept = new Map<string, Schema>();
const mostKept = 4;

function schemaOf(text: string): Schema {
  const schema = kept.get(text) ?? compileSchema(text);
  kept.delete(text);
  kept.set(text, schema);
  for (const [oldest] of kept) if (kept.size > mostKept) kept.delete(oldest);
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
    return { type: 'done', problems: value === undefined ? [] : schema.problemsOf(JSON.parse(value)) };
  } catch (error) {
    // A schema that refers to itself without end, for example.
    return { type: 'over-limit', message: messageOf(error).slice(0, 1000) };
  }
}

parentPort?.on('message', (job: SchemaJob) => parentPort?.postMessage(answerTo(job)));
parentPort?.postMessage('ready');
