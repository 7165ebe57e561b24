import { hash } from 'node:crypto';
import { parentPort } from 'node:worker_threads';
import { gunzipSync } from 'node:zlib';
import { messageOf } from '../lib/errors.ts';
import { isObject } from '../lib/json.ts';
import { parseHostJson, parseReply } from '../work/host-json.ts';
import { readers } from './hosts.ts';
import type { DeliveryJob, ReadingAnswer, ReadingJob } from './reading-thread.ts';

/** The thread that parses the bodies of deliveries, which may have 25 MiB, and large replies of hosts. */
function answerTo(job: ReadingJob): ReadingAnswer {
  try {
    if ('json' in job) return { type: 'json', json: parseReply(job.json) };
    return readDelivery(job.delivery);
  } catch (error) {
    return { type: 'unreadable', reason: messageOf(error).slice(0, 500) };
  }
}

function readDelivery({ type, headers, body: compressed }: DeliveryJob): ReadingAnswer {
  const body = gunzipSync(compressed);
  const { value } = parseHostJson(jsonIn(body, headers['content-type'] ?? ''));
  if (!isObject(value)) return { type: 'unreadable', reason: 'the body is not a JSON object' };
  const digest = hash('sha256', body, 'hex');
  return { type: 'delivery', delivery: { ...readers[type].read(headers, value), digest } };
}

/** A host can be set to send JSON as a field of a form. */
const jsonIn = (body: Buffer, contentType: string): Buffer =>
  contentType.startsWith('application/x-www-form-urlencoded')
    ? Buffer.from(new URLSearchParams(body.toString()).get('payload') ?? '')
    : body;

parentPort?.on('message', (job: ReadingJob) => parentPort?.postMessage(answerTo(job)));
parentPort?.postMessage('ready');
