import { parentPort } from 'node:worker_threads';
import { checkRequest, type UncheckedRequest } from './provider-request.ts';

/** The thread that parses and checks requests to providers, so that a large one does not stop the gateway. */
parentPort?.on('message', (request: UncheckedRequest) => {
  const checked = checkRequest(request);
  parentPort?.postMessage(checked, checked.type === 'allowed' ? [checked.bytes.buffer] : []);
});
parentPort?.postMessage('ready');
