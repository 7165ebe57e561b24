import type { Effect } from '../deliveries/process.ts';
import type { FindRecipient } from '../deliveries/receive.ts';
import { JobQueue } from '../lib/job-queue.ts';
import { packageFile } from '../lib/package-file.ts';
import { Administration, type AdministrationOptions } from './administration.ts';
import type { RequestJob } from './read-request.ts';
import { findTrigger } from './recipients.ts';
import type { RequestAnswer } from './request-worker.ts';
import { TakeRequests } from './take-requests.ts';

const workerFile = packageFile('dist/bundle/request-worker.js');

/** Triggers: requests of other systems spawn agents, or are messages to one. This file puts the parts together. */
export class Triggers {
  readonly administration: Administration;
  readonly recipient: FindRecipient;
  readonly effect: Effect;
  readonly #thread = new JobQueue<RequestJob, RequestAnswer>(workerFile, {
    withinMs: 5_000,
    maxOldGenerationSizeMb: 256,
  });

  constructor(options: AdministrationOptions) {
    this.administration = new Administration(options);
    this.recipient = findTrigger(options.control.catalog);
    this.effect = new TakeRequests({ ...options, thread: this.#thread }).effect;
  }

  /** After all work has ended. */
  close(): Promise<void> {
    return this.#thread.end();
  }
}
