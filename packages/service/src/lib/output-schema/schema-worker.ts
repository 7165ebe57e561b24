import type { Claim } from '@muster/sdk/contract';
import { JobThread, type Watch } from '../job-thread.ts';
import { packageFile } from '../package-file.ts';

/**
 * Callers write schemas, and compiling one or checking a value with it may never end. One worker thread does this, one
 * job at a time, with limits on time and memory. A job that exceeds them is ended with the thread, and the next job gets
 * a new thread. Jobs of different owners take turns, so an owner waits for one job of each other owner.
 */
export interface SchemaJob {
  /** The JSON text of the schema. */
  readonly schema: string;
  /** JSON text of a value to check; absent: the schema is only compiled. */
  readonly value?: string;
  /** Requests a smallest valid value. */
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

const schemaLimits = { timeMs: 2000, heapMb: 96 } as const;

/** How many times as long a job may take in real time. */
const realTimeFactor = 5;

/** The bundle: a thread can't be started from a TypeScript source. */
const workerFile = packageFile('dist/bundle/schema-worker.js');

export class SchemaWorker {
  readonly #queues = new Map<string, Waiting[]>();
  readonly #thread = new JobThread<SchemaJob, SchemaAnswer>(workerFile, {
    maxOldGenerationSizeMb: schemaLimits.heapMb,
    maxYoungGenerationSizeMb: 16,
    stackSizeMb: 4,
  });
  #isBusy = false;

  /** `busy` when the owner has `mostWaiting` jobs waiting. */
  run(owner: string, job: SchemaJob, mostWaiting = Number.POSITIVE_INFINITY): Promise<SchemaAnswer> {
    const queue = this.#queues.get(owner) ?? [];
    if (queue.length >= mostWaiting) {
      return Promise.resolve({ type: 'busy', message: `${mostWaiting} schemas are waiting to be checked` });
    }
    this.#queues.set(owner, queue);
    return new Promise((resolve, reject) => {
      queue.push({ job, resolve, reject });
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

  /** The next job of the first queue, which is then moved behind the others. */
  #take(): Waiting | undefined {
    const [first] = this.#queues;
    if (!first) return undefined;
    const [owner, queue] = first;
    const next = queue.shift();
    this.#queues.delete(owner);
    if (queue.length > 0) this.#queues.set(owner, queue);
    return next;
  }

  /** Rejects only when the thread does not start; later errors are those of the job. */
  async #perform(job: SchemaJob): Promise<SchemaAnswer> {
    await this.#thread.ready();
    const answer = await this.#thread
      .ask(job, [], withinLimit)
      .catch(({ message }: Error): SchemaAnswer => ({ type: 'over-limit', message }));
    if (answer.type === 'over-limit') await this.#thread.end();
    return answer;
  }
}

export const schemaWorker = new SchemaWorker();

/**
 * The limit does not include the start of the thread. It counts the processor time of this process, so that a busy machine
 * does not cause a schema to be refused.
 */
const withinLimit: Watch = (giveUp) => {
  const { timeMs } = schemaLimits;
  const startMs = performance.now();
  const before = process.cpuUsage();
  const timer = setInterval(() => {
    const { user, system } = process.cpuUsage(before);
    const isOver = (user + system) / 1000 > timeMs || performance.now() - startMs > realTimeFactor * timeMs;
    if (isOver) giveUp(new Error(`it takes longer than ${timeMs} ms`));
  }, timeMs / 10);
  return () => clearInterval(timer);
};

/** Runs a job with the output schema of a claim. The owner is the tenant. */
function ask(
  { outputSchema: schema, agentId }: Claim,
  job: Omit<SchemaJob, 'schema'>,
): Promise<SchemaAnswer> {
  const { provider, org } = agentId.tenant;
  return schemaWorker.run(`runs of ${provider}/${org}`, { schema, ...job });
}

/** Why the schema can't be used, or null. */
export async function schemaProblem(claim: Claim): Promise<string | null> {
  const answer = await ask(claim, {});
  return answer.type === 'done' ? null : answer.message;
}

/** What is wrong with an output; empty when it is valid. */
export async function outputProblems(claim: Claim, output: unknown): Promise<readonly string[]> {
  const answer = await ask(claim, { value: JSON.stringify(output) });
  return answer.type === 'done' ? answer.problems : [`the output could not be checked: ${answer.message}`];
}

/** A smallest output for the schema, as JSON, or why there is none. */
export async function sampleOutput(claim: Claim): Promise<{ sample: string } | { problem: string }> {
  const answer = await ask(claim, { sample: true });
  if (answer.type !== 'done') return { problem: answer.message };
  return answer.sample === undefined ? { problem: 'none was found' } : { sample: answer.sample };
}
