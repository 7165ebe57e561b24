import type { Claim, ReportReply, ReportRequest } from '@muster/sdk/contract';
import { within } from '../../harness/agent-process.ts';
import type { HarnessSession, Message, TurnResult } from '../../harness/harness.ts';
import { outputProblems } from '../../lib/output-schema/schema-worker.ts';
import type { OpenEndpoint } from '../gateway/gateway.ts';
import type { MessageImages } from './message-images.ts';
import type { PreparedRun } from './prepare-run.ts';
import { batchText, continueText, correctionText, pushText, reminderText } from './prompts.ts';
import { outputLimitProblem } from './run-end.ts';

export interface TurnsOptions {
  readonly claim: Claim;
  /** No model is behind the agent: it changes its checklist through the runner. */
  readonly isRehearsed: boolean;
  readonly maxReminders: number;
  /** A stopped run gets no more messages. */
  readonly isStopped: () => boolean;
  readonly warn: (text: string) => void;
  readonly images: MessageImages;
  /** Sends the waiting report, so that the reply is current. */
  readonly report: (extra?: Pick<ReportRequest, 'omitTasks'>) => Promise<ReportReply>;
}

/**
 * The messages of a run to its agent: the batch, then reminders while active tasks are unfinished, then at most one
 * reminder of unpushed commits, and at most one correction of its structured output.
 */
export class Turns {
  readonly #options: TurnsOptions;
  /** From the last reply of the service. */
  activeTaskIds: readonly string[] = [];
  /** The tasks of the last reply may be out of date. */
  #hasChanged = false;

  constructor(options: TurnsOptions) {
    this.#options = options;
  }

  /** The agent changed its checklist, or pushed. */
  changed(): void {
    this.#hasChanged = true;
  }

  async take(
    deliver: Deliver,
    { hasBatch, notes, unpushedCommits }: Pick<PreparedRun, 'hasBatch' | 'notes' | 'unpushedCommits'>,
  ): Promise<TurnResult> {
    const { claim, isRehearsed, images } = this.#options;
    const isContinued = hasBatch && !isRehearsed;
    const text = isContinued ? continueText(notes()) : batchText(claim, notes());
    const first = await deliver(text, isContinued ? [] : await images.of(...claim.messages));
    const reminded = await this.#remind(deliver, first);
    const result = await this.#remindToPush(deliver, reminded, unpushedCommits);
    return claim.outputSchema === '' ? result : this.#checkOutput(deliver, result);
  }

