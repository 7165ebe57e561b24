import type { MusterClient } from '@muster/sdk';
import {
  errorLength,
  limits,
  type ReportItem,
  type ReportReply,
  type ReportRequest,
  reportFailed,
} from '@muster/sdk/contract';
import { messageOf } from '../../lib/errors.ts';
import type { NumberedItems, RunNote } from '../late-reports.ts';
import { Lease } from '../lease.ts';
import { backoffMs, faultOf, pauseUnless, serviceFailure } from '../retry.ts';
import { type QueueOptions, ReportQueue } from './report-queue.ts';
import type { ToolImages } from './tool-images.ts';

/**
 * The reports of one run to the service: one at a time, numbered from 1. A report that was not acknowledged is sent
 * again under its number until it is, or until the run may no longer act; the service takes each number once. So every
 * item arrives once and in order, whatever the network does.
 */
export interface ReportStreamOptions extends Omit<QueueOptions, 'onChange' | 'flush'> {
  /** Keeps what is not acknowledged. */
  readonly note?: Pick<RunNote, 'add' | 'itemsChanged' | 'countItemsWith'>;
  readonly images: Pick<ToolImages, 'accept' | 'upload'>;
  readonly client: MusterClient;
  readonly runnerId: string;
  readonly agentKey: string;
  readonly runId: number;
  /** The run's own key. */
  readonly token: string;
  /** False when the lease has expired, even before the stream is closed. */
  readonly mayAct: () => boolean;
  readonly onReply: (reply: ReportReply) => void;
  /** A report that was sent at this time has extended the runner's lease. */
  readonly renewLease: (sentAt: number, leaseMs: number) => void;
  /** The service refused a report because this runner no longer has the run. */
  readonly onFenced: () => void;
  /** The service called a report invalid, so its contents were dropped. */
  readonly onDropped: (error: unknown) => void;
  /** The service failed repeatedly on the same report, or refused one even without its contents: how the run ends. */
  readonly onFailed: (end: RunEnd) => void;
}

export type RunEnd = NonNullable<ReportRequest['end']>;
type Extra = Pick<
  ReportRequest,
  'started' | 'account' | 'traceId' | 'end' | 'omitTasks' | 'steers' | 'reached'
>;
type Report = Omit<ReportRequest, 'runnerId' | 'agentKey' | 'runId' | 'report'>;

/** Items that are added together go into one report. */
const collectMs = 2;
/**
 * The time between two reports that are not urgent, as a multiple of the time that the last one took: agents that write a
 * lot must not slow the service down for others. It varies, so that they do not report at the same moments.
 */
const intervalFactor = { watched: 5, unwatched: 50 };
const minIntervalMs = 50;
const maxIntervalMs = 1_000;
const intervalAfter = (tookMs: number, factor: number): number =>
  Math.min(maxIntervalMs, Math.max(minIntervalMs, factor * tookMs)) * (0.75 + Math.random() / 2);
const flushItems = 200;
const callTimeoutMs = 10_000;

/** Reports are no longer sent: another runner has the run, or the run may no longer act. */
export class ReportsClosed extends Error {
  override readonly name = 'ReportsClosed';
}

/** The end of a run whose reports made the service fail, without the contents on which it failed. */
const reportFailedEnd = (incident: string): RunEnd => ({
  outcome: 'FAILED',
  error: {
    code: reportFailed,
    message: `The service failed ${limits.equalReportFailures} times on the same report of this run (incident ${incident}).`,
  },
});

const reportRefusedEnd = (error: unknown) =>
  ({ outcome: 'FAILED', error: { code: 'REPORT_REFUSED', message: refusalText(error) } }) as const;

const refusalText = (error: unknown): string =>
  `The service refused a report: ${messageOf(error)}`.slice(0, errorLength);

