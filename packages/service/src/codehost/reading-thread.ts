import { JobQueue } from '../lib/job-queue.ts';
import { packageFile } from '../lib/package-file.ts';
import type { Headers } from '../work/host-error.ts';
import { type HostJson, parseReply } from '../work/host-json.ts';
import type { DeliveryReader, HostType } from './host.ts';

export interface DeliveryJob {
  readonly type: HostType;
  readonly headers: Headers;
  /** Compressed. */
  readonly body: Uint8Array;
}

/** What hosts send, and is read apart from the thread that serves everyone. */
export type ReadingJob = { readonly delivery: DeliveryJob } | { readonly json: Uint8Array };

export type ReadDelivery = ReturnType<DeliveryReader['read']> & {
  /** Of the body. */
  readonly digest: string;
};

export type ReadingAnswer =
  | { readonly type: 'delivery'; readonly delivery: ReadDelivery }
  | { readonly type: 'json'; readonly json: HostJson }
  | { readonly type: 'unreadable'; readonly reason: string };

const smallBytes = 64 * 1024;

const workerFile = packageFile('dist/bundle/reading-worker.js');

/** Reads in a separate thread, one job at a time. What takes too long or too much memory is unreadable. */
export class ReadingThread {
  readonly #queue = new JobQueue<ReadingJob, ReadingAnswer>(workerFile, {
    withinMs: 10_000,
    maxOldGenerationSizeMb: 512,
  });

  /** `job` is called when its turn comes, so that only one body at a time is in memory. */
  read(job: () => Promise<ReadingJob>): Promise<ReadingAnswer> {
    return this.#queue.ask(job).catch((error: unknown) => ({ type: 'unreadable', reason: String(error) }));
  }

  /** Parses a reply. A small one takes less time here than on its way to the thread. */
  async parseReply(bytes: Buffer): Promise<HostJson> {
    if (bytes.length <= smallBytes) return parseReply(bytes);
    const answer = await this.read(async () => ({ json: bytes }));
    if (answer.type === 'json') return answer.json;
    throw new TypeError(answer.type === 'unreadable' ? answer.reason : 'not JSON');
  }

  end(): Promise<void> {
    return this.#queue.end();
  }
}
