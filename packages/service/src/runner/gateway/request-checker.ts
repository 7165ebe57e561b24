import type { ServerResponse } from 'node:http';
import { JobThread } from '../../lib/job-thread.ts';
import { packageFile } from '../../lib/package-file.ts';
import { Capacity } from './capacity.ts';
import type { CheckedRequest, UncheckedRequest } from './provider-request.ts';

/** The bundle: a thread can't be started from a TypeScript source. */
const workerFile = packageFile('dist/bundle/request-check-worker.js');

/** Checking the largest body takes about 300 MB. */
const heapMb = 512;

/** An idle thread ends after this time, which frees its memory. */
const idleMs = 30_000;

/**
 * Checks requests on a worker thread, one at a time. A body of 32 MiB takes up to a second, and the main thread may
 * also be serving the API.
 */
export class RequestChecker {
  readonly #turn = new Capacity(1);
  readonly #thread = new JobThread<UncheckedRequest, CheckedRequest>(workerFile, {
    maxOldGenerationSizeMb: heapMb,
  });
  #idle: NodeJS.Timeout | undefined;

  /** Moves the bytes to the thread. Undefined when the response has closed meanwhile. */
  async check(request: UncheckedRequest, response: ServerResponse): Promise<CheckedRequest | undefined> {
    const release = await this.#turn.take(1, response);
    if (!release) return undefined;
    try {
      return await this.#ask(request);
    } finally {
      release();
    }
  }

  async #ask(request: UncheckedRequest): Promise<CheckedRequest> {
    clearTimeout(this.#idle);
    try {
      const checked = await this.#thread.ask(request, [request.bytes.buffer]);
      this.#idle = setTimeout(() => void this.#thread.end(), idleMs).unref();
      return checked;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ERR_WORKER_OUT_OF_MEMORY') throw error;
      return { type: 'refused', status: 413, message: 'The body takes too much memory to be checked' };
    }
  }
}
