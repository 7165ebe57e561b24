import type { Claim, Steer, StopKind } from '@muster/sdk/contract';
import type { Harness, HarnessSession, Work } from '../../harness/harness.ts';
import { messageOf } from '../../lib/errors.ts';
import { schemaProblem } from '../../lib/output-schema/schema-worker.ts';
import { ValueMask } from '../../lib/value-mask.ts';
import { type Harnesses, harnessFor, type Slot, slotOf } from '../harnesses.ts';
import type { LiveOutput, RunOutput } from '../live-output.ts';
import { agentTools } from './agent-tools.ts';
import { MessageImages } from './message-images.ts';
import { type PrepareContext, type PreparedRun, prepareRun } from './prepare-run.ts';
import { instructionsFor } from './prompts.ts';
import { ReportStream, ReportsClosed, type RunEnd, reportFailedEnd } from './report-stream.ts';
import { endOf, failedEnd, isInterruptedByProvider, RunFailure } from './run-end.ts';
import { begin, type Effect, next, type RunEvent, type RunState, type SentReport } from './run-machine.ts';
import { Steers } from './steers.ts';
import { ToolImages } from './tool-images.ts';
import { monitored, Turns } from './turns.ts';

export interface RunContext extends PrepareContext {
  readonly url: string;
  readonly harnesses: Harnesses;
  readonly limits: RunLimits;
  readonly mayAct: () => boolean;
  readonly live: LiveOutput;
}

export interface RunLimits {
  readonly remindersPerRun: number;
  readonly reportItems: number;
  readonly reportedTextLength: number;
  /** How long a run that is handed back, or over its time limit, may take before its session is killed. */
  readonly handBackMs: number;
  /** The maximum length of a turn, if the service does not name one. */
  readonly turnMinutes: number;
}

/**
 * One run, from claim to last report. `run-machine.ts` decides what happens; this class performs it and dispatches the
 * results as events.
 */
export class Run {
  readonly slot: Slot;
  /** Resolves, never rejects, when nothing is left to do or to report. */
  readonly done: Promise<void>;
  readonly #claim: Claim;
  readonly #context: RunContext;
  readonly #before: Promise<void>;
  readonly #turnMinutes: number;
  readonly #output: RunOutput;
  readonly #stream: ReportStream;
  readonly #turns: Turns;
  readonly #steers: Steers;
  /** Hides the values of the run's secrets in everything that is reported. */
  readonly #mask = new ValueMask();
  #state: RunState = begin.state;
  /** Both are rejected until they are requested, and if they fail. */
  #prepared: Promise<PreparedRun> = notRequested();
  #session: Promise<HarnessSession> = notRequested();
  /** Aborts when preparing or opening is cancelled. */
  readonly #preparing = new AbortController();
  /** Aborts when the run may no longer act. */
  readonly #acting = new AbortController();
  readonly #timers: NodeJS.Timeout[] = [];
  #finish: () => void = () => {};

