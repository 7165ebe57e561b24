import { parentPort } from 'node:worker_threads';
import { screenBody, type UnscreenedBody } from './screen-body.ts';

parentPort?.on('message', (body: UnscreenedBody) => {
  const screened = screenBody(body);
  parentPort?.postMessage(screened, screened.type === 'allowed' ? [screened.bytes.buffer] : []);
});
parentPort?.postMessage('ready');
