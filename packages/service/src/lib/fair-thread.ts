import type { ResourceLimits } from 'node:worker_threads';
import { JobThread, type Watch } from './job-thread.ts';

/** Why a job was not done. */
export interface NotDone {
  readonly type: 'over-limit' | 'busy';
  readonly message: string;
}

interface Waiting<Job, Answer> {
  readonly job: Job;
  readonly resolve: (answer: Answer | NotDone) => void;
  readonly reject: (error: unknown) => void;
}

interface ThreadLimits {
  /** Of the processor. */
  readonly timeMs: number;
  readonly heapMb: number;
}

/** How many times as long a job may take in real time. */
const realTimeFactor = 5;

/**
 * Does jobs in a separate thread, one at a time, with limits on time and memory. A job that exceeds them is ended with the
 * thread, and the next job gets a new thread. Jobs of different owners take turns, so an owner waits for one job of each
 * other owner.
 */
export class FairThread<Job, Answer extends { readonly type: string }> {
  readonly #queues = new Map<string, Waiting<Job, Answer>[]>();
  readonly #thread: JobThread<Job, Answer>;
  readonly #timeMs: number;
  readonly #jobs: string;
  #isBusy = false;

  /** `jobs` is what waits, as errors name it. */
  constructor(file: URL, { timeMs, heapMb }: ThreadLimits, jobs: string) {
    const resources: ResourceLimits = {
      maxOldGenerationSizeMb: heapMb,
      maxYoungGenerationSizeMb: 16,
      stackSizeMb: 4,
    };
    this.#thread = new JobThread(file, resources);
    this.#timeMs = timeMs;
    this.#jobs = jobs;
  }

  /** `busy` when the owner has `mostWaiting` jobs waiting. */
  run(owner: string, job: Job, mostWaiting = Number.POSITIVE_INFINITY): Promise<Answer | NotDone> {
    const queue = this.#queues.get(owner) ?? [];
    if (queue.length >= mostWaiting)
      return Promise.resolve({
        type: 'busy',
        message: `${mostWaiting} ${this.#jobs} are waiting to be checked`,
      });
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
  #take(): Waiting<Job, Answer> | undefined {
    const [first] = this.#queues;
    if (!first) return undefined;
    const [owner, queue] = first;
    const next = queue.shift();
    this.#queues.delete(owner);
    if (queue.length > 0) this.#queues.set(owner, queue);
    return next;
  }

  /** Rejects only when the thread does not start; later errors are those of the job. */
  async #perform(job: Job): Promise<Answer | NotDone> {
    await this.#thread.ready();
    const answer = await this.#thread
      .ask(job, [], this.#withinLimit)
      .catch(({ message }: Error): NotDone => ({ type: 'over-limit', message }));
    if (answer.type === 'over-limit') await this.#thread.end();
    return answer;
  }

  /**
   * The limit does not include the start of the thread. It counts the processor time of this process, so that a busy
   * machine does not cause a job to be refused.
   */
  #withinLimit: Watch = (giveUp) => {
    const startMs = performance.now();
    const before = process.cpuUsage();
    const timer = setInterval(() => {
      const { user, system } = process.cpuUsage(before);
      const isOver =
        (user + system) / 1000 > this.#timeMs || performance.now() - startMs > realTimeFactor * this.#timeMs;
      if (isOver) giveUp(new Error(`it takes longer than ${this.#timeMs} ms`));
    }, this.#timeMs / 10);
    return () => clearInterval(timer);
  };
}
