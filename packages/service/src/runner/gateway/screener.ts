import { JobThread } from '../../lib/job-thread.ts';
import { packageFile } from '../../lib/package-file.ts';
import { Capacity } from './capacity.ts';
import type { ScreenedBody, UnscreenedBody } from './screen-body.ts';

/** A thread can't be started from a source in TypeScript. */
const workerFile = packageFile('dist/bundle/screen-worker.js');

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
  readonly #thread = new JobThread<UnscreenedBody, ScreenedBody>(workerFile, {
    maxOldGenerationSizeMb: heapMb,
  });
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
    try {
      const screened = await this.#thread.ask(body, [body.bytes.buffer]);
      this.#idle = setTimeout(() => void this.#thread.end(), idleMs).unref();
      return screened;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ERR_WORKER_OUT_OF_MEMORY') throw error;
      return { type: 'refused', status: 413, message: 'The body takes too much memory to be checked' };
    }
  }
}
