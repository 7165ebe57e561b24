import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readBody } from './read-body.ts';

const server = createServer(async (request, response) => {
  const read = await readBody(request, { bytes: 10, arrivalMs: 50 });
  response.setHeader('connection', 'close');
  response.end(typeof read === 'string' ? read : `read: ${read}`);
});
beforeAll(async () => {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
});
afterAll(() => void server.close());

async function replyTo(request: string): Promise<string> {
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  socket.write(`POST / HTTP/1.1\r\nhost: x\r\n${request}`);
  return (await text(socket)).split('\r\n').at(-1) ?? '';
}

test.each([
  ['that is complete', 'content-length: 4\r\n\r\nbody', 'read: body'],
  ['that comes too late', 'content-length: 5\r\n\r\nbody', 'cut'],
  ['in chunks that is too large', 'transfer-encoding: chunked\r\n\r\nb\r\nelevenbytes\r\n', 'too-large'],
])('the sender of a body %s gets a reply', async (_, request, reply) => {
  const answer = await replyTo(request);
  expect(answer || 'the connection was closed').toContain(reply);
});
