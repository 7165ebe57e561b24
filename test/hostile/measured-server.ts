import { randomUUID } from 'node:crypto';
import { mkdtempSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect } from 'vitest';
import { MusterRunner } from '../agents/test-service.ts';
import { apiOf } from '../support/api.ts';
import { createKey } from '../support/catalog.ts';
import { removeTree } from '../support/files.ts';
import { type Server, startServer } from '../support/server.ts';

interface Measured {
  /** The most processor time of one turn of the event loop. */
  readonly turnMs: number;
  readonly grownBytes: number;
}

interface Yardstick {
  readonly yardstickMs: number;
}

type MeasuredProcess = 'service' | 'runner';

const mostTurnMs = 500;
/** Of a fixed piece of work, where that takes longer than usual. A quiet machine does it in 15 to 30 ms. */
const mostYardsticks = 16;
/** On a busy machine the same work takes up to ten times its usual processor time: the least of these counts. */
const measurements = 3;
const mostGrownBytes = 200 * 1024 * 1024;

/** `apart`: the runner is a `muster runner` with its own key and data folder, and not the one of `muster serve`. */
const isApart = process.env.MUSTER_TEST_RUNNER === 'apart';

/** A service that measures itself and its runner, which is another process (see probe.mjs). Call it at the top of the file. */
export async function useMeasuredServer(env: Readonly<Record<string, string>> = {}) {
  const socketPath = join(tmpdir(), `probe-${randomUUID().slice(0, 8)}.sock`);
  const socketPaths = { service: socketPath, runner: `${socketPath}.runner` };
  const measuredEnv = {
    ...env,
    NODE_OPTIONS: `--import ${new URL('./probe.mjs', import.meta.url).href}`,
    MUSTER_TEST_PROBE: socketPath,
  };
  const server = await startServer({ nodeFlags: [], runner: !isApart, env: measuredEnv });
  afterAll(() => server.close());
  if (isApart) await startRunner(server, measuredEnv);
  const ask = <T = Measured>(path: string, process: MeasuredProcess = 'service'): Promise<T> =>
    new Promise((resolve, reject) => {
      const sent = request({ socketPath: socketPaths[process], path }, (response) => {
        let text = '';
        response.on('data', (chunk) => {
          text += chunk;
        });
        response.on('end', () => resolve(JSON.parse(text)));
      });
      sent.on('error', reject);
      sent.end();
    });
  const measure = async <T>(work: () => Promise<T>) => {
    await Promise.all([ask('/reset'), ask('/reset', 'runner')]);
    const result = await work();
    const [service, runner] = await Promise.all([ask('/'), ask('/', 'runner')]);
    for (const { grownBytes } of [service, runner])
      expect(grownBytes, 'growth of memory, in bytes').toBeLessThan(mostGrownBytes);
    return { result, turnMs: Math.max(service.turnMs, runner.turnMs) };
  };
  /** Fails when the work was too expensive for one of the two processes in each of its measurements. */
  const expectCheap = async <T>(work: () => Promise<T>, most = measurements): Promise<T> => {
    let measured = await measure(work);
    for (let n = 1; n < most && measured.turnMs >= mostTurnMs; n++) measured = await measure(work);
    if (measured.turnMs < mostTurnMs) return measured.result;
    const { yardstickMs } = await ask<Yardstick>('/yardstick');
    const mostMs = Math.max(mostTurnMs, mostYardsticks * yardstickMs);
    expect(measured.turnMs, 'processor time of the longest turn of the event loop, in ms').toBeLessThan(
      mostMs,
    );
    return measured.result;
  };
  /** Blocks the event loop of the service, or of its runner, for that much processor time. */
  const block = async (ms: number, process?: MeasuredProcess): Promise<void> =>
    void (await ask(`/block?ms=${ms}`, process));
  return { server, expectCheap, block };
}

async function startRunner(server: Server, env: Readonly<Record<string, string>>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'muster-runner-'));
  const { key } = await createKey(apiOf(server), { role: 'runner', pool: 'default' });
  const options = { url: server.url, key, pool: 'default', folder, env, nodeFlags: [] };
  const runner = await MusterRunner.start(options);
  afterAll(async () => {
    await runner.kill();
    removeTree(folder);
  });
}
