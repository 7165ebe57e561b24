import type { MusterClient } from '@muster/sdk';
import {
  limits,
  type ReportItem,
  type ReportReply,
  type ReportRequest,
  reportFailed,
} from '@muster/sdk/contract';
import type { Diff, Push, Usage } from '../harness/harness.ts';
import { ReportQueue } from './report-queue.ts';
import { backoffMs, callWithin, faultOf, pauseUnless, serviceFailure } from './retry.ts';
import { bounded } from './wire-text.ts';

/**
 * What one run says to the service: one report at a time, numbered from 1. A report that was not acknowledged is sent
 * again under its number until it is, or until the run may no longer act; the service takes each number once. So
 * every item arrives once and in order, whatever the network does.
 */
export interface ReportStreamOptions {
  readonly client: MusterClient;
  readonly runnerId: string;
  readonly agentKey: string;
  readonly runId: number;
  /** The run's own key. */
  readonly token: string;
  readonly reportItems: number;
  readonly reportedTextLength: number;
  /** False when the lease is over, even before the stream is silenced for good. */
  readonly mayAct: () => boolean;
  readonly onReply: (reply: ReportReply) => void;
  /** A report was refused for good: the run is not ours any more. */
  readonly onFenced: () => void;
  readonly onDropped: (error: unknown) => void;
  /** The service failed on the same report again and again: nothing more of this run would get through. */
  readonly onFailed: (incident: string) => void;
}

export type RunEnd = NonNullable<ReportRequest['end']>;
type Extra = Pick<ReportRequest, 'started' | 'end' | 'omitTasks'>;
type Report = Omit<ReportRequest, 'runnerId' | 'agentKey' | 'runId' | 'report'>;

/** What is said in one go goes in one report. */
const gatherMs = 2;
/** What comes within so long of a report waits, and goes with the next one. */
const restMs = 50;
const flushItems = 200;
const callMs = 10_000;

/** The run is not ours any more, or may not act any more: whatever it says is said to nobody. */
export class Silenced extends Error {
  override readonly name = 'Silenced';
}

/** How a run ends that was given up, with nothing in it on which the service failed before. */
export const givenUpEnd = (incident: string): RunEnd => ({
  outcome: 'FAILED',
  error: {
    code: reportFailed,
    message: `The service failed ${limits.equalReportFailures} times on the same report of this run (incident ${incident}).`,
  },
});

/** The service failed on one report, several times in a row and the same way. */
class ReportFailed extends Error {
  override readonly name = 'ReportFailed';
  readonly incident: string;

  constructor(incident: string) {
    super(`the service failed on a report ${limits.equalReportFailures} times (incident ${incident})`);
    this.incident = incident;
  }
}

export class ReportStream {
  readonly #options: ReportStreamOptions;
  readonly #queue: ReportQueue;
  /** Aborts when only the last report is sent any more. */
  readonly #cut = new AbortController();
  /** Aborts when not even that one is. */
  readonly #cutForGood = new AbortController();
  #number = 0;
  #busy: Promise<unknown> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;
  #sentMs = Number.NEGATIVE_INFINITY;

  constructor(options: ReportStreamOptions) {
    this.#options = options;
    this.#queue = new ReportQueue(options.reportItems, options.reportedTextLength);
  }

  item(item: ReportItem): void {
    this.#queue.addItem(item);
    this.#flushSoon();
  }

  push(push: Push): void {
    this.#queue.addPush(push);
    this.#flushSoon();
  }

  diff(diff: Diff): void {
    this.#queue.addDiff(diff);
    this.#flushSoon();
  }

  usage(usage: Usage): void {
    this.#queue.addUsage(usage);
    this.#flushSoon();
  }

  action(currentAction: string): void {
    this.#queue.set({ currentAction: bounded(currentAction, 512) });
    this.#flushSoon();
  }

  unpushed({ commits, files, isSaved }: NonNullable<ReportRequest['unpushed']>): void {
    const wasSaved = this.#queue.latest.unpushed?.isSaved ?? false;
    this.#queue.set({ unpushed: { commits, files, isSaved: isSaved || wasSaved } });
    this.#flushSoon();
  }

  session(session: string): void {
    this.#queue.set({ session: bounded(session, 512) });
    this.#flushSoon();
  }

