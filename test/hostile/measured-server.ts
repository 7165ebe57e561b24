import { randomUUID } from 'node:crypto';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import { type Server, startServer } from '../support/server.ts';

export interface Measured {
  /** The most processor time of one turn of the event loop. */
  readonly turnMs: number;
  readonly grownBytes: number;
}

const mostTurnMs = 250;
const mostGrownBytes = 200 * 1024 * 1024;

/** A service that measures itself (see probe.mjs). */
export interface MeasuredServer extends Server {
  /** Fails when the work was too expensive for the service. */
  expectCheap<T>(work: () => Promise<T>): Promise<T>;
  /** Blocks the event loop for that long. */
  block(ms: number): Promise<void>;
}

export async function startMeasuredServer(env: Record<string, string> = {}): Promise<MeasuredServer> {
  const socketPath = join(tmpdir(), `muster-probe-${randomUUID().slice(0, 8)}.sock`);
  const server = await startServer({
    env: {
      NODE_OPTIONS: `--import ${new URL('./probe.mjs', import.meta.url).href}`,
      MUSTER_TEST_PROBE: socketPath,
      ...env,
    },
  });
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
  return Object.assign(server, {
    expectCheap: async <T>(work: () => Promise<T>): Promise<T> => {
      await ask('/reset');
      const result = await work();
      const { turnMs, grownBytes } = await ask('/');
      expect(turnMs, 'processor time of the longest turn of the event loop, in ms').toBeLessThan(mostTurnMs);
      expect(grownBytes, 'growth of memory, in bytes').toBeLessThan(mostGrownBytes);
      return result;
    },
    block: async (ms: number) => void (await ask(`/block?ms=${ms}`)),
  });
}
