import { randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { MusterClient, MusterError } from '@muster/sdk';
import {
  type Backend,
  backends,
  type Claim,
  limits as contractLimits,
  type PollReply,
  type PollRequest,
} from '@muster/sdk/contract';
import type { Harness } from '../harness/harness.ts';
import { rehearsalHarness } from '../harness/rehearsal/rehearsal.ts';
import { nodeFetch } from '../lib/node-fetch.ts';
import { Gateway, type Providers } from './gateway/gateway.ts';
import { type Prices, readPrices } from './gateway/prices.ts';
import { Lease } from './lease.ts';
import { type RunnerLog, silentLog } from './log.ts';
import { givenUpEnd } from './report-stream.ts';
import { backoffMs, callWithin, faultOf, pauseUnless } from './retry.ts';
import { Run, type RunContext, type RunLimits } from './run.ts';
import { removeStaleLimits } from './sandbox/cgroup.ts';
import type { Sandbox } from './sandbox/probe.ts';
import { sweepAgents } from './sweep.ts';
import type { TenantAllow } from './tenant-allow.ts';
import { Mirrors } from './workspace/mirror.ts';

/**
 * A runner polls, one poll at a time. The poll is its heartbeat, brings claims and stops, and hangs at the service
 * until there is one. A poll that said "I am full" is given up and made anew when a slot gets free. A claim in a
 * reply that got lost is not: the service sends it again as long as the run is not in the runner's list. When no
 * poll has succeeded for almost a lease, everything is killed, so that nobody acts for a run that another runner has.
 */
export interface RunnerOptions {
  readonly url: string;
  readonly apiKey: string;
  /** Stable over restarts: agents live where their runner has this name. */
  readonly name: string;
  readonly dataFolder: string;
  /** The pool it means to serve; the service refuses it when the key is of another. */
  readonly pool?: string;
  /** It plays every model name by the rehearsal agent. */
  readonly rehearses: boolean;
  /** The backends that it has for real. */
  readonly harnesses?: Readonly<Partial<Record<Backend, Harness>>>;
  readonly providers?: Providers;
  readonly prices?: Prices;
  /** How long a provider's stream may be silent. */
  readonly stallMs?: number;
  /** How long a provider's limits may be waited out inside the turn, per request. */
  readonly limitWaitMs?: number;
  /** How long the folders of an agent are kept after its end; a week if absent. */
  readonly keepFoldersDays?: number;
  /** The least time between two checkpoints of a run; a minute if absent. */
  readonly checkpointMs?: number;
  /** Null: agents run as the runner's equals. */
  readonly sandbox?: Sandbox | null;
  /** Where `fromRunner` variables and git's credentials come from. */
  readonly environment?: Readonly<Record<string, string | undefined>>;
  /** What tenants other than the first may use of this machine: what is not listed they may not. */
  readonly tenantAllow?: TenantAllow;
  /** How long a rehearsed turn without directives takes. */
  readonly turnMs?: number;
  readonly limits?: Partial<RunnerLimits>;
  readonly log?: RunnerLog;
  readonly build?: string;
}

export interface RunnerLimits extends RunLimits {
  readonly runsPerRunner: number;
  readonly rehearsedRunsPerRunner: number;
}

export interface Runner {
  readonly runnerId: string;
  /** Resolves when the service has answered a poll, however long that takes; rejects when it will not have this runner. */
  readonly welcomed: Promise<void>;
  /** Stops claiming, hands every live run back, says that it leaves. Resolves when all is said. */
  drain(): Promise<void>;
  /** Stops at once and tells nobody, as a crash would. */
  abandon(): Promise<void>;
}

export function startRunner(options: RunnerOptions): Runner {
  return new PollingRunner(options);
}

const defaultTurnMs = 2000;
/** How often the folders of agents that have ended are looked for. */
const sweepMs = 60_000;
const leastSweepMs = 1000;
const longestWaitMs = 10_000;
/** How much longer than the poll may hang its reply may take. */
const replyMs = 5000;
const lastWordMs = 3000;
/** The highest number of a report: higher than any that the run has sent. */
const mostReports = 2 ** 31 - 1;
/** A service that repeats itself, such as a stop that takes a while, is not asked faster than this. */
const leastPollMs = 100;

class PollingRunner implements Runner {
  #runnerId = randomUUID();
  readonly welcomed: Promise<void>;
  readonly #options: RunnerOptions;
  readonly #limits: RunnerLimits;
  readonly #log: RunnerLog;
  readonly #client: MusterClient;
  readonly #context: RunContext;
  readonly #runs = new Map<string, Run>();
  /** Runs that were given up and that the service still takes for live: it failed on the report of their end too. */
  readonly #unheard = new Map<string, GivenUp>();
  /**
   * The newest run of each agent, until nothing of it is left: also when it is forgotten and only being killed. Or the
   * removal of its folders.
   */
  readonly #newest = new Map<string, Promise<void>>();
  readonly #lease = new Lease(() => this.#loseLease());
  readonly #ended: Promise<void>;
  #isWelcome = false;
  #welcome: () => void = () => {};
  #refuse: (reason: Error) => void = () => {};
  readonly #keepDays: number;
  #polls = 0;
  #waitMs = 0;
  #state: 'serving' | 'leaving' | 'abandoned' = 'serving';
  /** The poll that hangs, or the pause after one that failed. */
  #hanging = new AbortController();
  #offered: PollRequest['free'] = { real: 0, rehearsed: 0 };
  #sweepSoon = new AbortController();
  readonly #over = new AbortController();

  constructor(options: RunnerOptions) {
    this.#options = options;
    this.#keepDays = options.keepFoldersDays ?? 7;
    this.#limits = { ...contractLimits, handBackMs: 10_000, ...options.limits };
    this.#log = options.log ?? silentLog;
    this.#client = new MusterClient({ url: options.url, apiKey: options.apiKey, fetch: nodeFetch });
    const dataFolder = resolve(options.dataFolder);
    const environment = options.environment ?? {};
    const runnerId = () => this.#runnerId;
    this.#context = {
      url: options.url,
      client: this.#client,
      get runnerId() {
        return runnerId();
      },
      harnesses: {
        rehearsal: rehearsalHarness({ turnMs: options.turnMs ?? defaultTurnMs }),
        real: options.harnesses ?? {},
        rehearses: options.rehearses,
      },
      dataFolder,
      sandbox: options.sandbox ?? null,
      gateway: new Gateway({
        providers: options.providers ?? {},
        serviceUrl: options.url,
        prices: options.prices ?? readPrices(),
        ...(options.stallMs !== undefined && { stallMs: options.stallMs }),
        ...(options.limitWaitMs !== undefined && { limitWaitMs: options.limitWaitMs }),
        runnerName: options.name,
        log: this.#log,
      }),
      mirrors: new Mirrors({ dataFolder, environment }),
      tenantAllow: options.tenantAllow ?? new Map(),
      environment,
      checkpointMs: options.checkpointMs ?? 60_000,
      limits: this.#limits,
      mayAct: () => this.#lease.holds(),
      log: this.#log,
    };
    this.welcomed = new Promise((resolve, reject) => {
      this.#welcome = resolve;
      this.#refuse = reject;
    });
    // The other routes answer a runner that has polled.
    this.welcomed.then(
      () => this.#sweep(),
      () => {},
    );
    this.#ended = this.#clearLeftovers().then(() => this.#serve());
  }

  get runnerId(): string {
    return this.#runnerId;
  }

  async drain(): Promise<void> {
    if (this.#state === 'serving') {
      this.#state = 'leaving';
      for (const run of this.#runs.values()) run.handBack();
      this.#hanging.abort();
    }
    this.#over.abort();
    await this.#ended;
  }

  async abandon(): Promise<void> {
    this.#state = 'abandoned';
    this.#over.abort();
    this.#hanging.abort();
    this.#lease.end();
    for (const run of this.#runs.values()) run.forget();
    await Promise.all(this.#newest.values());
    await this.#ended;
  }

  async #serve(): Promise<void> {
    for (let failures = 0; this.#state !== 'abandoned'; ) {
      const isLast = this.#state === 'leaving' && this.#runs.size === 0;
      this.#hanging = new AbortController();
      const signal = this.#hanging.signal;
      const sentAt = Lease.now();
      try {
        const reply = await this.#poll(isLast, signal, sentAt);
        failures = 0;
        this.#isWelcome = true;
        this.#welcome();
        const isNews = this.#obey(reply);
        if (!isNews && !isLast) await pauseUnless(signal, sentAt + leastPollMs - Lease.now());
      } catch (error) {
        if (!signal.aborted) {
          failures += 1;
          this.#complain(failures, error);
          if (isDenied(error) && this.#isWelcome && !this.#lease.holds()) await this.#startOver();
          if (!isLast) await pauseUnless(signal, backoffMs(failures));
        }
      }
      if (isLast && this.#runs.size === 0) break;
    }
    this.#lease.end();
  }

  /** Of an earlier life of this runner; nothing of it is alive any more. */
  async #clearLeftovers(): Promise<void> {
    await rm(join(this.#context.dataFolder, 'runs'), { recursive: true, force: true }).catch(() => {});
    await removeStaleLimits();
  }

  /** From time to time; after runs have ended only if something is to be done then. */
  async #sweep(): Promise<void> {
    const { dataFolder, client } = this.#context;
    const { signal } = this.#over;
    const isBusy = (agentKey: string) => this.#newest.has(agentKey);
    const removing = (agentKey: string, removal: Promise<void>) => this.#waitFor(agentKey, removal);
    const keepDays = this.#keepDays;
    while (!signal.aborted) {
      this.#sweepSoon = new AbortController();
      const { runnerId } = this;
      const options = { dataFolder, runnerId, client, signal, keepDays, isBusy, removing, log: this.#log };
      await sweepAgents(options).catch(() => {});
      for (const run of this.#unheard.values()) await this.#endGivenUp(run);
      await pauseUnless(signal, leastSweepMs);
      await pauseUnless(AbortSignal.any([signal, this.#sweepSoon.signal]), sweepMs);
    }
  }

  async #endGivenUp({ agentKey, runId, incident }: GivenUp): Promise<void> {
    const report = mostReports;
    const body = { runnerId: this.runnerId, agentKey, runId, report, end: givenUpEnd(incident) };
    await callWithin(replyMs, this.#over.signal, (signal) =>
      this.#client.call('runnerReport', body, { signal }),
    ).then(
      () => this.#unheard.delete(keyOf({ agentKey, runId })),
      (error: unknown) => faultOf(error) !== 'retry' && this.#unheard.delete(keyOf({ agentKey, runId })),
    );
  }

  async #poll(isLast: boolean, signal: AbortSignal, sentAt: number): Promise<PollReply> {
    const waitMs = isLast ? 0 : this.#waitMs;
    const reply = await callWithin(isLast ? lastWordMs : waitMs + replyMs, signal, (s) =>
      this.#client.call('runnerPoll', this.#request(waitMs), { signal: s }),
    );
    if (!Array.isArray(reply.claims) || !Array.isArray(reply.stops)) throw new Error('the reply was cut off');
    this.#lease.renew(sentAt, reply.leaseMs);
    // Counted from when a poll is sent, a lease is renewed by the reply to the next: it has to last for both.
    this.#waitMs = Math.min(longestWaitMs, Math.floor(reply.leaseMs / 4));
    return reply;
  }

  #request(waitMs: number): PollRequest {
    const { name, pool, build, harnesses, rehearses, sandbox } = this.#options;
    this.#polls += 1;
    this.#offered = this.#free();
    return {
      runnerId: this.runnerId,
      name,
      poll: this.#polls,
      build: build ?? '',
      capabilities: ['deferral', ...(sandbox ? ['sandbox'] : [])],
      backends: rehearses ? [...backends] : (Object.keys(harnesses ?? {}) as Backend[]),
      ...(pool !== undefined && { pool }),
      rehearses,
      free: this.#offered,
      runs: this.#known(),
      waitMs,
      leaving: this.#state === 'leaving',
    };
  }

  /** A runner that leaves no longer lists what it gave up: the service takes that for lost. */
  #known(): PollRequest['runs'] {
    const unheard = this.#state === 'serving' ? [...this.#unheard.values()] : [];
    return [
      ...[...this.#runs.values()].map((run) => run.ref),
      ...unheard.map(({ agentKey, runId }) => ({ agentKey, runId })),
    ];
  }

  #free(): PollRequest['free'] {
    if (this.#state !== 'serving') return { real: 0, rehearsed: 0 };
    const live = { real: 0, rehearsed: 0 };
    for (const run of this.#runs.values()) live[run.slot] += 1;
    return {
      real: Math.max(0, this.#limits.runsPerRunner - live.real),
      rehearsed: Math.max(0, this.#limits.rehearsedRunsPerRunner - live.rehearsed),
    };
  }

  /** Whether the reply had anything that the runner did not know. */
  #obey(reply: PollReply): boolean {
    let isNews = false;
    for (const claim of reply.claims) isNews = this.#take(claim) || isNews;
    for (const { agentKey, runId, kind } of reply.stops) {
      const run = this.#runs.get(keyOf({ agentKey, runId }));
      if (run) isNews = run.stop(kind) || isNews;
      else if (kind === 'KILL') this.#disown(agentKey, runId);
    }
    return isNews;
  }

  #take(claim: Claim): boolean {
    const key = keyOf(claim);
    if (this.#state === 'abandoned' || this.#runs.has(key) || this.#unheard.has(key)) return false;
    const { agentKey } = claim;
    const run = new Run(claim, this.#context, this.#newest.get(agentKey));
    this.#runs.set(key, run);
    this.#waitFor(agentKey, run.done);
    // Claimed by a poll that crossed with the order to leave.
    if (this.#state === 'leaving') run.handBack();
    void run.done.then(() => {
      if (this.#runs.get(key) === run) this.#runs.delete(key);
      if (run.unheardIncident) this.#unheard.set(key, { ...run.ref, incident: run.unheardIncident });
      this.#pollAnew();
      if (run.unheardIncident || this.#keepDays === 0) this.#sweepSoon.abort();
    });
    return true;
  }

  /** The next run of the agent begins only after this. */
  #waitFor(agentKey: string, done: Promise<void>): void {
    this.#newest.set(agentKey, done);
    void done.then(() => {
      if (this.#newest.get(agentKey) === done) this.#newest.delete(agentKey);
    });
  }

  /** Only a poll that could not claim what now can be claimed is worth giving up. */
  #pollAnew(): void {
    const free = this.#free();
    const gained = (slot: keyof typeof free) => this.#offered[slot] === 0 && free[slot] > 0;
    const isOver = this.#state === 'leaving' && this.#runs.size === 0;
    if (isOver || gained('real') || gained('rehearsed')) this.#hanging.abort();
  }

  /** A run that never came here, or left long ago, was killed: the service waits to hear that nothing of it lives. */
  #disown(agentKey: string, runId: number): void {
    const body = { runnerId: this.runnerId, agentKey, runId, report: 1, gone: true };
    const never = new AbortController().signal;
    callWithin(replyMs, never, (signal) => this.#client.call('runnerReport', body, { signal })).catch(
      () => {},
    );
  }

  #loseLease(): void {
    const runs = [...this.#runs.values()];
    this.#runs.clear();
    if (runs.length > 0) this.#log.error({ runs: runs.length }, 'the lease is over: every run is killed');
    for (const run of runs) run.forget();
    this.#pollAnew();
  }

  /**
   * The service has this runner under another token or pool: its token was moved. With nothing of its runs left, it
   * registers as a new runner of the same name.
   */
  async #startOver(): Promise<void> {
    await Promise.all(this.#newest.values());
    this.#runnerId = randomUUID();
    this.#polls = 0;
  }

  #complain(failures: number, error: unknown): void {
    if (!this.#isWelcome && isDenied(error)) return this.#refuse(error);
    // The first failure may be a restart; one line per doubling is enough to be seen.
    if (Math.log2(failures) % 1 === 0)
      this.#log.warn({ failures, err: error }, 'the service did not answer a poll');
  }
}

const isDenied = (error: unknown): error is MusterError =>
  error instanceof MusterError && error.httpStatus === 403;

interface GivenUp {
  readonly agentKey: string;
  readonly runId: number;
  readonly incident: string;
}

const keyOf = ({ agentKey, runId }: { agentKey: string; runId: number }): string => `${agentKey}/${runId}`;
