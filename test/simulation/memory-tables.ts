import type {
  Agent,
  Brief,
  ChecklistTask,
  Entry,
  FollowUp,
  Identity,
  Run,
} from '../../packages/service/src/domain/agent.ts';
import { type AgentChange, identityKey } from '../../packages/service/src/domain/loaded-agents.ts';
import type { Thread, ThreadChange } from '../../packages/service/src/domain/thread.ts';
import { IdentityTakenError, type StoredReply } from '../../packages/service/src/store/agent-store.ts';
import type { RunnerRow } from '../../packages/service/src/store/statements/runners.ts';
import { checkAgent, checkTrees } from './invariants.ts';
import { MemoryBudgets } from './memory-budgets.ts';
import { MemoryUsage } from './memory-usage.ts';
import { overridesById } from './samples.ts';
import { holds, TimelineAudit } from './timeline-audit.ts';

/** One agent's rows. It has the shape of an `AgentHistory`, but changes in place: a simulation is long. */
export class AgentRows {
  agent: Agent;
  readonly brief: Brief | null;
  checklist: readonly ChecklistTask[] = [];
  readonly threads = new Map<string, Thread>();
  readonly followUps = new Map<string, FollowUp>();
  readonly runs: Run[] = [];
  readonly entries: Entry[] = [];
  readonly audit = new TimelineAudit(overridesById);
  /** Every id that was ever admitted, those removed since included. */
  readonly everAdmitted = new Set<string>();

  constructor(agent: Agent, brief: Brief | null) {
    this.agent = agent;
    this.brief = brief;
  }

  get run(): Run | null {
    return this.runs.at(-1) ?? null;
  }
}

/** More than there are slots. */
export const unlimitedRuns = 1_000;

export type RegisteredRunner = RunnerRow & { leaseUntilMs: number };

export interface CommittedAgent {
  readonly rows: AgentRows;
  readonly before: AgentChange['before'];
  readonly change: AgentChange;
}

/** The stored rows. Only a commit changes them, atomically, and every commit is checked. */
export class MemoryTables {
  readonly agents = new Map<string, AgentRows>();
  readonly replies = new Map<string, StoredReply>();
  readonly runners = new Map<string, RegisteredRunner>();
  readonly budgets = new MemoryBudgets(this.agents);
  readonly usage = new MemoryUsage();
  /** The limits of the pool, by tenant. */
  readonly poolLimits = new Map<number, { readonly maxRuns: number; readonly maxRunsTotal: number }>();
  commits = 0;
  /** Sees each change as it becomes durable. */
  onChange: (committed: CommittedAgent) => void = () => {};
  /** A commit that violates an invariant fails the simulation, even if the code under test catches the error. */
  onBroken: (error: unknown) => void = () => {};
  /** Sees when a runner looks for agents of these backends. */
  onPoll: (runnerId: string, backends: readonly string[]) => void = () => {};
  readonly #byPath = new Map<string, AgentRows[]>();
  readonly #holders = new Map<string, string>();

  limitsOf(tenant: number) {
    return this.poolLimits.get(tenant) ?? { maxRuns: unlimitedRuns, maxRunsTotal: unlimitedRuns };
  }

  /** Live runs of a tenant, on one runner or on all. */
  liveRuns(tenant: number, runnerId?: string): number {
    let live = 0;
    for (const { agent, run } of this.agents.values()) {
      const isOf = runnerId === undefined || run?.runnerId === runnerId;
      if (isOf && agent.tenant === tenant && run && run.state !== 'ENDED') live += 1;
    }
    return live;
  }

  /** When the last run of a tenant has ended. */
  lastEnd(tenant: number): string {
    const ends = [...this.agents.values()].map(
      ({ agent, run }) => (agent.tenant === tenant && run?.endedAt) || '',
    );
    return ends.reduce((last, end) => (end > last ? end : last), '');
  }

  /** How many more runs a tenant may have on all runners. */
  freeRuns(tenant: number): number {
    return this.limitsOf(tenant).maxRunsTotal - this.liveRuns(tenant);
  }

  /** How many more runs of a tenant a runner may claim. */
  roomFor(tenant: number, runnerId: string): number {
    const { maxRuns } = this.limitsOf(tenant);
    return Math.min(maxRuns - this.liveRuns(tenant, runnerId), this.freeRuns(tenant));
  }

  find(identity: Identity): AgentRows[] {
    return (this.#byPath.get(identity.path.join('/')) ?? []).filter(
      ({ agent }) =>
        agent.current &&
        agent.tenant === identity.tenant &&
        agent.account === identity.account &&
        (identity.workspace === '' || agent.workspace === identity.workspace),
    );
  }

  commit(changes: readonly AgentChange[], replies: readonly StoredReply[], now: string): void {
    this.#refuseTaken(changes);
    this.budgets.refuseOverdrawn(changes);
    try {
      this.#apply(changes, replies, now);
    } catch (error) {
      this.onBroken(error);
      throw error;
    }
  }