  /** `before` resolves when nothing of an earlier run of the agent is left in its folders. */
  constructor(claim: Claim, context: RunContext, before: Promise<void> = Promise.resolve()) {
    this.#claim = claim;
    this.#context = context;
    this.#before = before;
    this.slot = slotOf(claim, context.harnesses.rehearses);
    this.#output = context.live.open(this.ref, this.#mask, claim.token);
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
    this.#turnMinutes = claim.maxTurnMinutes ?? context.limits.turnMinutes;
    if (this.#turnMinutes > 0) this.#dispatchLater({ type: 'turnLimit' }, this.#turnMinutes * 60_000);
    for (const effect of begin.effects) this.#perform(effect);
  }

  get ref(): { readonly agentKey: string; readonly runId: number } {
    return { agentKey: this.#claim.agentKey, runId: this.#claim.runId };
  }

  /** Once it is done: the incident because of which the service did not accept the end of the run, or empty. */
  get unreportedIncident(): string {
    return this.#state.at === 'ended' ? this.#state.unreportedIncident : '';
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

  /** Kills everything immediately and reports nothing. */
  abandon(): void {
    this.#dispatch({ type: 'leaseLost' });
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
        return this.#dispatchResult(this.#stream.send({ started: true }), () => ({ type: 'startReported' }));
      case 'work':
        return this.#dispatchResult(this.#work(), (end) => ({ type: 'turnsDone', end }));
      case 'interrupt':
        this.#preparing.abort();
        this.#session.then((session) => session.interrupt()).catch(() => {});
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
        return this.#finish();
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
    this.#dispatch({ type: 'failed', end: failedEnd(code, this.#mask.text(messageOf(error))) });
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
    return prepareRun(this.#claim, harness, this.#context, this.#stream.queue, signals, this.#mask);
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
        if (result.type === 'parked') this.#warn(result.message);
        await this.#steers.end();
        return endOf(result, this.#context.limits.reportedTextLength, this.#mask);
      }
      await session.close().catch(() => session.kill());
      this.#session = this.#open();
    }
  }

  async #close(): Promise<void> {
    await this.#session.then((session) => session.close()).catch(() => this.#killSession());
    const prepared = await this.#prepared.catch(() => undefined);
    if (!prepared) return;
    const notSaved = await prepared.checkpoints.finish(this.#stream.queue.sessionName);
    const hasBatch = 'end' in this.#state && isInterruptedByProvider(this.#state.end);
    if (hasBatch || notSaved)
      await prepared.noteEnd(this.#stream.queue.sessionName, { hasBatch, notSaved }).catch(() => {});
    await prepared.clear();
  }

  async #kill(): Promise<void> {
    await this.#killSession();
    await this.#prepared.then((prepared) => prepared.clear()).catch(() => {});
  }

  async #killSession(): Promise<void> {
    this.#preparing.abort();
    this.#acting.abort();
    await this.#session.then((session) => session.kill()).catch(() => {});
  }

  /** Returns false if the service failed on it. */
  async #report(last: SentReport): Promise<boolean> {
    if (last.type === 'gone') return this.#stream.sendLast({ gone: true });
    if (last.type === 'failure') return this.#stream.sendLast({ end: reportFailedEnd(last.incident) });
    await this.#stream.send({ end: last.end });
    return true;
  }

  #warn(text: string): void {
    this.#stream.queue.item({ type: 'WARNING', text });
  }

  #tools() {
    return agentTools({
      url: this.#context.url,
      claim: this.#claim,
      signal: this.#acting.signal,
      mask: this.#mask,
      activeTaskIds: () => this.#turns.activeTaskIds,
      beforeChange: () => {
        this.#turns.changed();
        return this.#stream.sendWaiting();
      },
    });
  }

  #openStream(): ReportStream {
    const { client, runnerId, limits, mayAct, log } = this.#context;
    return new ReportStream({
      ...this.ref,
      token: this.#claim.token,
      client,
      runnerId,
      mayAct,
      maxItems: limits.reportItems,
      textLength: limits.reportedTextLength,
      mask: this.#mask,
      output: this.#output,
      images: new ToolImages({ ...this.ref, client, runnerId, mask: this.#mask, token: this.#claim.token }),
      onPush: () => this.#turns.changed(),
      onReply: (reply) => {
        this.#turns.activeTaskIds = reply.activeTaskIds;
        this.stop(reply.stop);
      },
      onFenced: () => this.#dispatch({ type: 'fenced' }),
      onFailed: (incident) => {
        log.error({ ...this.ref, incident }, 'report failed repeatedly; run abandoned');
        this.#dispatch({ type: 'reportFailed', incident });
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

const noHarness = ({ model, backend }: Claim): string =>
  `This runner has no harness for the model ${model || '(none)'} of ${backend}. Give it the provider's key and install the harness, or use rehearsal-a or rehearsal-b.`;
