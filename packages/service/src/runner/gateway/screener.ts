import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { Capacity } from './capacity.ts';
import type { ScreenedBody, UnscreenedBody } from './screen-body.ts';

/** A thread can't be started from a source in TypeScript; `src` and `dist` are equally far from here. */
const workerFile = new URL('../../../dist/runner/gateway/screen-worker.js', import.meta.url);

/** The largest body takes about 300 MB for a moment. */
const heapMb = 512;

/** How long the thread is kept for the next body; with it goes the memory of the last one. */
const idleMs = 30_000;

type Holder = Parameters<Capacity['take']>[1];

/**
 * Screens bodies on a thread of its own, one at a time: to parse and write a body of 32 MiB takes up to a second, and
 * the runner may live in the process that serves the API.
 */
export class Screener {
  readonly #turn = new Capacity(1);
  #worker: Worker | undefined;
  #idle: NodeJS.Timeout | undefined;

  /** The bytes move to the thread: the caller has them no more. Undefined when the holder has closed meanwhile. */
  async screen(body: UnscreenedBody, holder: Holder): Promise<ScreenedBody | undefined> {
    const release = await this.#turn.take(1, holder);
    if (!release) return undefined;
    try {
      return await this.#ask(body);
    } finally {
      release();
    }
  }

  async #ask(body: UnscreenedBody): Promise<ScreenedBody> {
    clearTimeout(this.#idle);
    this.#worker ??= startWorker();
    const worker = this.#worker;
    const over = new AbortController();
    try {
      worker.postMessage(body, [body.bytes.buffer]);
      const gone = once(worker, 'exit', over).then(() => Promise.reject(new Error('the thread has ended')));
      const [screened] = (await Promise.race([once(worker, 'message', over), gone])) as [ScreenedBody];
      this.#idle = setTimeout(() => this.#end(), idleMs).unref();
      return screened;
    } catch (error) {
      this.#end();
      if ((error as NodeJS.ErrnoException).code !== 'ERR_WORKER_OUT_OF_MEMORY') throw error;
      return { type: 'refused', status: 413, message: 'The body takes too much memory to be checked' };
    } finally {
      over.abort();
    }
  }

  #end(): void {
    void this.#worker?.terminate();
    this.#worker = undefined;
  }
}

function startWorker(): Worker {
  const worker = new Worker(workerFile, { resourceLimits: { maxOldGenerationSizeMb: heapMb } });
  worker.unref();
  worker.on('error', () => {});
  return worker;
}
