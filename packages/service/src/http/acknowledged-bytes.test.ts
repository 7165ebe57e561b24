import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { AcknowledgedBytes } from './acknowledged-bytes.ts';

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
  const client = connect({ host: target, port });
  client.pause();
  const [served] = (await accepted) as [Socket];
  for (const socket of [client, served]) {
    socket.on('error', () => {});
    cleanUps.push(() => socket.destroy());
  }
  return { client, served };
}

describe.skipIf(!isLinux)('acknowledged bytes', () => {
  test.each([
    ['127.0.0.1', '127.0.0.1'],
    ['::1', '::1'],
    ['::', '127.0.0.1'],
  ])(
    'count everything that the client has received, with a server at %s and a client at %s',
    async (host, target) => {
      const { client, served } = await connected(host, target);
      client.resume();
      served.write('x'.repeat(1_000));
      const acknowledged = new AcknowledgedBytes(10);
      await expect.poll(() => acknowledged.bytesOf(served)).toBe(1_000);
    },
  );

  test('are unknown while Node buffers a part, and complete once the client has read it', async () => {
    const { client, served } = await connected('127.0.0.1', '127.0.0.1');
    // More than the kernel's buffers hold, so Node buffers the rest.
    const sizeBytes = 64 * 1024 * 1024;
    served.write(Buffer.alloc(sizeBytes));
    const acknowledged = new AcknowledgedBytes(10);
    expect(await acknowledged.bytesOf(served)).toBe(null);
    client.resume();
    await expect.poll(() => acknowledged.bytesOf(served)).toBe(sizeBytes);
  });

  test('are unknown for a closed connection', async () => {
    const { client, served } = await connected('127.0.0.1', '127.0.0.1');
    client.destroy();
    await once(served, 'close');
    expect(await new AcknowledgedBytes(10).bytesOf(served)).toBe(null);
  });
});
