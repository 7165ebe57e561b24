import { JobThread } from '../lib/job-thread.ts';
import { packageFile } from '../lib/package-file.ts';
import type { DeliveryReader, Headers, HostType } from './host.ts';

export interface DeliveryJob {
  readonly type: HostType;
  readonly headers: Headers;
  /** Compressed. */
  readonly body: Uint8Array;
}

export type ReadDelivery = ReturnType<DeliveryReader['read']>;

export type DeliveryAnswer =
  | { readonly type: 'read'; readonly delivery: ReadDelivery }
  | { readonly type: 'unreadable'; readonly reason: string };

const withinMs = 10_000;

const workerFile = packageFile('dist/bundle/delivery-worker.js');

/** Reads deliveries in a thread of its own, one at a time. One that takes too long or too much memory is unreadable. */
export class DeliveryThread {
  readonly #thread = new JobThread<DeliveryJob, DeliveryAnswer>(workerFile, { maxOldGenerationSizeMb: 512 });
  #last: Promise<unknown> = Promise.resolve();

  read(job: DeliveryJob): Promise<DeliveryAnswer> {
    const answer = this.#last.then(() =>
      this.#thread
        .ask(job, [], (abort) => {
          const timer = setTimeout(() => abort(new Error('the body took too long to read')), withinMs);
          return () => clearTimeout(timer);
        })
        .catch((error: unknown): DeliveryAnswer => ({ type: 'unreadable', reason: String(error) })),
    );
    this.#last = answer;
    return answer;
  }

  end(): Promise<void> {
    return this.#thread.end();
  }
}
