import { parentPort } from 'node:worker_threads';
import { doTextJob, type TextAnswer, type TextJob } from './text-job.ts';

/** The thread that parses texts of documents. */
function answerTo(job: TextJob): TextAnswer {
  try {
    return doTextJob(job);
  } catch {
    // Nested too deeply, or aliases that expand too far. Not the parser's text, which quotes the document.
    return { type: 'bad-text', message: 'is too complex: nested too deeply, or with too many aliases' };
  }
}

parentPort?.on('message', (job: TextJob) => parentPort?.postMessage(answerTo(job)));
parentPort?.postMessage('ready');
