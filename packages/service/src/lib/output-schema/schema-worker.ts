import { JobThread, type Watch } from '../job-thread.ts';
import { packageFile } from '../package-file.ts';

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

/** A thread can't be started from a source in TypeScript. */
const workerFile = packageFile('dist/bundle/schema-worker.js');

export class SchemaWorker {
  readonly #lanes = new Map<string, Waiting[]>();
  readonly #thread = new JobThread<SchemaJob, SchemaAnswer>(workerFile, {
    maxOldGenerationSizeMb: schemaLimits.heapMb,
    maxYoungGenerationSizeMb: 16,
    stackSizeMb: 4,
  });
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

  /** A thread that does not start is our fault; what goes wrong after that is the job's. */
  async #perform(job: SchemaJob): Promise<SchemaAnswer> {
    await this.#thread.ready();
    const answer = await this.#thread
      .ask(job, [], withinLimit)
      .catch(({ message }: Error): SchemaAnswer => ({ type: 'over-limit', message }));
    if (answer.type === 'over-limit') await this.#thread.end();
    return answer;
  }
}

/** Of this process. */
export const schemaWorker = new SchemaWorker();

/**
 * The time counts from here: what it takes to start the thread is not the job's fault. It is the processor time of the
 * process, so that a schema is not refused because the machine is busy with something else.
 */
const withinLimit: Watch = (giveUp) => {
  const { timeMs } = schemaLimits;
  const startMs = performance.now();
  const before = process.cpuUsage();
  const timer = setInterval(() => {
    const { user, system } = process.cpuUsage(before);
    const isOver = (user + system) / 1000 > timeMs || performance.now() - startMs > mostWaits * timeMs;
    if (isOver) giveUp(new Error(`it takes longer than ${timeMs} ms`));
  }, timeMs / 10);
  return () => clearInterval(timer);
};
