import { Worker } from 'node:worker_threads';

/**
 * Schemas are programs that callers write: to compile one, or to check a value with it, may take for ever. One worker
 * thread does it, one job at a time, within limits on time and memory; a job that exceeds them ends with the thread,
 * and the next job gets a new one. Jobs of different owners take turns, so an owner waits for one job of each other.
 */
export interface SchemaJob {
  /** The JSON text of the schema. */
  readonly schema: string;
  /** JSON text of a value to check; absent: the schema is only compiled. */
  readonly value?: string;
  /** Asks for a small value that fits the schema. */
  readonly sample?: true;
}

export type SchemaAnswer =
  | { readonly type: 'done'; readonly problems: readonly string[]; readonly sample?: string | undefined }
  | { readonly type: 'bad-schema' | 'over-limit' | 'busy'; readonly message: string };

interface Waiting {
  readonly job: SchemaJob;
  readonly resolve: (answer: SchemaAnswer) => void;
  readonly reject: (error: unknown) => void;
}

export const schemaLimits = { timeMs: 2000, heapMb: 96 } as const;

/** How many times as long a job may take by the clock. */
const mostWaits = 5;

/** The compiled file: the same one whether this module was compiled or is run from its source. */
const workerFile = new URL('../../../dist/lib/output-schema/worker.js', import.meta.url);

export class SchemaWorker {
  readonly #lanes = new Map<string, Waiting[]>();
  #worker: Promise<Worker> | undefined;
  #isBusy = false;

  /** `busy` when the owner has so many jobs waiting already. */
  run(owner: string, job: SchemaJob, mostWaiting = Number.POSITIVE_INFINITY): Promise<SchemaAnswer> {
    const lane = this.#lanes.get(owner) ?? [];
    if (lane.length >= mostWaiting) {
      return Promise.resolve({ type: 'busy', message: `${mostWaiting} schemas are waiting to be checked` });
    }
    this.#lanes.set(owner, lane);
    return new Promise((resolve, reject) => {
      lane.push({ job, resolve, reject });
      void this.#drain();
    });
  }

  async #drain(): Promise<void> {
    if (this.#isBusy) return;
    this.#isBusy = true;
    for (let next = this.#take(); next; next = this.#take()) {
      await this.#perform(next.job).then(next.resolve, next.reject);
    }
    this.#isBusy = false;
  }

  /** Of the first lane, which then goes behind the others. */
  #take(): Waiting | undefined {
    const [first] = this.#lanes;
    if (!first) return undefined;
    const [owner, lane] = first;
    const next = lane.shift();
    this.#lanes.delete(owner);
    if (lane.length > 0) this.#lanes.set(owner, lane);
    return next;
  }

  async #perform(job: SchemaJob): Promise<SchemaAnswer> {
    this.#worker ??= startWorker();
    const worker = await this.#worker.catch((error: unknown) => {
      this.#worker = undefined;
      throw error;
    });
    const answer = await answerOf(worker, job);
    if (answer.type !== 'over-limit') return answer;
    this.#worker = undefined;
    await worker.terminate();
    return answer;
  }
}

/** Of this process. The thread is started with the first job. */
export const schemaWorker = new SchemaWorker();

function startWorker(): Promise<Worker> {
  const worker = new Worker(workerFile, {
    env: {},
    execArgv: [],
    resourceLimits: {
      maxOldGenerationSizeMb: schemaLimits.heapMb,
      maxYoungGenerationSizeMb: 16,
      stackSizeMb: 4,
    },
  });
  // The process may end while the thread waits for a job.
  worker.unref();
  return new Promise((resolve, reject) => {
    worker.once('message', () => resolve(worker));
    // It stays: an error of a thread that was given up must not end the process.
    worker.on('error', reject);
  });
}

/**
 * The time counts from here: what it takes to start the thread is not the job's fault. It is the processor time of the
 * process, so that a schema is not refused because the machine is busy with something else.
 */
function answerOf(worker: Worker, job: SchemaJob): Promise<SchemaAnswer> {
  return new Promise((resolve) => {
    const end = (answer: SchemaAnswer) => {
      clearInterval(timer);
      worker.off('message', end).off('error', failed).off('exit', exited);
      resolve(answer);
    };
    const overLimit = (message: string) => end({ type: 'over-limit', message });
    const failed = ({ message }: Error) => overLimit(message);
    const exited = () => overLimit('its thread ended');
    const { timeMs } = schemaLimits;
    const startMs = performance.now();
    const before = process.cpuUsage();
    const timer = setInterval(() => {
      const { user, system } = process.cpuUsage(before);
      const isOver = (user + system) / 1000 > timeMs || performance.now() - startMs > mostWaits * timeMs;
      if (isOver) overLimit(`it takes longer than ${timeMs} ms`);
    }, timeMs / 10);
    worker.on('message', end).on('error', failed).on('exit', exited);
    worker.postMessage(job);
  });
}
