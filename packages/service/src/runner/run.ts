import type { Claim, ReportReply, StopKind } from '@muster/sdk/contract';
import type { Harness, HarnessSession, Work } from '../harness/harness.ts';
import { schemaProblem } from '../harness/output-schema.ts';
import { messageOf } from '../lib/message-of.ts';
import { agentTools } from './agent-tools.ts';
import { type Harnesses, harnessFor, type Slot, slotOf } from './harnesses.ts';
import { instructionsFor } from './instructions.ts';
import { OrderedPushes } from './ordered-pushes.ts';
import { ReportStream, type RunEnd, Silenced } from './report-stream.ts';
import { endOf, failedEnd, isCutByProvider, RunFailure } from './run-end.ts';
import { begin, type Effect, next, type RunEvent, type RunState, type SentReport } from './run-machine.ts';
import { type Stage, type StageContext, type StageListener, setStage } from './stage.ts';
import { Turns } from './turns.ts';
import { WatchedSession } from './watched-session.ts';

/**
 * One run, from claim to last report. `run-machine.ts` decides what happens; here it is done, and what came of it is
 * told to the machine.
 */
export interface RunContext extends StageContext {
  readonly url: string;
  readonly harnesses: Harnesses;
  readonly limits: RunLimits;
  readonly mayAct: () => boolean;
}

export interface RunLimits {
  readonly remindersPerRun: number;
  readonly reportItems: number;
  readonly reportedTextLength: number;
  /** How long a run that is handed back, or over its time limit, may take to stop before its session is killed. */
  readonly handBackMs: number;
  /** The longest turn, where the service does not name one. */
  readonly turnMinutes: number;
}

export class Run {
  readonly slot: Slot;
  /** Resolves, never rejects, when nothing is left to do or to say. */
  readonly done: Promise<void>;
  readonly #claim: Claim;
  readonly #context: RunContext;
  readonly #before: Promise<void>;
  readonly #turnMinutes: number;
  readonly #stream: ReportStream;
  readonly #turns: Turns;
  readonly #pushes = new OrderedPushes((push) => this.#stream.push(push));
  #state: RunState = begin.state;
  /** Both are rejected before the machine has asked for them, and where they could not be had. */
  #stage: Promise<Stage> = absent();
  #session: Promise<HarnessSession> = absent();
  #sessionName = '';
  /** Aborts when a stage or a session that is not ready yet is given up. */
  readonly #preparing = new AbortController();
  /** Aborts when nothing may act for the run any more. */
  readonly #acting = new AbortController();
  readonly #timers: NodeJS.Timeout[] = [];
  #finish: () => void = () => {};

