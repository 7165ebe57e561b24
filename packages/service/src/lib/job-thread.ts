import { type ResourceLimits, type Transferable, Worker } from 'node:worker_threads';

/** Watches a job that has begun and may give it up; returns how to stop watching. */
export type Watch = (giveUp: (reason: Error) => void) => () => void;

/**
 * A worker thread for one job at a time, started with the first one. Its script posts one message when it is ready, then
 * one per job. A job that fails or is given up ends the thread, and the next job gets a new one.
 */
export class JobThread<Job, Answer> {
  readonly #file: URL;
  readonly #resourceLimits: ResourceLimits;
  #worker: Promise<Worker> | undefined;

  constructor(file: URL, resourceLimits: ResourceLimits) {
    this.#file = file;
    this.#resourceLimits = resourceLimits;
  }

  /** Starts the thread if there is none. */
  async ready(): Promise<Worker> {
    this.#worker ??= this.#start();
    try {
      return await this.#worker;
    } catch (error) {
      this.#worker = undefined;
      throw error;
    }
  }

  async ask(
    job: Job,
    transferred: readonly Transferable[] = [],
    watch: Watch = () => () => {},
  ): Promise<Answer> {
    const worker = await this.ready();
    try {
      return await answerOf<Answer>(worker, watch, () => worker.postMessage(job, [...transferred]));
    } catch (error) {
      await this.end();
      throw error;
    }
  }

  async end(): Promise<void> {
    const ending = this.#worker;
    this.#worker = undefined;
    await (await ending?.catch(() => undefined))?.terminate();
  }

  #start(): Promise<Worker> {
    const worker = new Worker(this.#file, { env: {}, execArgv: [], resourceLimits: this.#resourceLimits });
    // The process may end while the thread waits for a job.
    worker.unref();
    // It stays: an error of a thread that was given up must not end the process.
    worker.on('error', () => {});
    return answerOf(
      worker,
      () => () => {},
      () => {},
    ).then(() => worker);
  }
}

function answerOf<Answer>(worker: Worker, watch: Watch, send: () => void): Promise<Answer> {
  let stop = (): void => {};
  return new Promise<Answer>((resolve, reject) => {
    const exited = () => reject(new Error('its thread ended'));
    const unwatch = watch(reject);
    worker.on('message', resolve).on('error', reject).on('exit', exited);
    stop = () => {
      unwatch();
      worker.off('message', resolve).off('error', reject).off('exit', exited);
    };
    send();
  }).finally(() => stop());
}