/** The service failed on one report several times in a row, in the same way. */
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
  readonly queue: ReportQueue;
  /** Aborts when only the last report may still be sent. */
  readonly #closed = new AbortController();
  /** Aborts when no report may be sent. */
  readonly #closedForLast = new AbortController();
  #number = 0;
  #busy: Promise<unknown> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;
  /** How many reports are being sent or wait for their turn. */
  #sending = 0;
  /** When the next one that is not urgent may be sent. */
  #nextMs = Number.NEGATIVE_INFINITY;
  /** The items of the report that is being sent. */
  #sent: NumberedItems | undefined;
  /** The queue has something that no report has taken. */
  #hasNews = false;

  constructor(options: ReportStreamOptions) {
    this.#options = options;
    const { note } = options;
    this.queue = new ReportQueue({
      ...options,
      flush: () => this.sendWaiting(),
      onUsage: (usage) => {
        note?.add(usage);
        options.onUsage?.(usage);
      },
      onChange: () => {
        note?.itemsChanged();
        this.#flushSoon();
      },
    });
    note?.countItemsWith(() => this.queue.length + (this.#sent?.items.length ?? 0));
  }

  /** Sends what is waiting, and `extra` in the last report. Resolves with the reply to that; rejects when closed. */
  send(extra: Extra = {}): Promise<ReportReply> {
    this.queue.flushPushes();
    return this.#send(extra);
  }

  /** Called before the agent changes something by another request, so that the timeline has both in order. */
  async sendWaiting(): Promise<void> {
    if (this.queue.length > 0) await this.#send().catch(() => {});
    // What was taken already may still be on its way.
    else await this.#busy;
  }

  #send(extra: Extra = {}): Promise<ReportReply> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#sending += 1;
    const sent = this.#busy.then(() => this.#sendAll(extra));
    this.#busy = sent
      .catch(() => {})
      .then(() => {
        this.#sending -= 1;
        if (this.#hasNews) this.#flushSoon();
        else this.#options.output.release();
      });
    return sent;
  }

  /** Cancels the current report and sends no more, except for a last one. */
  close(): void {
    clearTimeout(this.#timer);
    this.#closed.abort();
  }

  /** Does not send a last report either. */
  closeForLast(): void {
    this.close();
    this.#closedForLast.abort();
  }

  /** Sends only this, instead of what is waiting. False: the service failed on it. */
  async sendLast(report: Pick<ReportRequest, 'end' | 'gone'>): Promise<boolean> {
    this.close();
    await this.#busy;
    this.nextNumber();
    return this.#post(report, this.#closedForLast.signal).then(
      () => true,
      (error: unknown) => !(error instanceof ReportFailed),
    );
  }

  /** Of a report that is sent after the last one of the stream. */
  nextNumber(): number {
    this.#number += 1;
    return this.#number;
  }

  /** The items that no report has acknowledged, once the stream is closed. */
  unacknowledged(): NumberedItems[] {
    const left = this.#sent ? [this.#sent] : [];
    while (this.queue.length > 0) {
      left.push({ report: this.nextNumber(), items: this.queue.take().items ?? [] });
    }
    return left
      .map(({ report, items }) => ({ report, items: this.#masked({ items: [...items] }).items ?? [] }))
      .filter(({ items }) => items.length > 0);
  }

  #flushSoon(): void {
    this.#hasNews = true;
    this.#options.output.hold();
    // What is added meanwhile goes into the report after the current one.
    if (this.#closed.signal.aborted || this.#sending > 0) return;
    if (this.queue.length >= flushItems) {
      this.#send().catch(() => {});
      return;
    }
    const waitMs = this.#nextMs - performance.now();
    this.#timer ??= setTimeout(() => this.#send().catch(() => {}), Math.max(collectMs, waitMs));
  }

  async #sendAll(extra: Extra): Promise<ReportReply> {
    for (;;) {
      this.#hasNews = false;
      const taken = this.queue.take();
      this.#sent = { report: this.nextNumber(), items: taken.items ?? [] };
      const report = await this.#withImages(taken);
      // A diff and the end of a run of the maximum size would not fit into one request.
      const isLast = this.queue.length === 0 && !(report.diff && extra.end);
      const fromMs = performance.now();
      const reply = await this.#deliver(this.#masked(isLast ? { ...report, ...extra } : report));
      this.#sent = undefined;
      this.#options.note?.itemsChanged();
      const nowMs = performance.now();
      const factor = intervalFactor[this.#options.output.isWatched() ? 'watched' : 'unwatched'];
      this.#nextMs = nowMs + intervalAfter(nowMs - fromMs, factor);
      if (isLast) return reply;
    }
  }

  async #withImages<T extends Report>(report: T): Promise<T> {
    if (!report.items?.some((item) => this.queue.imagesOf(item).length > 0)) return report;
    const items: ReportItem[] = [];
    for (const item of report.items) {
      const images = this.queue.imagesOf(item);
      const attachmentIds = await this.#options.images.upload(images, this.#closed.signal);
      items.push(attachmentIds.length > 0 ? { ...item, data: { ...item.data, attachmentIds } } : item);
    }
    return { ...report, items };
  }

  /** An agent may print its own key, which readers of its timeline must not be able to use. */
  #masked(report: Report): Report {
    const { token } = this.#options;
    const json = JSON.stringify(report);
    return json.includes(token) ? JSON.parse(json.replaceAll(token, '(the key of this run)')) : report;
  }

  async #deliver(report: Report): Promise<ReportReply> {
    let attempt = report;
    for (;;) {
      try {
        const reply = await this.#post(attempt, this.#closed.signal);
        this.#options.onReply(reply);
        return reply;
      } catch (error) {
        if (error instanceof ReportsClosed) throw error;
        if (error instanceof ReportFailed) {
          this.close();
          this.#options.onFailed(reportFailedEnd(error.incident));
          throw new ReportsClosed();
        }
        const isRefused = faultOf(error) === 'refused';
        const reduced = isRefused ? withoutContents(attempt, error) : undefined;
        if (!reduced) {
          this.close();
          if (isRefused) this.#options.onFailed(reportRefusedEnd(error));
          else this.#options.onFenced();
          throw new ReportsClosed();
        }
        this.#options.onDropped(error);
        attempt = reduced;
      }
    }
  }

  /** Sends the same number and body until there is a reply, or until the service has failed on it too often. */
  async #post(report: Report, signal: AbortSignal): Promise<ReportReply> {
    const { client, runnerId, agentKey, runId, mayAct, renewLease } = this.#options;
    // The checklist may be large, so it is only requested when needed.
    const body = { runnerId, agentKey, runId, report: this.#number, omitTasks: true, ...report };
    let equal = { text: '', times: 0 };
    for (let failures = 1; ; failures++) {
      if (signal.aborted || !mayAct()) throw new ReportsClosed();
      try {
        const sentAt = Lease.now();
        const reply = await client.call('runnerReport', body, { signal, timeoutMs: callTimeoutMs });
        // An older service sends none.
        if (reply.leaseMs > 0) renewLease(sentAt, reply.leaseMs);
        if (Array.isArray(reply.activeTaskIds)) return reply;
      } catch (error) {
        if (signal.aborted) throw new ReportsClosed();
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
 * A report that the service calls invalid would be refused forever, and block the run. It is sent without its contents:
 * a warning replaces the items, and an end becomes a failure. Undefined if nothing is left to remove.
 */
function withoutContents(report: Report, error: unknown): Report | undefined {
  const isBare = report.items?.length === 1 && report.items[0]?.data?.lost !== undefined;
  if (isBare) return undefined;
  const warning: ReportItem = {
    type: 'WARNING',
    text: refusalText(error),
    data: { lost: report.items?.length ?? 0 },
  };
  return {
    items: [warning],
    ...(report.usage && { usage: report.usage }),
    ...(report.session && { session: report.session }),
    ...(report.unpushed && { unpushed: report.unpushed }),
    ...(report.started && { started: true }),
    ...(report.account && { account: report.account }),
    ...(report.steers && { steers: report.steers }),
    ...(report.omitTasks === false && { omitTasks: false }),
    ...(report.end && { end: reportRefusedEnd(error) }),
  };
}
