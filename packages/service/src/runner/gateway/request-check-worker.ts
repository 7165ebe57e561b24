import { parentPort } from 'node:worker_threads';
import { checkRequest, type UncheckedRequest } from './provider-request.ts';

parentPort?.on('message', (request: UncheckedRequest) => {
  const checked = checkRequest(request);
  parentPort?.postMessage(checked, checked.type === 'allowed' ? [checked.bytes.buffer] : []);
});
parentPort?.postMessage('ready');
