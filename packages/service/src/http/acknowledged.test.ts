import { once } from 'node:events';
import { createServer, connect as dial, type Socket } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { Acknowledged } from './acknowledged.ts';

const isLinux = process.platform === 'linux';
if (!isLinux)
  process.stderr.write('\n*** TESTS OF ACKNOWLEDGED BYTES ARE SKIPPED: only Linux lists them\n\n');

const cleanUps: (() => void)[] = [];
afterEach(() => {
  for (const cleanUp of cleanUps.splice(0)) cleanUp();
});

/** Both ends of a connection; the client reads nothing until it is resumed. */
async function connected(host: string, target: string): Promise<{ client: Socket; served: Socket }> {
  const server = createServer();
  cleanUps.push(() => server.close());
  server.listen({ host, port: 0 });
  await once(server, 'listening');
  const accepted = once(server, 'connection');
  const { port } = server.address() as { port: number };
  const client = dial({ host: target, port });
  client.pause();
  const [served] = (await accepted) as [Socket];
  for (const socket of [client, served]) {
    socket.on('error', () => {});
    cleanUps.push(() => socket.destroy());
  }
  return { client, served };
}

describe.skipIf(!isLinux)('the bytes that a client has acknowledged', () => {
  test.each([
    ['127.0.0.1', '127.0.0.1'],
    ['::1', '::1'],
    ['::', '127.0.0.1'],
  ])('are all of them once it has them, with a service at %s and a client of %s', async (host, target) => {
    const { client, served } = await connected(host, target);
    client.resume();
    served.write('x'.repeat(1_000));
    const acknowledged = new Acknowledged(10);
    await expect.poll(() => acknowledged.bytesOf(served)).toBe(1_000);
  });

  test('are unknown while Node still holds a part, and all of them once the client has read', async () => {
    const { client, served } = await connected('127.0.0.1', '127.0.0.1');
    // More than both kernels' buffers hold, so Node keeps the rest.
    const sizeBytes = 64 * 1024 * 1024;
    served.write(Buffer.alloc(sizeBytes));
    const acknowledged = new Acknowledged(10);
    expect(await acknowledged.bytesOf(served)).toBe(null);
    client.resume();
    await expect.poll(() => acknowledged.bytesOf(served)).toBe(sizeBytes);
  });

  test('are unknown for a connection that is gone', async () => {
    const { client, served } = await connected('127.0.0.1', '127.0.0.1');
    client.destroy();
    await once(served, 'close');
    expect(await new Acknowledged(10).bytesOf(served)).toBe(null);
  });
});