  #apply(changes: readonly AgentChange[], replies: readonly StoredReply[], now: string): void {
    const touched = new Set<AgentRows>();
    for (const change of changes) {
      const rows = this.#write(change);
      touched.add(rows);
      this.onChange({ rows, before: change.before, change });
    }
    this.budgets.commit(changes);
    this.usage.commit(changes);
    for (const reply of replies) this.replies.set(`${reply.keyId}/${reply.key}`, reply);
    this.commits += 1;
    for (const rows of touched) {
      checkAgent(rows, rows.audit, now);
      this.usage.check(rows);
    }
    if (this.commits % 16 === 0) this.checkAll(now);
  }

  checkAll(now: string): void {
    checkTrees(this.agents);
    this.budgets.check(now);
    for (const rows of this.agents.values()) checkAgent(rows, rows.audit, now);
  }

  /** The unique index over the current holders of identities. */
  #refuseTaken(changes: readonly AgentChange[]): void {
    const last = new Map(changes.map(({ after }) => [after.agent.id, after.agent]));
    const freed = new Set<string>();
    const taken = new Set<string>();
    for (const agent of last.values()) if (!agent.current) freed.add(agent.id);
    for (const agent of last.values()) {
      if (!agent.current) continue;
      const key = identityKey(agent);
      const holder = this.#holders.get(key);
      if (taken.has(key) || (holder !== undefined && holder !== agent.id && !freed.has(holder))) {
        throw new IdentityTakenError('another agent took this identity');
      }
      taken.add(key);
    }
  }

  #write(change: AgentChange): AgentRows {
    const { before, after } = change;
    const { agent } = after;
    let rows = this.agents.get(agent.id);
    holds((before === null) === (rows === undefined), 'LostUpdate', () => `${agent.path} was made twice`);
    if (!rows) {
      rows = new AgentRows(agent, change.brief);
      this.agents.set(agent.id, rows);
      const path = agent.path.join('/');
      this.#byPath.set(path, [...(this.#byPath.get(path) ?? []), rows]);
    }
    holds(
      before === null || before.agent.sequence === rows.agent.sequence,
      'LostUpdate',
      () => `${agent.path}: decided on ${before?.agent.sequence}, stored is ${rows.agent.sequence}`,
    );
    checkUnpushed(rows.agent, agent);
    rows.agent = agent;
    if (agent.current) this.#holders.set(identityKey(agent), agent.id);
    if (!before || before.checklist !== after.checklist) rows.checklist = after.checklist;
    for (const [id, followUp] of after.followUps) {
      if (before?.followUps.get(id) !== followUp) rows.followUps.set(id, followUp);
    }
    for (const one of change.threadChanges) writeThread(rows.threads, one);
    for (const { id } of change.admitted) rows.everAdmitted.add(id);
    const changedRuns = [change.olderRun, after.run === before?.run ? null : after.run];
    for (const run of changedRuns.filter((one) => one !== null)) {
      const place = rows.runs.findIndex((r) => r.number === run.number);
      if (place >= 0) rows.runs[place] = run;
      else rows.runs.push(run);
    }
    const counted = rows.runs.reduce((sum, run) => sum + run.usage.inputTokens, 0);
    holds(
      counted === agent.usage.inputTokens,
      'UsageCountsOnce',
      () => `${agent.path}: ${agent.usage.inputTokens} tokens, ${counted} of its runs`,
    );
    for (const entry of change.entries) {
      rows.entries.push(entry);
      rows.audit.take(entry);
    }
    return rows;
  }
}

/** As the statements of the store do it: what is named by a key that no thread has is not written. */
function writeThread(threads: Map<string, Thread>, change: ThreadChange): void {
  if (change.type === 'open') {
    const { id } = change.thread;
    holds(!threads.has(id), 'ThreadsToldOnce', () => `the thread ${id} was opened twice`);
    threads.set(id, { ...change.thread, comments: [] });
    return;
  }
  const thread = threads.get(change.id);
  if (!thread) return;
  if (change.type === 'comment') {
    threads.set(thread.id, { ...thread, comments: [...thread.comments, change.comment] });
    return;
  }
  const isResolved = change.isDone && thread.hostId === '';
  threads.set(thread.id, {
    ...thread,
    state: isResolved ? 'RESOLVED' : (change.state ?? thread.state),
    answer: change.answer ?? thread.answer,
    toldBy: change.toldBy ?? thread.toldBy,
  });
}

/** Runners report the numbers of the run and of the report here. A later report is never replaced by an earlier one. */
function checkUnpushed(before: Agent, after: Agent): void {
  const [was, is] = [before.unpushed ?? { commits: 0, files: 0 }, after.unpushed ?? { commits: 0, files: 0 }];
  holds(
    is.commits > was.commits || (is.commits === was.commits && is.files >= was.files),
    'UnpushedAsReported',
    () => `${after.path}: ${JSON.stringify(is)} after ${JSON.stringify(was)}`,
  );
  holds(
    before.checkpointAt === null ||
      (after.checkpointAt !== null && after.checkpointAt >= before.checkpointAt),
    'UnpushedAsReported',
    () => `${after.path}: saved ${after.checkpointAt} after ${before.checkpointAt}`,
  );
}
