import type { Task } from '@muster/sdk/contract';
import type { AgentState, Entry } from '../../packages/service/src/domain/agent.ts';
import type { StoredBudget } from '../../packages/service/src/domain/budget.ts';
import type { QueueFollowUp } from '../../packages/service/src/domain/commands/queue-follow-up.ts';
import type { ReportRun } from '../../packages/service/src/domain/commands/report-run.ts';
import type { SpawnAgent } from '../../packages/service/src/domain/commands/spawn-agent.ts';
import { type AgentCommand, type Command, decide } from '../../packages/service/src/domain/decide.ts';
import { LoadedAgents } from '../../packages/service/src/domain/loaded-agents.ts';
import { isRefusal, type Refusal } from '../../packages/service/src/domain/refusal.ts';
import { claimingRunner, ended, followUp, report, spawn } from '../simulation/samples.ts';

type ReportedEnd = NonNullable<ReportRun['end']>;
type Outcome = ReportedEnd['outcome'] | 'LOST';

const startMs = Date.parse('2026-03-01T12:00:00.000Z');

/** The agents of a test, with everything that a command could need loaded. */
class Tree {
  nowMs = startMs;
  readonly states = new Map<string, AgentState>();
  readonly entries = new Map<string, Entry[]>();
  /** Over all agents. */
  budgets: readonly StoredBudget[] = [];

  get now(): string {
    return new Date(this.nowMs).toISOString();
  }

  decide(command: Command, target: AgentState | null): unknown {
    this.nowMs += 1;
    const loaded = new LoadedAgents(this.now);
    for (const state of this.states.values()) {
      loaded.add(state);
      loaded.addBudgets(state.agent.id, this.budgets);
    }
    const decision = decide(loaded, command, target);
    if (isRefusal(decision)) return decision;
    for (const { after, entries, events } of decision.changes) {
      const { id } = after.agent;
      for (const event of events) if (event.type === 'taken') this.#take(event);
      this.states.set(id, after);
      this.entries.set(id, [...(this.entries.get(id) ?? []), ...entries]);
    }
    return decision.reply;
  }

  #take({ key, usd }: { readonly key: string; readonly usd: number }): void {
    this.budgets = this.budgets.map((budget) =>
      budget.key === key && budget.ledger
        ? { ...budget, ledger: { ...budget.ledger, takenUsd: budget.ledger.takenUsd + usd } }
        : budget,
    );
  }
}

/** Agents in memory that get commands as control sends them. Each method gives one command. */
export class DomainAgent {
  readonly id: string;
  /** What the newest command was answered with. */
  reply: unknown;
  readonly #tree: Tree;
  #reports = 0;

  constructor(fields: Partial<SpawnAgent> = {}, tree = new Tree(), path: readonly string[] = ['root']) {
    this.#tree = tree;
    this.id = path.join('/');
    const parent = tree.states.get(path.slice(0, -1).join('/')) ?? null;
    this.reply = tree.decide({ ...spawn(this.id, path), ...fields }, parent);
  }

  get state(): AgentState {
    const state = this.#tree.states.get(this.id);
    if (!state) throw new Error(`the agent ${this.id} was not spawned`);
    return state;
  }

  /** Such as `PENDING STARTING`. */
  get phase(): string {
    const { phase, reason } = this.state.agent;
    return `${phase.replace('PHASE_', '')} ${reason}`;
  }

  get memory() {
    return this.state.agent.memory;
  }

  get error(): string {
    const { error } = this.state.agent.result;
    return error ? `${error.code}: ${error.message}` : '';
  }

  get tasks(): readonly string[] {
    return this.state.checklist.map(({ id }) => id);
  }

  /** Such as `a:QUEUED b:DELIVERED`, in the order of admission. */
  get messages(): string {
    return [...this.state.followUps.values()].map(({ id, state }) => `${id}:${state}`).join(' ');
  }

  /** The status of the newest command that was refused; empty if it was not. */
  get refused(): string {
    return isRefusal(this.reply) ? this.reply.status : '';
  }

