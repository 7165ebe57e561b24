import type { Claim, ModelProvider, ReportRequest, Steer, StopKind } from '@muster/sdk/contract';
import type { Harness, HarnessSession, Work } from '../../harness/harness.ts';
import { messageOf } from '../../lib/errors.ts';
import { schemaProblem } from '../../lib/output-schema/schema-worker.ts';
import { ValueMask } from '../../lib/value-mask.ts';
import { harnessFor, noHarness, type Slot, slotOf } from '../harnesses.ts';
import type { RunNote } from '../late-reports.ts';
import type { RunOutput } from '../live-output.ts';
import { agentTools } from './agent-tools.ts';
import { MessageImages } from './message-images.ts';
import { type PreparedRun, prepareRun } from './prepare-run.ts';
import { instructionsFor } from './prompts.ts';
import { ReportStream, ReportsClosed, type RunEnd } from './report-stream.ts';
import type { RunContext } from './run-context.ts';
import { endOf, failedEnd, isInterruptedByProvider, RunFailure } from './run-end.ts';
import { begin, type Effect, next, type RunEvent, type RunState, type SentReport } from './run-machine.ts';
import { RunTrace } from './run-trace.ts';
import { Steers } from './steers.ts';
import { ToolImages } from './tool-images.ts';
import { monitored, Turns } from './turns.ts';

/** How long saving the work of a killed run may take. */
const saveLaterMs = 30_000;

/**
 * One run, from claim to last report. `run-machine.ts` decides what happens; this class performs it and dispatches the
 * results as events.
 */
export class Run {
  readonly slot: Slot;
  /** Resolves, never rejects, when nothing is left to do or to report. */
  readonly done: Promise<void>;
  /** Resolves after that, when the agent's folders are free: a killed run saves a last checkpoint. */
  readonly left: Promise<void>;
  readonly #claim: Claim;
  readonly #context: RunContext;
  readonly #before: Promise<void>;
  readonly #turnMinutes: number;
  readonly #output: RunOutput;
  readonly #note: RunNote;
  readonly #stream: ReportStream;
  readonly #turns: Turns;
  readonly #steers: Steers;
  /** Hides the values of the run's secrets in everything that is reported. */
  readonly #mask = new ValueMask();
  readonly #trace: RunTrace | undefined;
  #state: RunState = begin.state;
  /** Both are rejected until they are requested, and if they fail. */
  #prepared: Promise<PreparedRun> = notRequested();
  #session: Promise<HarnessSession> = notRequested();
  /** Aborts when preparing or opening is cancelled. */
  readonly #preparing = new AbortController();
  /** Aborts when the run may no longer act. */
  readonly #acting = new AbortController();
  /** Aborts when a killed run may no longer save a checkpoint. */
  readonly #leaving = new AbortController();
  #isGone = false;
  readonly #timers: NodeJS.Timeout[] = [];
  #finish: () => void = () => {};
  /** The service has the end of the run. */
  #isAcknowledged = false;
  /** The lease of the runner has expired. */
  #isLost = false;