  async #remind(deliver: Deliver, first: TurnResult): Promise<TurnResult> {
    const { maxReminders, isStopped, warn } = this.#options;
    let result = first;
    for (let reminder = 1; reminder <= maxReminders; reminder++) {
      if (isStopped() || !isDone(result)) break;
      const unfinished = await this.#unfinishedTasks();
      if (unfinished.length === 0) break;
      const subjects = unfinished.map((task) => task.subject).join(', ');
      warn(`Reminder ${reminder} of ${maxReminders}: unfinished tasks: ${subjects}`);
      result = await sendReminder(deliver, result, reminderText(unfinished));
    }
    return result;
  }

  /** An agent that asked a question, or that was stopped, may push later. */
  async #remindToPush(
    deliver: Deliver,
    result: TurnResult,
    unpushedCommits: () => Promise<number>,
  ): Promise<TurnResult> {
    const { isStopped, warn } = this.#options;
    if (isStopped() || !isDone(result)) return result;
    const commits = await unpushedCommits();
    if (commits === 0 || isStopped() || (await this.#hasAsked())) return result;
    warn(`Reminder: ${commits === 1 ? '1 commit is' : `${commits} commits are`} not pushed.`);
    return sendReminder(deliver, result, pushText(commits));
  }

  /** Calls the service only if the last reply may be out of date: a real agent changes its tasks without the runner. */
  async #unfinishedTasks(): Promise<ReportReply['tasks']> {
    const isKnown = this.#options.isRehearsed && !this.#hasChanged;
    if (isKnown && this.activeTaskIds.length === 0) return [];
    this.#hasChanged = false;
    const { tasks, activeTaskIds, asked } = await this.#options.report({ omitTasks: false });
    if (asked) return [];
    const active = new Set(activeTaskIds);
    return tasks.filter((task) => active.has(task.id));
  }

  /** Output that does not match the schema is sent back once. An agent that asked a question needs no output yet. */
  async #checkOutput(deliver: Deliver, result: TurnResult): Promise<TurnResult> {
    const errors = await this.#problemsOf(result);
    if (errors.length === 0) return result;
    if (await this.#hasAsked()) return withoutOutput(result);
    if (this.#options.isStopped()) return { type: 'interrupted', response: responseOf(result) };
    const corrected = await deliver(correctionText(errors));
    const remaining = await this.#problemsOf(corrected);
    if (remaining.length === 0) return corrected;
    if (await this.#hasAsked()) return withoutOutput(corrected);
    const message = `The structured output does not match the schema: ${remaining.join('; ')}`;
    return { type: 'failed', code: 'INVALID_STRUCTURED_OUTPUT', message, response: responseOf(corrected) };
  }

  /** Output that is too large to be reported is not checked: the run fails because of its size. */
  async #problemsOf(result: TurnResult): Promise<readonly string[]> {
    if (result.type !== 'done' || result.question !== undefined) return [];
    const output = result.structuredOutput ?? null;
    return outputLimitProblem(output) ? [] : outputProblems(this.#options.claim, output);
  }

  /** A real agent asks with its own tool, so the last reply may be out of date. */
  async #hasAsked(): Promise<boolean> {
    return !this.#options.isRehearsed && (await this.#options.report()).asked;
  }
}

type Done = Extract<TurnResult, { type: 'done' }>;

const isDone = (result: TurnResult): result is Done =>
  result.type === 'done' && result.question === undefined;

/** The reply to a reminder does not replace an earlier response or output by an empty one. */
async function sendReminder(deliver: Deliver, before: Done, text: string): Promise<TurnResult> {
  const result = await deliver(text);
  if (result.type !== 'done') return result;
  return { ...before, ...definedOnly(result), response: result.response || before.response };
}

const definedOnly = <T extends object>(value: T): T =>
  Object.fromEntries(Object.entries(value).filter(([, field]) => field !== undefined)) as T;

const withoutOutput = (result: TurnResult): TurnResult =>
  result.type === 'done' ? { ...result, structuredOutput: undefined } : result;

const responseOf = (result: TurnResult): string => ('response' in result ? (result.response ?? '') : '');

/** How long a harness may take to finish after its provider refused it, and again after it was interrupted. */
const finishMs = 3000;
const firstLimitMs = 500;
const maxLimitMs = 5 * 60_000;

export type Deliver = (text: string, images?: Message['images']) => Promise<TurnResult>;

/**
 * Delivers to a session whose provider requests are monitored at the gateway. A limit or a refusal, of the provider or
 * a budget, ends the turn immediately; the harness alone would retry for minutes.
 */
export function monitored(session: HarnessSession, gateway: OpenEndpoint, attempt: number): Deliver {
  return async (text, images = []) => {
    const delivering = session.deliver({ text, images });
    const failure = await Promise.race([delivering.then(() => undefined), gateway.failure]);
    if (!failure) return withOutage(await delivering, gateway.outage());
    const finished = delivering.then(
      () => true,
      () => true,
    );
    // Not interrupted at first: the model would see the interrupt as the user's.
    if (!(await within(finishMs, finished))) {
      session.interrupt();
      if (!(await within(finishMs, finished))) await session.kill();
    }
    if (failure.type === 'budget')
      return { type: 'parked', until: new Date(), message: failure.message, isBudget: true };
    if (failure.type === 'refused') return { type: 'failed', code: failure.code, message: failure.message };
    // A provider that reports a limit again and again is asked less and less often.
    const minWaitMs = Math.min(maxLimitMs, firstLimitMs * 2 ** Math.min(attempt - 1, 10));
    const until = new Date(Math.max(failure.until.getTime(), Date.now() + minWaitMs));
    const message = `${failure.message}. The run continues at ${until.toISOString()}.`;
    return { type: 'parked', until, message };
  };
}

/** An unavailable provider comes back: the service retries the batch later. */
function withOutage(result: TurnResult, outage: string | undefined): TurnResult {
  if (result.type !== 'failed' || outage === undefined) return result;
  return { ...result, code: 'PROVIDER_UNAVAILABLE', message: `${outage} ${result.message}` };
}
