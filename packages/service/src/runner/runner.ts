import { randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { MusterClient } from '@muster/sdk';
import {
  type Backend,
  backends,
  type Claim,
  limits as contractLimits,
  type PollReply,
  type PollRequest,
  type ReportRequest,
} from '@muster/sdk/contract';
import { rehearsalHarness } from '../harness/rehearsal/rehearsal.ts';
import { nodeFetch } from '../lib/node-fetch.ts';
import { accountNames } from './accounts/accounts.ts';
import { sweepAgentFolders } from './agent-folders.ts';
import { DiskReserve } from './disk-reserve.ts';
import { Drain } from './drain.ts';
import { Gateway } from './gateway/gateway.ts';
import { LateReports } from './late-reports.ts';
import { Lease } from './lease.ts';
import { LiveOutput } from './live-output.ts';
import { Observed } from './observed.ts';
import { Outages } from './outages.ts';
import { faultOf, isDenied, pauseUnless } from './retry.ts';
import type { RunEnd } from './run/report-stream.ts';
import { Run } from './run/run.ts';
import type { RunContext } from './run/run-context.ts';
import type { RunnerLimits, RunnerOptions } from './runner-options.ts';
import { killLeftovers } from './sandbox/processes.ts';
import { removeStaleGroups } from './sandbox/resource-limits.ts';
import { freeSlots } from './slots.ts';
import { Mirrors } from './workspace/mirror.ts';
import { PreparedCopies } from './workspace/prepared-copies.ts';

export type { RunnerOptions };

/** How often the folders of ended agents are removed. */
const sweepMs = 60_000;
/** While the disk is almost full: killing an agent then frees space soon, also if it has no run that ends. */
const fullDiskSweepMs = 5000;
const minSweepMs = 1000;
/** How long a reply may take, in addition to the wait of a poll. */
const replyTimeoutMs = 5000;
const minReplyMs = 500;
const lastPollTimeoutMs = 3000;
/** Higher than the number of any report that the run has sent. */
const lastReportNumber = 2 ** 31 - 1;
/** The minimum time between two polls when a reply had nothing new, such as a stop that takes a while. */
const minPollMs = 100;
const system = `${process.platform} ${process.arch}, Node ${process.version}`;

/**
 * A runner sends one poll at a time. The poll is its heartbeat and brings claims, stops and steering messages; it hangs at the service until there
 * is one. A poll that offered no free slot is cancelled and sent again when a slot becomes free. A claim in a lost reply needs no such care: the
 * service sends it again while the run is not in the runner's list. When no poll has succeeded for almost a lease, every run is killed.
 */
export class Runner {
  #runnerId = randomUUID();
  /** Resolves when the service has answered a poll, however long that takes; rejects if it refuses this runner. */
  readonly registered: Promise<void>;
  readonly #options: RunnerOptions;
  readonly #limits: RunnerLimits;
  readonly #context: Omit<RunContext, 'runnerId'>;
  readonly #runs = new Map<string, Run>();
  /** Runs that ended because the service failed on their reports, including the report of their end. */
  readonly #unreported = new Map<string, FailedRun>();
  /** Per agent its newest run until nothing of it is left, also while it is being killed; or the removal of its folders. */
  readonly #busyAgents = new Map<string, Promise<void>>();
  /** Per agent its newest run that has ended, while it may still use the agent's folders. */
  readonly #leavingRuns = new Map<string, Run>();
  readonly #live: LiveOutput;
  readonly #disk: DiskReserve;
  readonly #late: LateReports;
  readonly #observed = new Observed();
  readonly #lease = new Lease(() => this.#loseLease());
  /** Resolves when the runner has left, for whichever reason. */
  readonly ended: Promise<void>;
  #claimed = 0;
  readonly #drain: Drain;
  /** Since when it has no run; from its registration on. */
  #idleSince = Number.POSITIVE_INFINITY;
  #isRegistered = false;
  #onRegistered: () => void = () => {};
  #onRefused: (reason: unknown) => void = () => {};
  #polls = 0;
  #state: 'serving' | 'leaving' | 'abandoned' = 'serving';
  /** Aborts the current poll, or the pause after a failed one. */
  #polling = new AbortController();
  #offeredSlots: PollRequest['free'] = { real: 0, rehearsed: 0 };
  #sweepSoon = new AbortController();
  /** Agents with a run since the sweep began: what the service has said of them is outdated. */
  readonly #usedSinceSweep = new Set<string>();
  readonly #stopping = new AbortController();

  constructor(options: RunnerOptions) {
    this.#options = options;
    this.#limits = { ...contractLimits, handBackMs: 10_000, ...options.limits };
    this.#drain = new Drain(options.drainMs ?? 0, () => this.#handBack());
    const { url, apiKey, name, environment, harnesses, rehearses, stallMs, limitWaitMs } = options;
    const dataFolder = resolve(options.dataFolder);
    const client = new MusterClient({ url, apiKey, fetch: nodeFetch });
    this.#live = new LiveOutput((partials) =>
      client.call('runnerPartials', { runnerId: this.runnerId, partials }, { timeoutMs: replyTimeoutMs }),
    );
    this.#late = new LateReports(dataFolder, client, options.log);
    this.#disk = new DiskReserve({
      ...options,
      dataFolder,
      runs: () => [...this.#runs.values()],
      onChange: () => this.#diskChanged(),
    });
    this.#context = {
      ...options,
      client,
      live: this.#live,
      outages: new Outages(),
      observed: this.#observed,
      accountNames: accountNames(options.providers),
      late: this.#late,
      harnesses: { rehearsal: rehearsalHarness(options), real: harnesses, rehearses },
      dataFolder,
      gateway: new Gateway({
        providers: options.providers,
        prices: options.prices,
        limits: { stallMs, limitWaitMs },
        log: options.log,
        observed: this.#observed,
        serviceUrl: url,
        runnerName: name,
      }),
      mirrors: new Mirrors(dataFolder, environment, options.innerHosts),
      preparedCopies: new PreparedCopies(dataFolder, options.log),
      limits: this.#limits,
      mayAct: () => this.#lease.holds(),
      // Only a poll begins a lease.
      renewLease: (sentAt, leaseMs) => this.#lease.holds() && this.#lease.renew(sentAt, leaseMs),
    };
    for (const accounts of Object.values(options.providers)) accounts.onChange = () => this.#polling.abort();
    this.registered = new Promise((resolve, reject) => {
      this.#onRegistered = resolve;
      this.#onRefused = reject;
    });
    this.registered
      .then(() => {
        this.#idleSince = Lease.now();
        return this.#sweep();
      })
      .catch(() => {});
    this.ended = this.#clearLeftovers().then(() => {
      void this.#disk.watch(this.#stopping.signal);
      return this.#serve();
    });
  }

  get runnerId(): string {
    return this.#runnerId;
  }

  /** Claims nothing more, lets live runs end for `drainMs`, hands back those that are left, and unregisters. */
  async drain(isAsked = false): Promise<void> {
    this.#leave('drain');
    this.#drain.begin(isAsked);
    await this.ended;
  }

  /** Claims nothing more, and unregisters when no run is left. */
  #leave(reason: string): void {
    if (this.#state !== 'serving') return;
    this.#state = 'leaving';
    this.#options.log.info({ reason, runs: this.#runs.size }, 'runner draining');
    this.#polling.abort();
  }

  #handBack(): void {
    this.#stopping.abort();
    this.#context.preparedCopies.close();
    for (const run of this.#runs.values()) run.handBack();
  }

  /** How long it may still be without a run. An idle runner leaves between two polls: an open one may bring a run. */
  get #idleLeftMs(): number {
    const { idleExitMs = Number.POSITIVE_INFINITY } = this.#options;
    return this.#runs.size > 0 ? Number.POSITIVE_INFINITY : this.#idleSince + idleExitMs - Lease.now();
  }

  /** Stops immediately and reports nothing, like a crash. */
  async abandon(): Promise<void> {
    this.#state = 'abandoned';
    this.#stopping.abort();
    this.#context.preparedCopies.close();
    this.#polling.abort();
    this.#lease.end();
    for (const run of this.#runs.values()) run.abandon();
    for (const run of this.#leavingRuns.values()) run.stopSaving();
    await Promise.all(this.#busyAgents.values());
    await this.ended;
  }

  async #serve(): Promise<void> {
    for (let failures = 0; this.#state !== 'abandoned'; ) {
      const isLast = this.#state === 'leaving' && this.#runs.size === 0;
      this.#polling = new AbortController();
      const signal = this.#polling.signal;
      const sentAt = Lease.now();
      try {
        const reply = await this.#poll(isLast, failures, signal, sentAt);
        failures = 0;
        this.#isRegistered = true;
        this.#onRegistered();
        const isNew = this.#handle(reply);
        if (this.#state === 'serving') this.#late.send(this.runnerId).catch(() => {});
        if (!isNew && !isLast) await pauseUnless(signal, sentAt + minPollMs - Lease.now());
      } catch (error) {
        if (!signal.aborted) {
          failures += 1;
          this.#pollFailed(failures, error);
          if (isDenied(error) && this.#isRegistered && !this.#lease.holds()) await this.#registerAgain();
          // The first time it polls again immediately: the service may only have been slow.
          if (!isLast && failures > 1) await pauseUnless(signal, this.#lease.pauseMs(failures - 1));
        }
      }
      if (isLast && this.#state !== 'serving' && this.#runs.size === 0) break;
      if (this.#idleLeftMs <= 0) this.#leave('idle');
    }
    // Killed runs save their work, for at most half a minute.
    await Promise.all([...this.#leavingRuns.values()].map((run) => run.left));
    this.#lease.end();
    this.#drain.close();
    this.#stopping.abort();
    this.#context.preparedCopies.close();
    if (this.#state !== 'abandoned') await this.#options.tracer?.close();
  }

  /** Of an earlier process of this runner. */
  async #clearLeftovers(): Promise<void> {
    const { dataFolder } = this.#context;
    await killLeftovers(dataFolder);
    await rm(join(dataFolder, 'runs'), { recursive: true, force: true }).catch(() => {});
    await this.#late.open().catch((err) => this.#options.log.error({ err }, 'usage could not be read'));
    await this.#context.preparedCopies.removeIncomplete();
    await removeStaleGroups();
  }

  /** At intervals, and soon after a run has ended if there is something to do then. */
  async #sweep(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      this.#sweepSoon = new AbortController();
      this.#usedSinceSweep.clear();
      await sweepAgentFolders({
        ...{ ...this.#context, runnerId: this.runnerId, signal, keepDays: this.#options.keepFoldersDays },
        isBelowReserve: () => this.#disk.isBelow,
        isBusy: (agentKey) => this.#busyAgents.has(agentKey) || this.#usedSinceSweep.has(agentKey),
        onRemoval: (agentKey, removal) => this.#trackAgent(agentKey, removal),
      }).catch(() => {});
      for (const run of this.#unreported.values()) await this.#reportFailedRun(run);
      await pauseUnless(signal, minSweepMs);
      await pauseUnless(
        AbortSignal.any([signal, this.#sweepSoon.signal]),
        this.#disk.isBelow ? fullDiskSweepMs : sweepMs,
      );
    }
  }

  async #reportFailedRun({ end, ...run }: FailedRun): Promise<void> {
    const report = { report: lastReportNumber, end };
    const isFinal = await this.#report(run, report, { signal: this.#stopping.signal }).then(
      () => true,
      (error: unknown) => faultOf(error) !== 'retry',
    );
    if (isFinal) this.#unreported.delete(keyOf(run));
  }

  /**
   * After a failed poll, the next one is answered without a wait, and may take half of what is left of the lease: the
   * connection may be dead, and the service may be slow.
   */
  async #poll(isLast: boolean, failures: number, signal: AbortSignal, sentAt: number): Promise<PollReply> {
    const longestMs = Math.min(this.#lease.pollWaitMs, Math.max(0, Math.ceil(this.#idleLeftMs)));
    const waitMs = isLast || failures > 0 ? 0 : longestMs;
    const leftMs = this.#lease.leftMs;
    const replyMs = failures > 0 && leftMs > 0 ? Math.max(minReplyMs, leftMs / 2) : replyTimeoutMs;
    const timeoutMs = isLast ? lastPollTimeoutMs : waitMs + replyMs;
    const request = { ...this.#request(waitMs), observed: this.#observed.take() };
    const reply = await this.#context.client
      .call('runnerPoll', request, { signal, timeoutMs })
      .catch((error: unknown) => {
        if (!signal.aborted) this.#observed.takeBack(request.observed);
        throw error;
      });
    if (!Array.isArray(reply.claims) || !Array.isArray(reply.stops))
      throw new Error('the reply is incomplete');
    this.#lease.renew(sentAt, reply.leaseMs);
    return reply;
  }

  #request(waitMs: number): PollRequest {
    const { name, pool, build, harnesses, rehearses, sandbox } = this.#options;
    this.#polls += 1;
    this.#offeredSlots = this.#free();
    return {
      runnerId: this.runnerId,
      ...{ name, build, rehearses, waitMs },
      poll: this.#polls,
      capabilities: [
        'deferral',
        'steer',
        ...this.#drain.capabilities(this.#state === 'serving', this.#runs.size),
        ...(sandbox ? ['sandbox'] : []),
        ...(this.#disk.isBelow ? ['disk-full'] : []),
      ],
      backends: rehearses ? [...backends] : (Object.keys(harnesses) as Backend[]),
      ...(pool !== undefined && { pool }),
      accounts: Object.values(this.#context.accountNames),
      accountStates: Object.values(this.#options.providers).flatMap((accounts) => accounts.states()),
      machine: { system, ...this.#disk.space },
      free: this.#offeredSlots,
      runs: this.#known(),
      watched: this.#live.watched,
      leaving: this.#state === 'leaving',
    };
  }

  /** A runner that leaves does not list its failed runs, so that the service treats them as lost. */
  #known(): PollRequest['runs'] {
    const failed = this.#state === 'serving' ? [...this.#unreported.values()] : [];
    return [
      ...[...this.#runs.values()].map((run) => ({ ...run.ref, steers: run.steers })),
      ...failed.map(({ agentKey, runId }) => ({ agentKey, runId })),
    ];
  }

  #free(): PollRequest['free'] {
    if (this.#state !== 'serving' || this.#disk.isBelow) return { real: 0, rehearsed: 0 };
    const { maxRuns = Number.POSITIVE_INFINITY } = this.#options;
    return freeSlots(this.#runs.values(), this.#limits, maxRuns - this.#claimed);
  }

  /** Returns whether the reply had anything new. */
  #handle(reply: PollReply): boolean {
    // Not new: readers who come and go must not make a runner poll without a pause.
    this.#live.update(reply.watched ?? []);
    let isNew = false;
    // An older service never sets it.
    if (reply.drain) void this.drain(this.#state === 'serving');
    if (reply.undrain && this.#drain.revert()) this.#state = 'serving';
    for (const claim of reply.claims) isNew = this.#claim(claim) || isNew;
    for (const { agentKey, runId, kind } of reply.stops) {
      const run = this.#runs.get(keyOf({ agentKey, runId }));
      if (run) isNew = run.stop(kind) || isNew;
      // The service waits for the report that nothing is left of it.
      else if (kind === 'KILL') this.#report({ agentKey, runId }, { report: 1, gone: true }).catch(() => {});
    }
    // An older service sends none.
    for (const steer of reply.steers ?? []) isNew = this.#runs.get(keyOf(steer))?.steer(steer) || isNew;
    return isNew;
  }

  #claim(claim: Claim): boolean {
    const key = keyOf(claim);
    if (this.#state === 'abandoned' || this.#runs.has(key) || this.#unreported.has(key)) return false;
    const { agentKey } = claim;
    const context = { ...this.#context, runnerId: this.runnerId };
    this.#leavingRuns.get(agentKey)?.stopSaving();
    const run = new Run(claim, context, this.#busyAgents.get(agentKey));
    this.#runs.set(key, run);
    this.#trackAgent(agentKey, run.left);
    this.#usedSinceSweep.add(agentKey);
    this.#claimed += 1;
    // Claimed by a poll that was sent before the runner began to leave, or beyond `maxRuns`.
    if (this.#state === 'leaving') run.handBack();
    else if (this.#claimed === this.#options.maxRuns) this.#leave('maximum number of runs');
    void run.done.then(() => {
      this.#leavingRuns.set(agentKey, run);
      if (this.#runs.get(key) === run) this.#runs.delete(key);
      if (run.unreported) this.#unreported.set(key, { ...run.ref, end: run.unreported });
      this.#pollAgain();
    });
    void run.left.then(() => {
      if (this.#leavingRuns.get(agentKey) === run) this.#leavingRuns.delete(agentKey);
      if (run.unreported || this.#options.keepFoldersDays === 0 || this.#disk.isBelow)
        this.#sweepSoon.abort();
    });
    return true;
  }

  /** The agent's next run waits for this. */
  #trackAgent(agentKey: string, done: Promise<void>): void {
    this.#busyAgents.set(agentKey, done);
    void done.then(() => {
      if (this.#busyAgents.get(agentKey) === done) this.#busyAgents.delete(agentKey);
    });
  }

  /** Cancels the current poll if it offered no slot and one is free now, or waits for longer than the runner may be idle. */
  #pollAgain(): void {
    if (this.#runs.size === 0) this.#idleSince = Lease.now();
    const waitsTooLong = this.#idleLeftMs < this.#lease.pollWaitMs;
    const free = this.#free();
    const gained = (slot: keyof typeof free) => this.#offeredSlots[slot] === 0 && free[slot] > 0;
    const isOver = this.#state === 'leaving' && this.#runs.size === 0;
    if (isOver || waitsTooLong || gained('real') || gained('rehearsed')) this.#polling.abort();
  }

  /** The service learns immediately whether this runner takes runs. */
  #diskChanged(): void {
    this.#polling.abort();
    this.#sweepSoon.abort();
  }

  #report(
    run: RunRef,
    report: Pick<ReportRequest, 'report' | 'end' | 'gone'>,
    options: { readonly signal?: AbortSignal } = {},
  ) {
    const body = { runnerId: this.runnerId, ...run, ...report };
    return this.#context.client.call('runnerReport', body, { timeoutMs: replyTimeoutMs, ...options });
  }

  #loseLease(): void {
    const runs = [...this.#runs.values()];
    this.#runs.clear();
    if (runs.length > 0) this.#options.log.error({ runs: runs.length }, 'lease expired; killing all runs');
    for (const run of runs) run.abandon();
    this.#pollAgain();
  }

  /**
   * The service has registered this runner with another token or pool, because its token was moved. When nothing of its
   * runs is left, it registers as a new runner with the same name.
   */
  async #registerAgain(): Promise<void> {
    await Promise.all(this.#busyAgents.values());
    this.#runnerId = randomUUID();
    this.#polls = 0;
  }

  #pollFailed(failures: number, error: unknown): void {
    if (!this.#isRegistered && isDenied(error)) return this.#onRefused(error);
    // Logged at each power of two, so that a long outage does not fill the log.
    if (Math.log2(failures) % 1 === 0) this.#options.log.warn({ failures, err: error }, 'poll failed');
  }
}

type RunRef = Run['ref'];
type FailedRun = RunRef & { readonly end: RunEnd };

const keyOf = ({ agentKey, runId }: RunRef): string => `${agentKey}/${runId}`;