  /** `before` resolves when nothing of an earlier run of the agent is left in its folders. */
  constructor(claim: Claim, context: RunContext, before: Promise<void> = Promise.resolve()) {
    this.#claim = claim;
    this.#context = context;
    this.#before = before;
    this.#trace = context.tracer && new RunTrace(context.tracer, claim, this.#mask);
    this.slot = slotOf(claim, context.harnesses.rehearses);
    this.#output = context.live.open(this.ref, this.#mask, claim.token);
    this.#note = context.late.noteOf(this.ref);
    this.#stream = this.#openStream();
    const images = new MessageImages({
      ...this.ref,
      client: context.client,
      runnerId: context.runnerId,
      signal: this.#acting.signal,
      warn: (text) => this.#warn(text),
    });
    this.#turns = new Turns({
      claim,
      images,
      isRehearsed: this.slot === 'rehearsed',
      maxReminders: context.limits.remindersPerRun,
      isStopped: () => this.#isStopped(),
      warn: (text) => this.#warn(text),
      report: (extra) => this.#stream.send(extra),
    });
    this.#steers = new Steers(images, (steered) => this.#stream.send({ steers: [steered] }));
    this.done = new Promise((resolve) => {
      this.#finish = resolve;
    });
    void this.done.then(() => this.#output.close());
    this.left = this.done.then(() => this.#leave()).catch(() => {});
    this.#turnMinutes = claim.maxTurnMinutes ?? context.limits.turnMinutes;
    if (this.#turnMinutes > 0) this.#dispatchLater({ type: 'turnLimit' }, this.#turnMinutes * 60_000);
    for (const effect of begin.effects) this.#perform(effect);
  }

  get ref(): { readonly agentKey: string; readonly runId: number } {
    return { agentKey: this.#claim.agentKey, runId: this.#claim.runId };
  }

  /** Once it is done: the end that the service did not accept, or null. */
  get unreported(): RunEnd | null {
    return this.#state.at === 'ended' ? this.#state.unreported : null;
  }

  /** Returns whether this changed anything. */
  stop(kind: StopKind): boolean {
    if (kind === '') return false;
    return this.#dispatch({ type: kind === 'KILL' ? 'kill' : 'interrupt' });
  }

  /** The `sequence` of each steering message that the service waits for. */
  get steers(): number[] {
    return this.#steers.unconfirmed;
  }

  /** A message for the turn that is running. Returns whether it is new. */
  steer(message: Steer): boolean {
    return this.#steers.add(message);
  }

  /** The runner shuts down: the turn is interrupted, and another run gets the same batch. */
  handBack(): void {
    this.#dispatch({ type: 'handBack' });
  }

  /** Kills everything immediately, because the disk is almost full. Returns false if the run is ending already. */
  stopForDisk(message: string): boolean {
    if (!('stop' in this.#state)) return false;
    this.#warn(message);
    return this.#dispatch({ type: 'diskFull', end: failedEnd('DISK_FULL', message) });
  }

  /** Kills everything immediately and reports nothing. */
  abandon(): void {
    this.#isLost = true;
    this.#dispatch({ type: 'leaseLost' });
  }

  /** The agent's folders are needed: a killed run saves no checkpoint any more. */
  stopSaving(): void {
    this.#leaving.abort();
  }

  /** Returns whether the event changed anything. */
  #dispatch(event: RunEvent): boolean {
    const before = this.#state;
    const { state, effects } = next(before, event);
    this.#state = state;
    for (const effect of effects) this.#perform(effect);
    return state !== before;
  }

  #dispatchLater(event: RunEvent, ms: number): void {
    this.#timers.push(setTimeout(() => this.#dispatch(event), ms));
  }

  #perform(effect: Effect): void {
    switch (effect) {
      case 'prepare':
        this.#prepared = this.#prepare();
        return this.#dispatchResult(this.#prepared, () => ({ type: 'prepared' }));
      case 'open':
        this.#session = this.#open();
        return this.#dispatchResult(this.#session, () => ({ type: 'opened' }));
      case 'reportStart':
        return this.#dispatchResult(this.#reportStart(), () => ({ type: 'startReported' }));
      case 'work':
        return this.#dispatchResult(this.#work(), (end) => ({ type: 'turnsDone', end }));
      case 'interrupt':
        this.#preparing.abort();
        this.#session.then((session) => session.interrupt()).catch(() => {});
        return;
      case 'hurry':
        this.#prepared.then(({ checkpoints }) => checkpoints.hurry()).catch(() => {});
        return;
      case 'warnOfTurnLimit': {
        const limit = `the limit of ${this.#turnMinutes} minutes (maxTurnMinutes of its pool)`;
        return this.#warn(`The turn reached ${limit} and was interrupted. Send a message to continue.`);
      }
      case 'setDeadline':
        return this.#dispatchLater({ type: 'deadline' }, this.#context.limits.handBackMs);
      case 'close':
        return this.#dispatchResult(this.#close(), () => ({ type: 'closed' }));
      case 'kill':
        return this.#dispatchResult(this.#kill(), () => ({ type: 'killed' }));
      case 'closeReports':
        return this.#stream.close();
      case 'closeLastReport':
        return this.#stream.closeForLast();
      case 'finish':
        for (const timer of this.#timers) clearTimeout(timer);
        this.#acting.abort();
        this.#stream.close();
        this.#trace?.close(this.#isLost ? 'LOST' : 'KILLED');
        void this.#settleNote()
          .catch((error: unknown) => this.#context.log.warn({ ...this.ref, err: error }, 'usage not settled'))
          .then(() => this.#finish());
        return;
      default: {
        const report = effect.report.type;
        return this.#dispatchResult(this.#report(effect.report), (isAccepted) => ({
          type: 'reported',
          report,
          isAccepted,
        }));
      }
    }
  }

  /** Cancelled reports have no result: the event that closed the stream was dispatched before. */
  #dispatchResult<T>(work: Promise<T>, eventOf: (outcome: T) => RunEvent): void {
    work.then(
      (outcome) => this.#dispatch(eventOf(outcome)),
      (error: unknown) => error instanceof ReportsClosed || this.#dispatchFailure(error),
    );
  }

  #dispatchFailure(error: unknown): void {
    const isExpected = error instanceof RunFailure || this.#isStopped();
    if (!isExpected) {
      const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
      this.#context.log.error({ ...this.ref, error: this.#mask.text(text) }, 'run failed unexpectedly');
    }
    const code = error instanceof RunFailure ? error.code : 'HARNESS_ERROR';
    const awaits = error instanceof RunFailure ? error.awaits : undefined;
    if (awaits !== undefined) this.#context.outages.failed(awaits);
    this.#dispatch({ type: 'failed', end: failedEnd(code, this.#mask.text(messageOf(error)), awaits) });
  }

  #isStopped(): boolean {
    return !('stop' in this.#state && this.#state.stop === 'NONE');
  }

  async #prepare(): Promise<PreparedRun> {
    const harness = this.#harness();
    const { outputSchema } = this.#claim;
    const problem = outputSchema === '' ? null : await schemaProblem(this.#claim);
    if (problem) throw new RunFailure('INVALID_OUTPUT_SCHEMA', `The output schema is invalid: ${problem}`);
    await this.#before;
    this.#preparing.signal.throwIfAborted();
    const signals = { run: this.#acting.signal, preparing: this.#preparing.signal };
    const context = { ...this.#context, trace: this.#trace };
    return prepareRun(this.#claim, harness, context, this.#stream.queue, signals, this.#mask);
  }

  #harness(): Harness {
    const harness = harnessFor(this.#claim, this.#context.harnesses);
    if (!harness) throw new RunFailure('NO_HARNESS', noHarness(this.#claim));
    return harness;
  }

  async #open(): Promise<HarnessSession> {
    const prepared = await this.#prepared;
    const work: Work = {
      ...prepared.work,
      tools: this.#tools(),
      signal: this.#preparing.signal,
      instructions: instructionsFor(this.#claim, prepared.repos),
    };
    for (;;) {
      try {
        return await this.#harness().open(work, this.#stream.queue);
      } catch (error) {
        if (await this.#restoreOlderSession(prepared)) continue;
        throw new RunFailure('SESSION_NOT_OPENED', `The session could not be opened: ${messageOf(error)}`);
      }
    }
  }

  /** If a session does not open. */
  async #restoreOlderSession(prepared: PreparedRun): Promise<boolean> {
    return prepared.work.resumes && !this.#preparing.signal.aborted && prepared.restoreOlderSession();
  }

  async #work(): Promise<RunEnd> {
    const prepared = await this.#prepared;
    prepared.checkpoints.start(() => this.#stream.queue.sessionName);
    for (;;) {
      const session = await this.#session;
      const deliver = this.#steers.during(session, monitored(session, prepared.gateway, this.#claim.attempt));
      const result = await this.#turns.take(deliver, prepared);
      const isUnopened = result.type === 'failed' && result.code === 'SESSION_NOT_OPENED';
      if (!isUnopened || !(await this.#restoreOlderSession(prepared))) {
        const isBudget = result.type === 'parked' && result.isBudget === true;
        // The service has written so in the timeline.
        if (result.type === 'parked' && !isBudget) this.#warn(result.message);
        await this.#steers.end();
        const end = endOf(result, this.#context.limits.reportedTextLength, this.#mask);
        return isBudget ? end : this.#withCause(end, prepared.gateway.providerName);
      }
      await session.close().catch(() => session.kill());
      this.#session = this.#open();
    }
  }

  /** What the next attempt waits for. */
  #withCause(end: RunEnd, provider: ModelProvider | undefined): RunEnd {
    const { outages, accountNames } = this.#context;
    if (provider === undefined) return end;
    const limitAccount = accountNames[provider];
    if (end.outcome === 'PARKED' && limitAccount) return { ...end, limitAccount };
    if (end.error?.code !== 'PROVIDER_UNAVAILABLE') return end;
    const awaits = `provider:${provider}`;
    outages.failed(awaits);
    return { ...end, awaits };
  }

  async #reportStart(): Promise<void> {
    const { reached, gateway } = await this.#prepared;
    void gateway.accepted
      .then(() => this.#reportReached([`provider:${gateway.providerName}`]))
      .catch(() => {});
    const { account } = gateway;
    await this.#reportReached(reached, { started: true, ...(account && { account }), ...this.#traced });
  }

  /** Agents that wait for what this run reached are retried. */
  async #reportReached(
    names: readonly string[],
    extra: Pick<ReportRequest, 'started' | 'account' | 'traceId'> = {},
  ): Promise<void> {
    const { outages } = this.#context;
    const reached = names.filter((name) => outages.mayBeAwaited(name));
    if (reached.length === 0 && !extra.started) return;
    const reply = await this.#stream.send({ ...extra, ...(reached.length > 0 && { reached }) });
    outages.reported(reached, reply.awaited ?? []);
  }

  async #close(): Promise<void> {
    await this.#session.then((session) => session.close()).catch(() => this.#killSession());
    const prepared = await this.#prepared.catch(() => undefined);
    if (!prepared) return;
    const notSaved = await prepared.checkpoints.finish(this.#stream.queue.sessionName);
    // Killed meanwhile: its work is saved when none of its processes is left.
    if (this.#state.at !== 'closing') return;
    const hasBatch = 'end' in this.#state && isInterruptedByProvider(this.#state.end);
    if (hasBatch || notSaved)
      await prepared.noteEnd(this.#stream.queue.sessionName, { hasBatch, notSaved }).catch(() => {});
    await prepared.clear();
  }

  async #kill(): Promise<void> {
    await this.#killSession();
    await this.#prepared.then((prepared) => prepared.end()).catch(() => {});
  }

  /** Saves the work of a killed run after the report that none of its processes is left, because the kill waits for that report. */
  async #leave(): Promise<void> {
    const prepared = await this.#prepared.catch(() => undefined);
    if (!prepared) return;
    if (this.#isGone) await this.#saveLater(prepared).catch(() => {});
    await prepared.clear();
  }

  async #saveLater(prepared: PreparedRun): Promise<void> {
    const { client, runnerId } = this.#context;
    const signal = AbortSignal.any([this.#leaving.signal, AbortSignal.timeout(saveLaterMs)]);
    const unpushed = await prepared.saveLater(this.#stream.queue.sessionName, signal);
    if (!unpushed) return;
    const body = { runnerId, ...this.ref, report: this.#stream.nextNumber(), gone: true, unpushed };
    await client.call('runnerReport', body, { signal, timeoutMs: saveLaterMs });
  }

  async #killSession(): Promise<void> {
    this.#preparing.abort();
    this.#acting.abort();
    await this.#session.then((session) => session.kill()).catch(() => {});
  }

  /** Returns false if the service failed on it. */
  async #report(last: SentReport): Promise<boolean> {
    if (last.type !== 'gone') this.#trace?.ended(last.end);
    if (last.type === 'gone') {
      this.#isGone = await this.#stream.sendLast({ gone: true });
      return this.#isGone;
    }
    if (last.type === 'failure') return this.#stream.sendLast({ end: last.end });
    await this.#stream.send({ end: last.end, ...this.#traced });
    this.#isAcknowledged = true;
    return true;
  }

  /** What the service does not know is reported later. It wants no items of a run that was killed. */
  #settleNote(): Promise<void> {
    if (this.#isAcknowledged) return this.#note.remove();
    return this.#context.late.add(this.#note, this.#isLost ? this.#stream.unacknowledged() : []);
  }

  /** With the start, and with the end of a run that could not start. */
  get #traced(): Pick<ReportRequest, 'traceId'> {
    const traceId = this.#trace?.traceId;
    return traceId === undefined ? {} : { traceId };
  }

  #warn(text: string): void {
    this.#stream.queue.item({ type: 'WARNING', text });
  }

  #tools() {
    return agentTools({
      url: this.#context.url,
      claim: this.#claim,
      signal: this.#acting.signal,
      traceparent: this.#trace?.traceparent,
      mask: this.#mask,
      activeTaskIds: () => this.#turns.activeTaskIds,
      beforeChange: () => {
        this.#turns.changed();
        return this.#stream.sendWaiting();
      },
    });
  }

  #openStream(): ReportStream {
    const { client, runnerId, limits, mayAct, renewLease, log } = this.#context;
    return new ReportStream({
      ...this.ref,
      token: this.#claim.token,
      ...{ client, runnerId, mayAct, renewLease, note: this.#note, mask: this.#mask, output: this.#output },
      maxItems: limits.reportItems,
      textLength: limits.reportedTextLength,
      images: new ToolImages({ ...this.ref, client, runnerId, mask: this.#mask, token: this.#claim.token }),
      onUsage: (usage) => this.#trace?.used(usage),
      onItem: this.#trace && ((item) => this.#trace?.item(item)),
      onPush: () => this.#turns.changed(),
      onReply: (reply) => {
        this.#turns.activeTaskIds = reply.activeTaskIds;
        this.stop(reply.stop);
      },
      onFenced: () => this.#dispatch({ type: 'fenced' }),
      onFailed: (end) => {
        log.error({ ...this.ref, error: end.error }, 'report not accepted; run abandoned');
        this.#dispatch({ type: 'reportFailed', end });
      },
      onDropped: (error) => log.error({ ...this.ref, err: error }, 'report refused; items dropped'),
    });
  }
}

function notRequested(): Promise<never> {
  const rejected = Promise.reject(new Error('not requested'));
  rejected.catch(() => {});
  return rejected;
}