  get refusal(): Refusal {
    if (!isRefusal(this.reply)) throw new Error(`not refused: ${JSON.stringify(this.reply)}`);
    return this.reply;
  }

  /** When a runner may claim it, in seconds from now; null if none may. */
  get claimableInSeconds(): number | null {
    const { claimableAt } = this.state.agent;
    if (claimableAt === null) return null;
    return Math.max(0, Math.round((Date.parse(claimableAt) - this.#tree.nowMs) / 1000));
  }

  entries(type: Entry['type']): readonly Entry[] {
    return (this.#tree.entries.get(this.id) ?? []).filter((entry) => entry.type === type);
  }

  send(command: AgentCommand): this {
    this.reply = this.#tree.decide(command, this.state);
    return this;
  }

  child(name: string, fields: Partial<SpawnAgent> = {}): DomainAgent {
    return new DomainAgent(fields, this.#tree, [...this.state.agent.path, name]);
  }

  after(seconds: number): this {
    this.#tree.nowMs += seconds * 1000;
    return this;
  }

  at(now: string): this {
    this.#tree.nowMs = Date.parse(now);
    return this;
  }

  /** These budgets limit the agents of its tree from now on. */
  limitedBy(...budgets: readonly StoredBudget[]): this {
    this.#tree.budgets = budgets;
    return this;
  }

  /** What is taken of each budget. */
  get taken(): readonly (number | undefined)[] {
    return this.#tree.budgets.map(({ ledger }) => ledger?.takenUsd);
  }

  /** The live run asks for money. */
  credit(upToUsd: number, unpricedModel?: string): this {
    const { run } = this.state;
    const asking = { runnerId: run?.runnerId ?? '', runId: run?.number ?? 0, upToUsd };
    return this.send({ type: 'credit', ...asking, ...(unpricedModel && { unpricedModel }) });
  }

  /** The live run has cost this more. */
  spend(costUsd: number): this {
    return this.report({ usage: { costUsd } });
  }

  queue(followUpId: string, fields: Partial<QueueFollowUp> = {}): this {
    return this.send(followUp(followUpId, fields));
  }

  /** A message that is delivered after this number of seconds. */
  defer(followUpId: string, seconds: number): this {
    return this.queue(followUpId, { deliverAt: this.inSeconds(seconds) });
  }

  inSeconds(seconds: number): string {
    return new Date(this.#tree.nowMs + seconds * 1000).toISOString();
  }

  claim(name = 'runner'): this {
    this.#reports = 0;
    this.send(claimingRunner(name, name));
    if (isRefusal(this.reply)) throw new Error(`claim refused: ${this.reply.message}`);
    return this;
  }

  /** Claims the next run and starts its turn. */
  start(name?: string): this {
    return this.claim(name).report({ started: true });
  }

  report(fields: Partial<ReportRun>): this {
    const { run } = this.state;
    if (!run) throw new Error('no run');
    this.#reports += 1;
    return this.send(report(run.runnerId, run.number, this.#reports, fields));
  }

  end(outcome: Outcome = 'COMPLETED', fields: Partial<ReportedEnd> = {}): this {
    return outcome === 'LOST'
      ? this.send({ type: 'lose', runId: this.state.agent.runCount })
      : this.report({ end: ended(outcome, fields) });
  }

  /** The live run fails with this error. */
  fail(code: string, awaits?: string): this {
    return this.end('FAILED', { error: { code, message: 'it broke' }, ...(awaits && { awaits }) });
  }

  /** One whole turn. */
  turn(outcome?: Outcome, fields?: Partial<ReportedEnd>): this {
    return this.start().end(outcome, fields);
  }

  stop(kind: 'INTERRUPT' | 'KILL' = 'INTERRUPT'): this {
    return this.send({ type: 'stop', runId: this.state.agent.runCount, kind });
  }

  setTask(id: string, status: Task['status'], note?: string): this {
    return this.send({ type: 'updateTask', id, status, note });
  }
}