  /** `before` resolves when nothing of an earlier run of the agent is left in its folders. */
  constructor(claim: Claim, context: RunContext, before: Promise<void> = Promise.resolve()) {
    this.#claim = claim;
    this.#context = context;
    this.#before = before;
    this.slot = slotOf(claim, context.harnesses.rehearses);
    this.#stream = this.#openStream();
    this.#turns = new Turns({
      claim,
      isRehearsed: this.slot === 'rehearsed',
      mostReminders: context.limits.remindersPerRun,
      isStopped: () => this.#isStopped(),
      warn: (text) => this.#warn(text),
      report: (extra) => this.#send(extra),
    });
    this.done = new Promise((resolve) => {
      this.#finish = resolve;
    });
    this.#turnMinutes = claim.maxTurnMinutes ?? context.limits.turnMinutes;
    if (this.#turnMinutes > 0) this.#tellLater({ type: 'turnLimit' }, this.#turnMinutes * 60_000);
    for (const effect of begin.effects) this.#perform(effect);
  }

  get ref(): { readonly agentKey: string; readonly runId: number } {
    return { agentKey: this.#claim.agentKey, runId: this.#claim.runId };
  }

  /** Once it is done: the incident for which it was given up, if the service could not be told that it ended. */
  get unheardIncident(): string {
    return this.#state.at === 'ended' ? this.#state.unheardIncident : '';
  }

  /** Whether this was not known before. */
  stop(kind: StopKind): boolean {
    if (kind === '') return false;
    return this.#tell({ type: kind === 'KILL' ? 'kill' : 'interrupt' });
  }

  /** The runner leaves: the turn is cut, and another run will be given the same batch. */
  handBack(): void {
    this.#tell({ type: 'handBack' });
  }

  /** Ends everything immediately, and tells nobody. */
  forget(): void {
    this.#tell({ type: 'leaseLost' });
  }

  /** Whether the event changed anything. */
  #tell(event: RunEvent): boolean {
    const before = this.#state;
    const { state, effects } = next(before, event);
    this.#state = state;
    for (const effect of effects) this.#perform(effect);
    return state !== before;
  }

  #tellLater(event: RunEvent, ms: number): void {
    this.#timers.push(setTimeout(() => this.#tell(event), ms));
  }

  #perform(effect: Effect): void {
    switch (effect) {
      case 'prepare':
        this.#stage = this.#prepare();
        return this.#tellOf(this.#stage, () => ({ type: 'prepared' }));
      case 'open':
        this.#session = this.#open();
        return this.#tellOf(this.#session, () => ({ type: 'opened' }));
      case 'reportStart':
        return this.#tellOf(this.#send({ started: true }), () => ({ type: 'startReported' }));
      case 'work':
        return this.#tellOf(this.#work(), (end) => ({ type: 'rested', end }));
      case 'interrupt':
        this.#preparing.abort();
        this.#session.then((session) => session.interrupt()).catch(() => {});
        return;
      case 'warnOfTurnLimit': {
        const limit = `the limit of ${this.#turnMinutes} minutes (maxTurnMinutes of its pool)`;
        return this.#warn(`The turn reached ${limit} and was interrupted. Send a message to continue.`);
      }
      case 'setDeadline':
        return this.#tellLater({ type: 'deadline' }, this.#context.limits.handBackMs);
      case 'close':
        return this.#tellOf(this.#close(), () => ({ type: 'closed' }));
      case 'kill':
        return this.#tellOf(this.#kill(), () => ({ type: 'killed' }));
      case 'silence':
        return this.#stream.silence();
      case 'silenceForGood':
        return this.#stream.silenceForGood();
      case 'finish':
        for (const timer of this.#timers) clearTimeout(timer);
        this.#acting.abort();
        this.#stream.silence();
        return this.#finish();
      default: {
        const { report } = effect;
        const sent = this.#report(report);
        return this.#tellOf(sent, (isHeard) => ({ type: 'reported', report: report.type, isHeard }));
      }
    }
  }

  /** What is silenced has no outcome: the machine was told why before. */
  #tellOf<T>(work: Promise<T>, eventOf: (outcome: T) => RunEvent): void {
    work.then(
      (outcome) => this.#tell(eventOf(outcome)),
      (error: unknown) => error instanceof Silenced || this.#tellFailure(error),
    );
  }

  #tellFailure(error: unknown): void {
    const isExpected = error instanceof RunFailure || this.#isStopped();
    if (!isExpected) this.#context.log.error({ ...this.ref, err: error }, 'a run failed in its harness');
    const code = error instanceof RunFailure ? error.code : 'HARNESS_ERROR';
    this.#tell({ type: 'failed', end: failedEnd(code, messageOf(error)) });
  }

  #isStopped(): boolean {
    return !('stop' in this.#state && this.#state.stop === 'NONE');
  }

  async #prepare(): Promise<Stage> {
    const harness = this.#harness();
    const { outputSchema } = this.#claim;
    const problem = outputSchema === '' ? null : await schemaProblem(this.#claim);
    if (problem) throw new RunFailure('INVALID_OUTPUT_SCHEMA', `The output schema can't be used: ${problem}`);
    await this.#before;
    this.#preparing.signal.throwIfAborted();
    const signals = { run: this.#acting.signal, setting: this.#preparing.signal };
    return setStage(this.#claim, harness, this.#context, this.#listener(), signals);
  }

  #harness(): Harness {
    const harness = harnessFor(this.#claim, this.#context.harnesses);
    if (!harness) throw new RunFailure('NO_HARNESS', noHarness(this.#claim));
    return harness;
  }

  async #open(): Promise<HarnessSession> {
    const stage = await this.#stage;
    const work: Work = {
      claim: stage.claim,
      workspaceFolder: stage.workspaceFolder,
      homeFolder: stage.homeFolder,
      tools: this.#tools(),
      signal: this.#preparing.signal,
      instructions: instructionsFor(this.#claim, stage.repos),
      resumes: stage.resumes,
      endpoint: stage.endpoint,
      processes: stage.processes,
    };
    for (;;) {
      try {
        return await this.#harness().open(work, this.#listener());
      } catch (error) {
        if (await this.#hasOlderSession(stage)) continue;
        throw new RunFailure('SESSION_NOT_OPENED', `The session could not be opened: ${messageOf(error)}`);
      }
    }
  }

  /** A session that does not open gives way to the one saved before it. */
  async #hasOlderSession(stage: Stage): Promise<boolean> {
    return stage.resumes && !this.#preparing.signal.aborted && (await stage.restoreOlderSession());
  }

  async #work(): Promise<RunEnd> {
    const stage = await this.#stage;
    stage.checkpoints.begin(() => this.#sessionName);
    for (;;) {
      const session = await this.#session;
      const watched = new WatchedSession(session, stage.provider, this.#claim.attempt);
      const result = await this.#turns.take(watched, stage);
      const isUnopened = result.type === 'failed' && result.code === 'SESSION_NOT_OPENED';
      if (!isUnopened || !(await this.#hasOlderSession(stage))) {
        if (result.type === 'parked') this.#warn(result.message);
        return endOf(result, this.#context.limits.reportedTextLength);
      }
      await session.close().catch(() => session.kill());
      this.#session = this.#open();
    }
  }

  async #close(): Promise<void> {
    await this.#session.then((session) => session.close()).catch(() => this.#killSession());
    const stage = await this.#stage.catch(() => undefined);
    if (!stage) return;
    const notSaved = await stage.checkpoints.finish(this.#sessionName);
    const holdsBatch = 'end' in this.#state && isCutByProvider(this.#state.end);
    if (holdsBatch || notSaved)
      await stage.noteEnd(this.#sessionName, { holdsBatch, notSaved }).catch(() => {});
    await stage.clear();
  }

  async #kill(): Promise<void> {
    await this.#killSession();
    await this.#stage.then((stage) => stage.clear()).catch(() => {});
  }

  async #killSession(): Promise<void> {
    this.#preparing.abort();
    this.#acting.abort();
    await this.#session.then((session) => session.kill()).catch(() => {});
  }

  /** Whether the service did not fail on it. */
  async #report(last: SentReport): Promise<boolean> {
    switch (last.type) {
      case 'end':
        await this.#send({ end: last.end });
        return true;
      case 'failure':
        return this.#stream.failed(last.incident);
      case 'gone':
        await this.#stream.gone();
        return true;
    }
  }

  #send(extra?: Parameters<ReportStream['send']>[0]): Promise<ReportReply> {
    this.#pushes.flush();
    return this.#stream.send(extra);
  }

  #warn(text: string): void {
    this.#stream.item({ type: 'WARNING', text });
  }

  #tools() {
    return agentTools({
      url: this.#context.url,
      claim: this.#claim,
      signal: this.#acting.signal,
      activeTaskIds: () => this.#turns.activeTaskIds,
      onChange: () => this.#turns.changed(),
    });
  }

  #listener(): StageListener {
    const stream = this.#stream;
    return {
      item: (item) => {
        stream.item(item);
        this.#pushes.told(item);
      },
      action: (currentAction) => stream.action(currentAction),
      usage: (usage) => stream.usage(usage),
      session: (ref) => {
        this.#sessionName = ref;
        stream.session(ref);
      },
      diff: (diff) => stream.diff(diff),
      unpushed: (unpushed) => stream.unpushed(unpushed),
      push: (push) => {
        this.#turns.changed();
        this.#pushes.push(push);
      },
    };
  }

  #openStream(): ReportStream {
    const { client, runnerId, limits, mayAct, log } = this.#context;
    return new ReportStream({
      ...this.ref,
      token: this.#claim.token,
      client,
      runnerId,
      mayAct,
      reportItems: limits.reportItems,
      reportedTextLength: limits.reportedTextLength,
      onReply: (reply) => {
        this.#turns.replied(reply);
        this.stop(reply.stop);
      },
      onFenced: () => this.#tell({ type: 'fenced' }),
      onFailed: (incident) => {
        log.error({ ...this.ref, incident }, 'the service failed on the same report; giving up the run');
        this.#tell({ type: 'reportFailed', incident });
      },
      onDropped: (error) =>
        log.error({ ...this.ref, err: error }, 'the service refused a report; its items are lost'),
    });
  }
}

/** Nobody may be waiting for it yet. */
function absent(): Promise<never> {
  const rejected = Promise.reject(new Error('not there'));
  rejected.catch(() => {});
  return rejected;
}

const noHarness = ({ model, backend }: Claim): string =>
  `This runner has no harness for the model ${model || '(none)'} of ${backend}; it plays rehearsal-a and rehearsal-b.`;