  /** Sends what is waiting, and the extra word last. Resolves with the reply to that; rejects when silenced. */
  send(extra: Extra = {}): Promise<ReportReply> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#sentMs = performance.now();
    const sent = this.#busy.then(() => this.#sendAll(extra));
    this.#busy = sent.catch(() => {});
    return sent;
  }

  /** Says no more, not even what is being said. */
  silence(): void {
    clearTimeout(this.#timer);
    this.#cut.abort();
  }

  /** Says no more, not even a last word. */
  silenceForGood(): void {
    this.silence();
    this.#cutForGood.abort();
  }

  /** The last word about a run that was killed or taken away: nothing of it is left. */
  async gone(): Promise<void> {
    await this.#lastWord({ gone: true });
  }

  /** The last word about a run that was given up. False: the service failed on that as well. */
  failed(incident: string): Promise<boolean> {
    return this.#lastWord({ end: givenUpEnd(incident) });
  }

  async #lastWord(report: Report): Promise<boolean> {
    this.silence();
    await this.#busy;
    this.#number += 1;
    return this.#post(report, this.#cutForGood.signal).then(
      () => true,
      (error: unknown) => !(error instanceof ReportFailed),
    );
  }

  #flushSoon(): void {
    if (this.#cut.signal.aborted) return;
    if (this.#queue.length >= flushItems) {
      this.send().catch(() => {});
      return;
    }
    const restedMs = this.#sentMs + restMs - performance.now();
    this.#timer ??= setTimeout(() => this.send().catch(() => {}), Math.max(gatherMs, restedMs));
  }

  async #sendAll(extra: Extra): Promise<ReportReply> {
    for (;;) {
      const report = this.#queue.take();
      // A diff and the end of a run, each as large as it may be, would be too much for one request.
      const isLast = this.#queue.isEmpty() && !(report.diff && extra.end);
      this.#number += 1;
      const reply = await this.#deliver(this.#masked(isLast ? { ...report, ...extra } : report));
      if (isLast) return reply;
    }
  }

  /** An agent may print its own key; whoever reads its timeline must not be able to act by it. */
  #masked(report: Report): Report {
    const { token } = this.#options;
    const json = JSON.stringify(report);
    return json.includes(token) ? JSON.parse(json.replaceAll(token, '(the key of this run)')) : report;
  }

  async #deliver(report: Report): Promise<ReportReply> {
    let attempt = report;
    for (;;) {
      try {
        const reply = await this.#post(attempt, this.#cut.signal);
        this.#options.onReply(reply);
        return reply;
      } catch (error) {
        if (error instanceof Silenced) throw error;
        if (error instanceof ReportFailed) {
          this.silence();
          this.#options.onFailed(error.incident);
          throw new Silenced();
        }
        const milder = faultOf(error) === 'refused' ? withoutBurden(attempt, error) : undefined;
        if (!milder) {
          this.silence();
          this.#options.onFenced();
          throw new Silenced();
        }
        this.#options.onDropped(error);
        attempt = milder;
      }
    }
  }

  /** The same number and the same body until there is an answer, or the service has failed on it often enough. */
  async #post(report: Report, signal: AbortSignal): Promise<ReportReply> {
    const { client, runnerId, agentKey, runId, mayAct } = this.#options;
    // Only who asks for the checklist gets it: it may be large.
    const body = { runnerId, agentKey, runId, report: this.#number, omitTasks: true, ...report };
    let equal = { text: '', times: 0 };
    for (let failures = 1; ; failures++) {
      if (signal.aborted || !mayAct()) throw new Silenced();
      try {
        const reply = await callWithin(callMs, signal, (s) =>
          client.call('runnerReport', body, { signal: s }),
        );
        if (Array.isArray(reply.activeTaskIds)) return reply;
      } catch (error) {
        if (signal.aborted) throw new Silenced();
        if (faultOf(error) !== 'retry') throw error;
        const failure = serviceFailure(error);
        const text = failure?.text ?? '';
        equal = { text, times: failure && text === equal.text ? equal.times + 1 : 1 };
        if (failure && equal.times >= limits.equalReportFailures) throw new ReportFailed(failure.incident);
      }
      await pauseUnless(signal, backoffMs(failures));
    }
  }
}

/**
 * A report that the service calls invalid would be refused for ever, and the run with it. It is sent without what it
 * carries: the items are lost, with a word about it, and an end becomes a failure. Undefined when nothing is left.
 */
function withoutBurden(report: Report, error: unknown): Report | undefined {
  const message =
    `The service refused a report: ${String(error instanceof Error ? error.message : error)}`.slice(0, 4096);
  const isBare = report.items?.length === 1 && report.items[0]?.data?.lost !== undefined;
  if (isBare) return undefined;
  const warning: ReportItem = { type: 'WARNING', text: message, data: { lost: report.items?.length ?? 0 } };
  const failed = { outcome: 'FAILED', error: { code: 'REPORT_REFUSED', message } } as const;
  return {
    items: [warning],
    ...(report.usage && { usage: report.usage }),
    ...(report.session && { session: report.session }),
    ...(report.unpushed && { unpushed: report.unpushed }),
    ...(report.started && { started: true }),
    ...(report.omitTasks === false && { omitTasks: false }),
    ...(report.end && { end: failed }),
  };
}
