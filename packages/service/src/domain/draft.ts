import type { EntryType, Phase, PhaseReason, RunOutcome } from '@muster/sdk/contract';
import type {
  Agent,
  AgentState,
  Brief,
  ChecklistTask,
  Entry,
  FollowUp,
  Instant,
  Memory,
  NewDiff,
  NewFollowUp,
  Result,
  Run,
  RunResult,
} from './agent.ts';
import type { DomainEvent } from './events.ts';
import type { Thread, ThreadChange } from './thread.ts';

const noThreads: ReadonlyMap<string, Thread> = new Map();

interface EntryFields {
  readonly text?: string;
  readonly data?: Record<string, unknown>;
  readonly followUpId?: string;
  readonly runId?: number;
}

/**
 * A command's working copy of one agent. Only the decision that created it changes it; the result is the state before,
 * the state after, and the entries in between.
 */
export class Draft {
  readonly before: AgentState | null;
  readonly now: Instant;
  /** Of an agent that this command spawns. */
  readonly brief: Brief | null;
  readonly entries: Entry[] = [];
  readonly admitted: NewFollowUp[] = [];
  readonly diffs: NewDiff[] = [];
  readonly threadChanges: ThreadChange[] = [];
  readonly events: DomainEvent[] = [];
  runResult: RunResult | null = null;
  /** A changed run that is not the newest. */
  olderRun: Run | null = null;
  agent: Agent;
  run: Run | null;
  followUps: Map<string, FollowUp>;
  checklist: readonly ChecklistTask[];
  threads: ReadonlyMap<string, Thread>;
  #ownThreads: Map<string, Thread> | null = null;

  private constructor(before: AgentState | null, start: AgentState, now: Instant, brief: Brief | null) {
    this.before = before;
    this.now = now;
    this.brief = brief;
    this.agent = start.agent;
    this.run = start.run;
    this.followUps = new Map(start.followUps);
    this.checklist = start.checklist;
    this.threads = start.threads ?? noThreads;
  }

  static of(state: AgentState, now: Instant): Draft {
    return new Draft(state, state, now, null);
  }

  static create(agent: Agent, brief: Brief, checklist: readonly ChecklistTask[], now: Instant): Draft {
    return new Draft(null, { agent, run: null, followUps: new Map(), checklist }, now, brief);
  }

  get state(): AgentState {
    const { agent, run, followUps, checklist, threads } = this;
    return { agent, run, followUps, checklist, threads };
  }

  /** Copies the agent before its first change only: a command makes many. */
  set(fields: Partial<Agent>): void {
    if (this.agent === this.before?.agent) this.agent = { ...this.agent };
    Object.assign(this.agent, fields);
  }

  remember(fields: Partial<Memory>): void {
    this.set({ memory: { ...this.agent.memory, ...fields } });
  }

  setRun(fields: Partial<Run>): void {
    if (this.run) this.run = { ...this.run, ...fields };
  }

  /** Copies the threads before their first change only. */
  setThread(thread: Thread): void {
    this.#ownThreads ??= new Map(this.threads);
    this.threads = this.#ownThreads.set(thread.id, thread);
  }

  /** What the run is covered for and has not spent goes back to its budgets. */
  #returnCredit(): void {
    const { credits, usage } = this.run ?? {};
    for (const [key, coveredUsd] of Object.entries(credits ?? {}))
      this.events.push({
        type: 'taken',
        key,
        usd: (usage?.cost ?? 0) - coveredUsd,
        within: null,
      });
  }

  /** Ends the run. `goneAt` is null while a process of it may be left. */
  endRun(outcome: RunOutcome, goneAt: Instant | null): void {
    if (!this.run) return;
    const { context } = this.agent.result;
    const data = { outcome, ...(context && { context }) };
    this.log('RUN_ENDED', { runId: this.run.number, text: outcome, data });
    this.#returnCredit();
    this.events.push({ type: 'runEnded', runId: this.run.number, outcome });
    this.setRun({ state: 'ENDED', outcome, endedAt: this.now, goneAt, currentAction: '' });
  }

  /** Sets the result of the newest run and of the agent. */
  produce(fields: Partial<Pick<Result, 'response' | 'structuredOutput' | 'error'>>): void {
    this.set({ result: { ...this.agent.result, ...fields } });
    if (this.run) this.runResult = { ...this.runResult, ...fields, runId: this.run.number };
  }

  trace(traceId: string): void {
    if (this.run) this.runResult = { ...this.runResult, traceId, runId: this.run.number };
  }

  log(type: EntryType, fields: EntryFields = {}): number {
    const sequence = this.agent.sequence + 1;
    this.set({ sequence });
    this.entries.push({
      sequence,
      at: this.now,
      runId: fields.runId ?? (this.run && this.run.state !== 'ENDED' ? this.run.number : 0),
      type,
      followUpId: fields.followUpId ?? '',
      text: fields.text ?? '',
      data: fields.data ?? {},
    });
    return sequence;
  }

  /** A change of phase or reason is logged; the same phase and reason again change nothing. */
  move(phase: Phase, reason: PhaseReason): void {
    const { phase: from, reason: fromReason } = this.agent;
    if (phase === from && reason === fromReason) return;
    this.set({ phase, reason, since: this.now });
    this.events.push({ type: 'phaseChanged', from, fromReason, to: phase, reason });
    this.log('PHASE_CHANGED', { text: reason, data: { from, to: phase, fromReason, reason } });
  }

  queue(): FollowUp[] {
    return [...this.followUps.values()]
      .filter((f) => f.state === 'QUEUED')
      .sort((a, b) => a.position - b.position);
  }

  deferred(): FollowUp[] {
    return [...this.followUps.values()].filter((f) => f.state === 'DEFERRED');
  }

  /** Changes a follow-up's state, with its entry and the agent's counts. */
  moveFollowUp(
    followUp: FollowUp,
    to: FollowUp['state'],
    fields: EntryFields & { batch?: number } = {},
  ): void {
    const from = followUp.state;
    const { batch, ...entry } = fields;
    const sequence = this.log(`FOLLOW_UP_${to}`, {
      ...entry,
      followUpId: followUp.id,
      data: { from, to, ...entry.data },
    });
    const position = to === 'QUEUED' ? sequence : followUp.position;
    this.followUps.set(followUp.id, { ...followUp, state: to, position, batch: batch ?? followUp.batch });
    this.#count(from, -1);
    this.#count(to, 1);
  }

  admit(
    followUp: FollowUp,
    { description, traceparent }: Pick<NewFollowUp, 'description' | 'traceparent'>,
    state: 'QUEUED' | 'DEFERRED',
    data: object = {},
  ): void {
    const sequence = this.log(`FOLLOW_UP_${state}`, {
      followUpId: followUp.id,
      text: description,
      data: { from: '', to: state, ...(followUp.deliverAt && { deliverAt: followUp.deliverAt }), ...data },
    });
    this.followUps.set(followUp.id, { ...followUp, state, position: state === 'QUEUED' ? sequence : 0 });
    this.admitted.push({ id: followUp.id, description, sequence, traceparent });
    this.#count(state, 1);
  }

  #count(state: FollowUp['state'], by: 1 | -1): void {
    if (state === 'QUEUED') this.set({ queued: this.agent.queued + by });
    if (state === 'DEFERRED') this.set({ deferred: this.agent.deferred + by });
  }
}
