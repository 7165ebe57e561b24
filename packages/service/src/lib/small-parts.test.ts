import { once } from 'node:events';
import { createServer, type IncomingMessage, request } from 'node:http';
import { type AddressInfo, connect, createServer as createTcpServer } from 'node:net';
import { expect, test } from 'vitest';
import { refuseSmallParts } from './small-parts.ts';

const single = '1\r\nx\r\n';
const head = 'transfer-encoding: chunked\r\nconnection: close\r\n\r\n';

/** How many bytes of a body arrive, and whether all of them do. */
async function received(message: IncomingMessage): Promise<{ bytes: number; isWhole: boolean }> {
  let bytes = 0;
  message.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
  });
  await once(message, 'close').catch(() => {});
  return { bytes, isWhole: message.complete };
}

const bodies: readonly (readonly [what: string, body: string, isWhole: boolean])[] = [
  ['many parts of one byte', single.repeat(20_000), false],
  ['few parts of one byte', single.repeat(500), true],
  ['many larger parts', `80\r\n${'x'.repeat(128)}\r\n`.repeat(20_000), true],
];

test.each(bodies)('a request with %s', async (_, body, isWhole) => {
  const server = createServer((message, response) => {
    refuseSmallParts(message);
    done(received(message).finally(() => response.end()));
  }).listen(0, '127.0.0.1');
  let done: (result: Promise<{ isWhole: boolean }>) => void = () => {};
  const result = new Promise<{ isWhole: boolean }>((resolve) => {
    done = resolve;
  });
  await once(server, 'listening');
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1').on('error', () => {});
  socket.write(`POST / HTTP/1.1\r\nhost: x\r\n${head}${body}0\r\n\r\n`);
  expect((await result).isWhole).toBe(isWhole);
  socket.destroy();
  server.close();
});

test.each(bodies)('a reply with %s', async (_, body, isWhole) => {
  const server = createTcpServer((socket) => {
    socket.on('error', () => {}).once('data', () => socket.end(`HTTP/1.1 200 OK\r\n${head}${body}0\r\n\r\n`));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const sent = request({ port: (server.address() as AddressInfo).port, host: '127.0.0.1' }).end();
  const { isWhole: arrived } = await new Promise<{ isWhole: boolean }>((resolve) => {
    sent.on('response', (reply) => {
      refuseSmallParts(reply);
      resolve(received(reply.on('error', () => {})));
    });
  });
  expect(arrived).toBe(isWhole);
  server.close();
});
