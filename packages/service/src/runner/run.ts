import type { Claim, ReportReply, StopKind } from '@muster/sdk/contract';
import type { Harness, HarnessSession, TurnResult, Work } from '../harness/harness.ts';
import { outputProblems, schemaProblem } from '../harness/output-schema.ts';
import { messageOf } from '../lib/message-of.ts';
import { agentTools } from './agent-tools.ts';
import { batchText, correctionText, reminderText } from './batch-text.ts';
import { type Harnesses, harnessFor, type Slot, slotOf } from './harnesses.ts';
import { instructionsFor } from './instructions.ts';
import { ReportStream, type RunEnd, Silenced } from './report-stream.ts';
import { endOf, failedEnd, outputLimitProblem, RunFailure } from './run-end.ts';
import { type Stage, type StageContext, type StageListener, setStage } from './stage.ts';
import { WatchedSession } from './watched-session.ts';

/**
 * One run, from claim to last report:
 *
 *   stage → session → `started` → batch → reminders while active tasks are unfinished → output checked → end
 *
 * Two things cut it short. A *stop* (interrupt, time limit, hand-back) lets the turn come to rest and then reports the end. A
 * *halt* does not: the session is killed, and the run is either declared gone (it was killed, or the service has
 * given it away), ended as failed (the service failed on its reports), or forgotten without a word (the lease is over,
 * so nobody would listen).
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

type Halt = 'KILLED' | 'FENCED' | 'FAILED' | 'FORGOTTEN';
type Stop = 'INTERRUPT' | 'HAND_BACK';

export class Run {
  readonly slot: Slot;
  /** Resolves, never rejects, when nothing is left to do or to say. */
  readonly done: Promise<void>;
  readonly #claim: Claim;
  readonly #context: RunContext;
  readonly #before: Promise<void>;
  readonly #stream: ReportStream;
  /** Aborts when the run may say nothing more. */
  readonly #voice = new AbortController();
  /** Aborts when the agent's tools must rest. */
  readonly #hands = new AbortController();
  /** Aborts when a stage or a session that is not there yet is not waited for any more. */
  readonly #patience = new AbortController();
  readonly #opens = AbortSignal.any([this.#hands.signal, this.#patience.signal]);
  readonly #halted: Promise<Halt>;
  #halt: (halt: Halt) => void = () => {};
  #stopKind: StopKind = '';
  #stop: Stop | undefined;
  #cut: (end: RunEnd) => void = () => {};
  readonly #cutShort = new Promise<RunEnd>((resolve) => {
    this.#cut = resolve;
  });
  #staging: Promise<Stage> | undefined;
  #opening: Promise<HarnessSession> | undefined;
  #session = '';
  #turnTimer: NodeJS.Timeout | undefined;
  #killTimer: NodeJS.Timeout | undefined;
  #reply: ReportReply | undefined;
  #tasksTouched = false;
  #incident = '';
  #isUnheard = false;

  /** `before` is over when nothing of an earlier run of the agent is left in its folders. */
  constructor(claim: Claim, context: RunContext, before: Promise<void> = Promise.resolve()) {
    this.#claim = claim;
    this.#context = context;
    this.#before = before;
    this.slot = slotOf(claim, context.harnesses.rehearses);
    this.#halted = new Promise((resolve) => {
      this.#halt = resolve;
    });
    this.#stream = this.#openStream();
    this.#limitTurn(claim.maxTurnMinutes ?? context.limits.turnMinutes);
    this.done = this.#live();
  }

  get ref(): { readonly agentKey: string; readonly runId: number } {
    return { agentKey: this.#claim.agentKey, runId: this.#claim.runId };
  }

  /** Once it is done: the incident for which it was given up, if the service could not be told that it ended. */
  get unheardIncident(): string | undefined {
    return this.#isUnheard ? this.#incident : undefined;
  }

  /** Whether this was not known before. */
  stop(kind: StopKind): boolean {
    if (kind === '' || this.#stopKind === 'KILL' || this.#stopKind === kind) return false;
    this.#stopKind = kind;
    if (kind === 'KILL') this.#halt('KILLED');
    else this.#rest('INTERRUPT');
    return true;
  }

  /** The runner leaves: the turn is cut, and another run will be given the same batch. */
  handBack(): void {
    this.#rest('HAND_BACK');
    this.#killLater();
  }

  /** The agent is not lost: it is interrupted, as by a person, and waits for its next message. */
  #limitTurn(minutes: number): void {
    if (minutes <= 0) return;
    this.#turnTimer = setTimeout(() => {
      const limit = `the limit of ${minutes} minutes (maxTurnMinutes of its pool)`;
      const text = `The turn reached ${limit} and was interrupted. Send a message to continue.`;
      this.#stream.item({ type: 'WARNING', text });
      this.#rest('INTERRUPT');
      this.#killLater();
    }, minutes * 60_000);
  }

  #killLater(): void {
    this.#killTimer ??= setTimeout(async () => {
      await this.#killSession();
      await this.#clearStage();
      this.#cut(this.#end({ type: 'interrupted', response: '' }));
    }, this.#context.limits.handBackMs);
  }

  /** Ends everything at once, and tells nobody. */
  async forget(): Promise<void> {
    this.#voice.abort();
    this.#halt('FORGOTTEN');
    await this.done;
  }

  #rest(stop: Stop): void {
    this.#patience.abort();
    if (!this.#stop) this.#opening?.then((session) => session.interrupt()).catch(() => {});
    // An interrupt that was asked for is what the run ends with, also when the runner leaves.
    if (this.#stop !== 'INTERRUPT') this.#stop = stop;
  }

  async #live(): Promise<void> {
    const halt = await Promise.race([this.#halted, this.#work()]);
    clearTimeout(this.#turnTimer);
    clearTimeout(this.#killTimer);
    this.#hands.abort();
    this.#stream.silence();
    if (halt) await this.#killSession();
    await this.#clearStage();
    if (halt === 'FAILED') this.#isUnheard = !(await this.#stream.failed(this.#incident));
    else if (halt && halt !== 'FORGOTTEN') await this.#stream.gone();
  }

  async #work(): Promise<undefined> {
    try {
      const end = await Promise.race([this.#rested(), this.#cutShort]);
      await this.#stream.send({ end });
    } catch {
      // Silenced: whoever silenced the stream has halted the run, or is about to.
      await this.#halted;
    }
  }

  async #rested(): Promise<RunEnd> {
    const end = await this.#turns().catch((error: unknown) => this.#crashed(error));
    // Nothing of this run may be alive when the next one starts in the same folder.
    await this.#opening?.then((session) => session.close()).catch(() => this.#killSession());
    this.#opening = undefined;
    const stage = await this.#staging?.catch(() => undefined);
    if (this.#session !== '') await stage?.keepSession(this.#session);
    await this.#clearStage();
    return end;
  }

  async #clearStage(): Promise<void> {
    await this.#staging?.then((stage) => stage.clear()).catch(() => {});
  }

  async #turns(): Promise<RunEnd> {
    const harness = harnessFor(this.#claim, this.#context.harnesses);
    if (!harness) throw new RunFailure('NO_HARNESS', noHarness(this.#claim));
    await this.#refuseSchema();
    const stage = await this.#set(harness);
    const session = this.#stop ? undefined : await this.#open(harness, stage);
    if (session) await this.#stream.send({ started: true });
    if (!session || this.#stop) return this.#end({ type: 'interrupted', response: '' });
    const watched = new WatchedSession(session, stage.provider, this.#claim.attempt);
    const first = await watched.deliver(batchText(this.#claim));
    const rested = await this.#remind(watched, first);
    return this.#end(this.#claim.outputSchema === '' ? rested : await this.#checked(watched, rested));
  }

  async #refuseSchema(): Promise<void> {
    const problem = this.#claim.outputSchema === '' ? null : await schemaProblem(this.#claim);
    if (problem) throw new RunFailure('INVALID_OUTPUT_SCHEMA', `The output schema can't be used: ${problem}`);
  }

  async #set(harness: Harness): Promise<Stage> {
    const signals = { run: this.#hands.signal, setting: this.#opens };
    this.#staging = this.#before.then(() =>
      setStage(this.#claim, harness, this.#context, this.#listener(), signals),
    );
    const stage = await this.#staging;
    if (this.#hands.signal.aborted) throw new Silenced();
    return stage;
  }

  async #open(harness: Harness, stage: Stage): Promise<HarnessSession> {
    const work: Work = {
      claim: stage.claim,
      workspaceFolder: stage.workspaceFolder,
      homeFolder: stage.homeFolder,
      tools: this.#tools(),
      signal: this.#opens,
      instructions: instructionsFor(this.#claim, stage.repos),
      resumes: stage.resumes,
      door: stage.door,
      processes: stage.processes,
    };
    this.#opening = harness.open(work, this.#listener());
    return this.#opening.catch((error: unknown) => {
      throw new RunFailure('SESSION_NOT_OPENED', `The session could not be opened: ${messageOf(error)}`);
    });
  }

  /** Structured output that does not fit the schema is sent back once. An agent that asked owes none yet. */
  async #checked(session: WatchedSession, rested: TurnResult): Promise<TurnResult> {
    const errors = await this.#problemsOf(rested);
    if (errors.length === 0) return rested;
    if (await this.#hasAsked()) return withoutOutput(rested);
    if (this.#stop) return { type: 'interrupted', response: responseOf(rested) };
    const corrected = await session.deliver(correctionText(errors));
    const remaining = await this.#problemsOf(corrected);
    if (remaining.length === 0) return corrected;
    if (await this.#hasAsked()) return withoutOutput(corrected);
    const message = `The structured output does not fit the schema: ${remaining.join('; ')}`;
    return { type: 'failed', code: 'INVALID_STRUCTURED_OUTPUT', message, response: responseOf(corrected) };
  }

  /** An output that is too large to be reported is not checked: the run fails for that. */
  async #problemsOf(result: TurnResult): Promise<readonly string[]> {
    if (result.type !== 'done' || result.question !== undefined) return [];
    const output = result.structuredOutput ?? null;
    return outputLimitProblem(output) ? [] : outputProblems(this.#claim, output);
  }

  /** With a tool of its own, as a real agent does: the last reply may be older than the question. */
  async #hasAsked(): Promise<boolean> {
    return this.slot === 'real' && (await this.#stream.send()).asked;
  }

  /** A turn that rests with active tasks unfinished is told so, a few times. */
  async #remind(session: WatchedSession, first: TurnResult): Promise<TurnResult> {
    let result = first;
    const most = this.#context.limits.remindersPerRun;
    for (let reminder = 1; reminder <= most; reminder++) {
      if (this.#stop || result.type !== 'done' || result.question !== undefined) break;
      const unfinished = await this.#unfinishedTasks();
      if (unfinished.length === 0) break;
      const subjects = unfinished.map((task) => task.subject).join(', ');
      this.#stream.item({
        type: 'WARNING',
        text: `Reminder ${reminder} of ${most}: unfinished tasks: ${subjects}`,
      });
      const before = result;
      result = await session.deliver(reminderText(unfinished));
      // What was said already is not unsaid by an answer to a reminder.
      if (result.type === 'done') {
        const response = result.response || before.response;
        result = { ...before, ...definedOnly(result), response };
      }
    }
    return result;
  }

  /** Asks only where the last reply can't be trusted: a real agent has tools of its own, most others no checklist. */
  async #unfinishedTasks(): Promise<ReportReply['tasks']> {
    const isKnown = this.slot === 'rehearsed' && !this.#tasksTouched;
    if (isKnown && this.#reply?.activeTaskIds.length === 0) return [];
    this.#tasksTouched = false;
    const { tasks, activeTaskIds, asked } = await this.#stream.send({ omitTasks: false });
    if (asked) return [];
    const active = new Set(activeTaskIds);
    return tasks.filter((task) => active.has(task.id));
  }

  #end(result: TurnResult): RunEnd {
    if (result.type === 'parked') this.#stream.item({ type: 'WARNING', text: result.message });
    const end = endOf(result, this.#context.limits.reportedTextLength);
    // A run told to stop ends so, whatever happened to it after.
    if (this.#stop === 'INTERRUPT') return { outcome: 'INTERRUPTED', response: end.response ?? '' };
    if (this.#stop === 'HAND_BACK' && result.type === 'interrupted') return { outcome: 'HANDED_BACK' };
    return end;
  }

  #crashed(error: unknown): RunEnd {
    if (error instanceof Silenced) throw error;
    // A session that was killed to hand the run back may well complain.
    if (this.#stop) return this.#end({ type: 'interrupted', response: '' });
    if (this.#hands.signal.aborted) throw new Silenced();
    if (error instanceof RunFailure) return failedEnd(error.code, error.message);
    this.#context.log.error({ ...this.ref, err: error }, 'a run failed in its harness');
    return failedEnd('HARNESS_ERROR', messageOf(error));
  }

  async #killSession(): Promise<void> {
    this.#hands.abort();
    await this.#opening?.then((session) => session.kill()).catch(() => {});
  }

  #tools() {
    return agentTools({
      url: this.#context.url,
      claim: this.#claim,
      signal: this.#hands.signal,
      activeTaskIds: () => this.#reply?.activeTaskIds ?? [],
      onChange: () => {
        this.#tasksTouched = true;
      },
    });
  }

  #listener(): StageListener {
    const stream = this.#stream;
    return {
      item: (item) => stream.item(item),
      action: (currentAction) => stream.action(currentAction),
      usage: (usage) => stream.usage(usage),
      session: (ref) => {
        this.#session = ref;
        stream.session(ref);
      },
      diff: (diff) => stream.diff(diff),
      push: (push) => {
        this.#tasksTouched = true;
        stream.push(push);
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
      signal: this.#voice.signal,
      onReply: (reply) => {
        this.#reply = reply;
        this.stop(reply.stop);
      },
      onFenced: () => this.#halt('FENCED'),
      onFailed: (incident) => {
        log.error({ ...this.ref, incident }, 'the service failed on the same report; giving up the run');
        this.#incident = incident;
        this.#halt('FAILED');
      },
      onDropped: (error) =>
        log.error({ ...this.ref, err: error }, 'the service refused a report; its items are lost'),
    });
  }
}

const noHarness = ({ model, backend }: Claim): string =>
  `This runner has no harness for the model ${model || '(none)'} of ${backend}; it plays rehearsal-a and rehearsal-b.`;

const definedOnly = <T extends object>(value: T): T =>
  Object.fromEntries(Object.entries(value).filter(([, field]) => field !== undefined)) as T;

const withoutOutput = (result: TurnResult): TurnResult =>
  result.type === 'done' ? { ...result, structuredOutput: undefined } : result;

const responseOf = (result: TurnResult): string => ('response' in result ? (result.response ?? '') : '');
