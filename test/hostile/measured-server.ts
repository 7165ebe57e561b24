import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect } from 'vitest';
import { startServer } from '../support/server.ts';

interface Measured {
  /** The most processor time of one turn of the event loop. */
  readonly turnMs: number;
  readonly grownBytes: number;
}

const mostTurnMs = 250;
const mostGrownBytes = 200 * 1024 * 1024;

/** A service that measures itself (see probe.mjs). Call it at the top of the file. */
export async function useMeasuredServer() {
  const socketPath = join(tmpdir(), `muster-probe-${process.pid}.sock`);
  const server = await startServer({
    env: {
      NODE_OPTIONS: `--import ${new URL('./probe.mjs', import.meta.url).href}`,
      MUSTER_TEST_PROBE: socketPath,
    },
  });
  afterAll(() => server.close());
  const ask = (path: string): Promise<Measured> =>
    new Promise((resolve, reject) => {
      const sent = request({ socketPath, path }, (response) => {
        let text = '';
        response.on('data', (chunk) => {
          text += chunk;
        });
        response.on('end', () => resolve(JSON.parse(text)));
      });
      sent.on('error', reject);
      sent.end();
    });
  /** Fails when the work was too expensive for the service. */
  const expectCheap = async <T>(work: () => Promise<T>): Promise<T> => {
    await ask('/reset');
    const result = await work();
    const { turnMs, grownBytes } = await ask('/');
    expect(turnMs, 'processor time of the longest turn of the event loop, in ms').toBeLessThan(mostTurnMs);
    expect(grownBytes, 'growth of memory, in bytes').toBeLessThan(mostGrownBytes);
    return result;
  };
  /** Blocks the event loop of the service for that long. */
  const block = async (ms: number): Promise<void> => void (await ask(`/block?ms=${ms}`));
  return { server, expectCheap, block };
}
