import type { Claim, ReportReply, ReportRequest } from '@muster/sdk/contract';
import type { TurnResult } from '../harness/harness.ts';
import { outputProblems } from '../harness/output-schema.ts';
import { batchText, continueText, correctionText, pushText, reminderText } from './batch-text.ts';
import { outputLimitProblem } from './run-end.ts';
import type { Stage } from './stage.ts';
import type { WatchedSession } from './watched-session.ts';

export interface TurnsOptions {
  readonly claim: Claim;
  /** No model is behind the agent: what it does to its checklist goes through the runner. */
  readonly isRehearsed: boolean;
  readonly mostReminders: number;
  /** A run that was told to stop is given nothing more to do. */
  readonly isStopped: () => boolean;
  readonly warn: (text: string) => void;
  /** Sends what waits to be reported: the reply is of this moment. */
  readonly report: (extra?: Pick<ReportRequest, 'omitTasks'>) => Promise<ReportReply>;
}

/**
 * What a run says to its agent: the batch, then reminders while active tasks are unfinished, then, once, that it has
 * not pushed its commits, and, once, what is wrong with its structured output.
 */
export class Turns {
  readonly #options: TurnsOptions;
  #activeTaskIds: readonly string[] = [];
  /** The agent has changed something since its tasks were asked for: the last reply may be older than that. */
  #hasChanged = false;

  constructor(options: TurnsOptions) {
    this.#options = options;
  }

  /** As the service last said. */
  get activeTaskIds(): readonly string[] {
    return this.#activeTaskIds;
  }

  replied({ activeTaskIds }: ReportReply): void {
    this.#activeTaskIds = activeTaskIds;
  }

  /** Of its checklist, or by a push. */
  changed(): void {
    this.#hasChanged = true;
  }

  async take(
    session: WatchedSession,
    { holdsBatch, notes, unpushedCommits }: Pick<Stage, 'holdsBatch' | 'notes' | 'unpushedCommits'>,
  ): Promise<TurnResult> {
    const { claim, isRehearsed } = this.#options;
    const text = holdsBatch && !isRehearsed ? continueText(notes()) : batchText(claim, notes());
    const reminded = await this.#remind(session, await session.deliver(text));
    const rested = await this.#remindToPush(session, reminded, unpushedCommits);
    return claim.outputSchema === '' ? rested : this.#checked(session, rested);
  }

  /** A turn that ends with active tasks unfinished is told so, a few times. */
  async #remind(session: WatchedSession, first: TurnResult): Promise<TurnResult> {
    const { mostReminders, isStopped, warn } = this.#options;
    let result = first;
    for (let reminder = 1; reminder <= mostReminders; reminder++) {
      if (isStopped() || !isAtRest(result)) break;
      const unfinished = await this.#unfinishedTasks();
      if (unfinished.length === 0) break;
      const subjects = unfinished.map((task) => task.subject).join(', ');
      warn(`Reminder ${reminder} of ${mostReminders}: unfinished tasks: ${subjects}`);
      result = await reminded(session, result, reminderText(unfinished));
    }
    return result;
  }

  /** An agent that asked a question, or that was told to stop, may push later. */
  async #remindToPush(
    session: WatchedSession,
    result: TurnResult,
    unpushedCommits: () => Promise<number>,
  ): Promise<TurnResult> {
    const { isStopped, isRehearsed, warn } = this.#options;
    if (isRehearsed || isStopped() || !isAtRest(result)) return result;
    const commits = await unpushedCommits();
    if (commits === 0 || isStopped() || (await this.#hasAsked())) return result;
    warn(`Reminder: ${commits === 1 ? '1 commit is' : `${commits} commits are`} not pushed.`);
    return reminded(session, result, pushText(commits));
  }

  /** Asks only where the last reply can't be trusted: a real agent has tools of its own, most others no checklist. */
  async #unfinishedTasks(): Promise<ReportReply['tasks']> {
    const isKnown = this.#options.isRehearsed && !this.#hasChanged;
    if (isKnown && this.#activeTaskIds.length === 0) return [];
    this.#hasChanged = false;
    const { tasks, activeTaskIds, asked } = await this.#options.report({ omitTasks: false });
    if (asked) return [];
    const active = new Set(activeTaskIds);
    return tasks.filter((task) => active.has(task.id));
  }

  /** Structured output that does not fit the schema is sent back once. An agent that asked owes none yet. */
  async #checked(session: WatchedSession, rested: TurnResult): Promise<TurnResult> {
    const errors = await this.#problemsOf(rested);
    if (errors.length === 0) return rested;
    if (await this.#hasAsked()) return withoutOutput(rested);
    if (this.#options.isStopped()) return { type: 'interrupted', response: responseOf(rested) };
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
    return outputLimitProblem(output) ? [] : outputProblems(this.#options.claim, output);
  }

  /** With a tool of its own, as a real agent does: the last reply may be older than the question. */
  async #hasAsked(): Promise<boolean> {
    return !this.#options.isRehearsed && (await this.#options.report()).asked;
  }
}

type AtRest = Extract<TurnResult, { type: 'done' }>;

const isAtRest = (result: TurnResult): result is AtRest =>
  result.type === 'done' && result.question === undefined;

/** What was said already is not unsaid by an answer to a reminder. */
async function reminded(session: WatchedSession, before: AtRest, text: string): Promise<TurnResult> {
  const result = await session.deliver(text);
  if (result.type !== 'done') return result;
  return { ...before, ...definedOnly(result), response: result.response || before.response };
}

const definedOnly = <T extends object>(value: T): T =>
  Object.fromEntries(Object.entries(value).filter(([, field]) => field !== undefined)) as T;

const withoutOutput = (result: TurnResult): TurnResult =>
  result.type === 'done' ? { ...result, structuredOutput: undefined } : result;

const responseOf = (result: TurnResult): string => ('response' in result ? (result.response ?? '') : '');
