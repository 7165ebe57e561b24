import type { ResourceLimits } from 'node:worker_threads';
import { JobThread } from './job-thread.ts';

interface QueueLimits extends ResourceLimits {
  /** How long a job may take. */
  readonly withinMs: number;
}

/** Does jobs in a separate thread, one at a time. One that takes too long or too much memory fails. */
export class JobQueue<Job, Answer> {
  readonly #thread: JobThread<Job, Answer>;
  readonly #withinMs: number;
  #last: Promise<unknown> = Promise.resolve();

  constructor(file: URL, { withinMs, ...resources }: QueueLimits) {
    this.#thread = new JobThread(file, resources);
    this.#withinMs = withinMs;
  }

  /** `job` is called when its turn comes, so that only one at a time is in memory. */
  ask(job: () => Promise<Job>): Promise<Answer> {
    const answer = this.#last.then(async () =>
      this.#thread.ask(await job(), [], (abort) => {
        const timer = setTimeout(() => abort(new Error('the job took too long')), this.#withinMs);
        return () => clearTimeout(timer);
      }),
    );
    this.#last = answer.catch(() => {});
    return answer;
  }

  end(): Promise<void> {
    return this.#thread.end();
  }
}
