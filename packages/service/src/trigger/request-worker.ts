import { parentPort } from 'node:worker_threads';
import { messageOf } from '../lib/errors.ts';
import { type ReadRequest, type RequestJob, readRequest } from './read-request.ts';

export type RequestAnswer = ReadRequest | { readonly unreadable: string };

/** The thread that reads requests to triggers. */
function answerTo(job: RequestJob): RequestAnswer {
  try {
    return readRequest(job);
  } catch (error) {
    return { unreadable: messageOf(error).slice(0, 500) };
  }
}

parentPort?.on('message', (job: RequestJob) => parentPort?.postMessage(answerTo(job)));
parentPort?.postMessage('ready');
