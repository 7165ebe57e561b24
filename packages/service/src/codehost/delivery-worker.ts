import { parentPort } from 'node:worker_threads';
import { gunzipSync } from 'node:zlib';
import { messageOf } from '../lib/errors.ts';
import { isObject } from '../lib/json.ts';
import { readers } from './hosts.ts';
import type { DeliveryAnswer, DeliveryJob } from './read-delivery.ts';

/** The thread that unpacks and reads the bodies of deliveries: they may have 25 MiB. */
function answerTo({ type, headers, body }: DeliveryJob): DeliveryAnswer {
  try {
    const text = textOf(gunzipSync(body).toString('utf8'), headers['content-type'] ?? '');
    const parsed: unknown = JSON.parse(text);
    if (!isObject(parsed)) return { type: 'unreadable', reason: 'the body is not a JSON object' };
    return { type: 'read', delivery: readers[type].read(headers, parsed) };
  } catch (error) {
    return { type: 'unreadable', reason: messageOf(error).slice(0, 500) };
  }
}

/** A host can be set to send JSON as a field of a form. */
const textOf = (body: string, contentType: string): string =>
  contentType.startsWith('application/x-www-form-urlencoded')
    ? (new URLSearchParams(body).get('payload') ?? '')
    : body;

parentPort?.on('message', (job: DeliveryJob) => parentPort?.postMessage(answerTo(job)));
parentPort?.postMessage('ready');
