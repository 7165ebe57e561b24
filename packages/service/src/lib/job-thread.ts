import { type ResourceLimits, type Transferable, Worker } from 'node:worker_threads';

/** Watches a running job, which it can abort; returns a function that ends the watch. */
export type Watch = (abort: (reason: Error) => void) => () => void;

/**
 * A worker thread for one job at a time, started with the first job. Its script posts a message when it is ready, then
 * one per job. A job that fails or is aborted ends the thread, and the next job gets a new one.
 */
export class JobThread<Job, Answer> {
  readonly #file: URL;
  readonly #resourceLimits: ResourceLimits;
  #worker: Promise<Worker> | undefined;

  constructor(file: URL, resourceLimits: ResourceLimits) {
    this.#file = file;
    this.#resourceLimits = resourceLimits;
  }

  /** Starts the thread if it is not running. */
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
    // An idle thread does not keep the process running.
    worker.unref();
    // Kept for the life of the thread: an unhandled error would end the process.
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
    const exited = () => reject(new Error('the worker thread ended'));
    const unwatch = watch(reject);
    worker.on('message', resolve).on('error', reject).on('exit', exited);
    stop = () => {
      unwatch();
      worker.off('message', resolve).off('error', reject).off('exit', exited);
    };
    send();
  }).finally(() => stop());
}
