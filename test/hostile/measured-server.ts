import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import { useSharedServer } from '../support/shared-server.ts';

interface Measured {
  /** The most processor time of one turn of the event loop. */
  readonly turnMs: number;
  readonly grownBytes: number;
}

const mostTurnMs = 250;
const mostGrownBytes = 200 * 1024 * 1024;

/** What a service measures of itself (see probe.mjs). */
interface Probe {
  /** The environment of the service. */
  readonly env: Record<string, string>;
  /** Fails when the work was too expensive for the service. */
  expectCheap<T>(work: () => Promise<T>): Promise<T>;
  /** Blocks the event loop for that long. */
  block(ms: number): Promise<void>;
}

/** Call it at the top of the file: the files of one worker share the service. */
export async function useMeasuredServer() {
  const probe = probeOf(`shared-${process.pid}`);
  return { ...(await useSharedServer({ env: probe.env })), ...probe };
}

export function probeOf(name: string): Probe {
  const socketPath = join(tmpdir(), `muster-probe-${name}.sock`);
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
  return {
    env: {
      NODE_OPTIONS: `--import ${new URL('./probe.mjs', import.meta.url).href}`,
      MUSTER_TEST_PROBE: socketPath,
    },
    expectCheap: async <T>(work: () => Promise<T>): Promise<T> => {
      await ask('/reset');
      const result = await work();
      const { turnMs, grownBytes } = await ask('/');
      expect(turnMs, 'processor time of the longest turn of the event loop, in ms').toBeLessThan(mostTurnMs);
      expect(grownBytes, 'growth of memory, in bytes').toBeLessThan(mostGrownBytes);
      return result;
    },
    block: async (ms: number) => void (await ask(`/block?ms=${ms}`)),
  };
}
