import {
  type Backend,
  type EntryType,
  type FollowUpState,
  type Phase,
  type PhaseReason,
  type Provider,
  type RunOutcome,
  type RunState,
  reasonRow,
  type StopKind,
  type Task,
} from '@muster/sdk/contract';
import type { Thread } from './thread.ts';

/**
 * The state that decisions are made on. An agent's state is its row, its newest run, its checklist and the part of
 * its queue that a command needs. Times are ISO 8601 strings in UTC with milliseconds: they compare as strings, and
 * they are what the API and the database use.
 */
export type Instant = string;

export interface Identity {
  readonly tenant: number;
  readonly ownerProvider: Provider;
  readonly account: string;
  readonly workspace: string;
  readonly path: readonly string[];
}

export interface Agent extends Identity {
  readonly id: string;
  readonly root: string;
  readonly parent: string | null;
  /** From the root to the parent. */
  readonly ancestors: readonly string[];
  /** False once a newer agent holds the same identity. */
  readonly current: boolean;
  readonly pool: string;
  readonly backend: Backend;
  readonly labels: Labels;
  readonly createdAt: Instant;

  readonly phase: Phase;
  readonly reason: PhaseReason;
  readonly since: Instant;
  /** From when on a runner may claim it; null while there is nothing to claim. */
  readonly claimableAt: Instant | null;
  readonly runCount: number;
  /** Of the newest timeline entry. */
  readonly sequence: number;
  readonly queued: number;
  readonly deferred: number;
  readonly nextDeliverAt: Instant | null;
  readonly progressAt: Instant;
  readonly endedAt: Instant | null;

  readonly settings: Settings;
  readonly memory: Memory;
  readonly result: Result;
  readonly usage: Usage;
  /** The most that it and everything below it may spend; null if only the budgets above it hold. */
  readonly budgetUsd: number | null;
  /** The name of the runner where its workspace is. */
  readonly home: string | null;
  /** As in the newest poll of its home runner; null before the first run. */
  readonly deferral: boolean | null;
  readonly rehearsed: boolean | null;
  readonly sandboxed: boolean | null;
  /** The harness's own name of its session. */
  readonly session: string;
  /** Work that no remote has, as last reported. */
  readonly unpushed: Unpushed | null;
  /** When its session and its work were last saved. */
  readonly checkpointAt: Instant | null;
}

/** What an agent was spawned with. No decision depends on it, so it is not loaded for one. */
export interface Brief {
  readonly description: string;
  readonly expectedOutput: string;
  readonly repos: readonly string[];
  /** Of the request that spawned it. */
  readonly traceparent?: string | undefined;
}

export type Labels = Readonly<Record<string, string>>;

export interface Settings {
  readonly persona: string;
  readonly instructions: string;
  readonly model: string;
  readonly reasoningEffort: string;
  readonly serviceTier: string;
  readonly fastMode: boolean;
  readonly outputSchema: string;
  /** Settings that a caller has set by name: no persona changes them any more. */
  readonly explicit: readonly PersonaSetting[];
}

export type PersonaSetting = 'model' | 'reasoningEffort' | 'serviceTier' | 'fastMode';

/** What a spawn or a follow-up changes. Absent leaves it as it is. */
export interface SettingsChange extends Partial<Pick<Settings, PersonaSetting | 'outputSchema'>> {
  readonly persona?: PersonaCopy;
}

/** A persona as it was when the message that names it was admitted. */
export interface PersonaCopy
  extends Pick<Settings, 'instructions' | 'model' | 'reasoningEffort' | 'serviceTier'> {
  readonly name: string;
  readonly fastMode: boolean | null;
  readonly tasks: readonly Task[];
}

/** What an agent keeps between runs and no query filters by. */
export interface Memory {
  /** The batch of the live run, or the one that will be retried. */
  readonly batch: Batch | null;
  /** The description of the spawn is not delivered yet. */
  readonly spawnDue: boolean;
  /** Its children wake it: a run starts even without a message. */
  readonly prefaceDue: boolean;
  /** It has waited for its children since its last run. */
  readonly forChildren: boolean;
  /** Children that settled during the live run and that it has not read since. */
  readonly unseenChildren: readonly string[];
  readonly lostInARow: number;
  /** The follow-up that replaces the batch if the live run ends without completing it. */
  readonly preemptedBy: string | null;
  readonly limitUntil: Instant | null;
  /** The account that was at the limit, as polls of runners name it; absent if it is not known. */
  readonly limitAccount?: string | undefined;
  /** What a person has to fix, since it was BLOCKED; empty from the next claim on, which takes all that is queued. */
  readonly blocked: string;
  /** Passing faults of its batch in a row, since when, and when it is retried. */
  readonly passingFaults: number;
  readonly failingSince?: Instant | undefined;
  readonly retryAt: Instant | null;
  /** The run for which a person has retried the agent. */
  readonly retriedRun?: number | undefined;
  /** The provider or git host that could not be reached: the batch is retried when another run reaches it. */
  readonly awaits?: string | undefined;
  /** The budget that stopped it. */
  readonly budget?: BudgetStop | undefined;
  /** Windows of budgets about which it has received a line, because they are nearly spent. */
  readonly toldBudgets?: readonly string[];
  readonly interrupted: boolean;
  readonly question: string;
  readonly finished: boolean;
  /** It declared itself finished in an earlier run, and no message has come since: its runs were about its children. */
  readonly wasFinished?: boolean | undefined;
  /** Why the live run declares its agent failed. */
  readonly failure: string;
  /** Tasks that pushes of the newest run activated. */
  readonly activated: readonly string[];
  readonly claimedAt: Instant | null;
  /** The run since which it has lived on the runner that is its home; rows from before this was kept lack it. */
  readonly homeSince?: number;
  /** The models that its settings have named since its session began, the newest last; older rows lack it. */
  readonly models?: readonly string[];
}

/** The budget that stopped an agent. */
export interface BudgetStop {
  readonly key: string;
  /** What it needs to continue; 0 if that is not known. */
  readonly needUsd: number;
  /** When the window ends; null: a person has to raise the budget. */
  readonly until: Instant | null;
  /** Which budget, what the next request needs, and who may raise it. */
  readonly message: string;
  /** It has no price for the model: raising it does not help. */
  readonly isUnpriced?: true;
  /** The wait has ended: the next run takes all that is queued, as after BLOCKED. */
  readonly isOver?: true;
}

export interface Batch {
  /** The number of the first run that tried it. */
  readonly id: number;
  readonly tries: number;
  readonly spawn: boolean;
  readonly preface: string;
  readonly followUpIds: readonly string[];
  readonly ephemeralTaskIds: readonly string[];
}

export interface AgentError {
  readonly code: string;
  readonly message: string;
}

export interface Result {
  /** Of an agent that was loaded, only its beginning: what a parent sees of it. */
  readonly response: string;
  /** Undefined where it was not loaded. */
  readonly structuredOutput: unknown;
  readonly error: AgentError | null;
  readonly branch: string;
  /** At which commit its branch was after the last push, by repository; absent before the first that says so. */
  readonly pushed?: Readonly<Record<string, string>>;
  /** What its branch changed, by repository; absent before the first push that was measured. */
  readonly diffs?: Readonly<Record<string, DiffStat>>;
  /** The same with what is not committed or not pushed. */
  readonly workingTrees?: Readonly<Record<string, DiffStat>>;
  /** Where its newest plan is in the timeline; absent before the first. */
  readonly plan?: { readonly sequence: number; readonly at: Instant };
  readonly context?: ContextUse;
}

/** How full the model's context was at its last request; a window of 0 is not known. */
export interface ContextUse {
  readonly usedTokens: number;
  readonly windowTokens: number;
}

/** `files` are those with changes that are not committed. */
export interface Unpushed {
  readonly commits: number;
  readonly files: number;
  /** Only if the newest checkpoint does not have all of it. */
  readonly isSaved?: false;
}

export interface DiffStat {
  readonly files: number;
  readonly insertions: number;
  readonly deletions: number;
}

export interface Usage {
  readonly cost: number;
  readonly inputTokens: number;
  readonly cachedInputTokens: number;
  readonly outputTokens: number;
}

export interface Run {
  readonly number: number;
  readonly batch: number;
  readonly state: RunState;
  readonly outcome: RunOutcome | '';
  readonly stop: StopKind;
  readonly runnerId: string;
  /** The name of that runner: what people see of it. */
  readonly runner: string;
  /** Its account at the model's provider; at first that of the run before. Empty if there is none. */
  readonly account: string;
  readonly startedAt: Instant;
  readonly endedAt: Instant | null;
  /** When it was certain that no process of it is left. */
  readonly goneAt: Instant | null;
  /** The number of the last report taken. */
  readonly reports: number;
  readonly currentAction: string;
  readonly followUpIds: readonly string[];
  readonly usage: Usage;
  /** Up to what cost the run is covered, by the key of each budget that it has asked. */
  readonly credits: Readonly<Record<string, number>> | null;
}

export interface FollowUp {
  readonly id: string;
  readonly state: FollowUpState;
  /** Place in the queue: the sequence of its QUEUED entry, or of another that it changed places with; 0 while deferred. */
  readonly position: number;
  readonly change: SettingsChange | null;
  readonly tasks: readonly Task[];
  readonly deliverAt: Instant | null;
  readonly queuedAt: Instant;
  /** The batch it was delivered in. */
  readonly batch: number | null;
  /** The batch whose turn it is to be added to; null for an ordinary message. It is ordinary too once that batch has ended. */
  readonly steerBatch: number | null;
  /** Images. */
  readonly attachmentIds: readonly string[];
  /** Of its content, to tell a retry from another message under the same id. */
  readonly digest: string;
}

export interface NewFollowUp {
  readonly id: string;
  readonly description: string;
  /** Of the entry that admits it. */
  readonly sequence: number;
  /** Of the request that sent it. */
  readonly traceparent?: string | undefined;
}

/** Stored with the run and never loaded for a command; absent fields stay unchanged. */
export interface RunResult {
  readonly runId: number;
  readonly response?: string;
  readonly structuredOutput?: unknown;
  readonly error?: Result['error'];
  /** Of the trace in which its runner records it. */
  readonly traceId?: string;
}

/** The text of a diff; its counts are in the agent's result. */
export interface NewDiff {
  readonly repo: string;
  readonly text: string;
  /** Of the working tree, instead of what was pushed. */
  readonly workingTree: boolean;
}

export interface Entry {
  readonly sequence: number;
  readonly at: Instant;
  readonly runId: number;
  readonly type: EntryType;
  readonly followUpId: string;
  readonly text: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** A task as it is stored. */
export interface ChecklistTask extends Task {
  /** What the agent has said about it. For the task of a review thread: its answer, when the batch has ended. */
  readonly note?: string;
}

export interface AgentState {
  readonly agent: Agent;
  /** The newest run, live or ended. */
  readonly run: Run | null;
  readonly followUps: ReadonlyMap<string, FollowUp>;
  readonly checklist: readonly ChecklistTask[];
  /** Absent unless a command needs them. */
  readonly threads?: ReadonlyMap<string, Thread> | undefined;
}

/** What a parent sees of a child. */
export interface ChildView {
  readonly id: string;
  readonly path: readonly string[];
  readonly phase: Phase;
  readonly reason: PhaseReason;
  readonly since: Instant;
  readonly question: string;
  readonly response: string;
  readonly error: string;
}

export const noUsage: Usage = { cost: 0, inputTokens: 0, cachedInputTokens: 0, outputTokens: 0 };

export const freshMemory: Memory = {
  batch: null,
  spawnDue: true,
  prefaceDue: false,
  forChildren: false,
  unseenChildren: [],
  lostInARow: 0,
  preemptedBy: null,
  limitUntil: null,
  blocked: '',
  passingFaults: 0,
  retryAt: null,
  interrupted: false,
  question: '',
  finished: false,
  failure: '',
  activated: [],
  claimedAt: null,
};

interface NewAgent extends Pick<Agent, 'id' | 'pool' | 'backend' | 'labels' | 'settings' | 'budgetUsd'> {
  readonly identity: Identity;
  readonly parent: Agent | null;
  readonly now: Instant;
}

/** Written out: an object of this size that is put together from others is made and copied many times slower. */
export const newAgent = ({ identity, parent, now, ...given }: NewAgent): Agent => ({
  tenant: identity.tenant,
  ownerProvider: identity.ownerProvider,
  account: identity.account,
  workspace: identity.workspace,
  path: identity.path,
  id: given.id,
  root: parent?.root ?? given.id,
  parent: parent?.id ?? null,
  ancestors: parent ? [...parent.ancestors, parent.id] : [],
  current: true,
  pool: given.pool,
  backend: given.backend,
  labels: given.labels,
  createdAt: now,
  phase: 'PHASE_UNSPECIFIED',
  reason: 'STARTING',
  since: now,
  claimableAt: null,
  runCount: 0,
  sequence: 0,
  queued: 0,
  deferred: 0,
  nextDeliverAt: null,
  progressAt: now,
  endedAt: null,
  settings: given.settings,
  memory: freshMemory,
  result: { response: '', structuredOutput: null, error: null, branch: '' },
  usage: noUsage,
  budgetUsd: given.budgetUsd,
  home: null,
  deferral: null,
  rehearsed: null,
  sandboxed: null,
  session: '',
  unpushed: null,
  checkpointAt: null,
});

/** Of a batch that has not failed. */
export const noFaults = {
  passingFaults: 0,
  failingSince: undefined,
  retryAt: null,
  awaits: undefined,
} as const;

export const isLive = (run: Run | null): run is Run => run !== null && run.state !== 'ENDED';

export const isUndelivered = ({ state }: Pick<FollowUp, 'state'>): boolean =>
  state === 'QUEUED' || state === 'DEFERRED';

/** Whether it is idle with a batch that runs when a person has acted. */
export const keepsBatch = ({ phase, reason }: Pick<Agent, 'phase' | 'reason'>): boolean =>
  phase === 'PHASE_WAITING_FOR_INPUT' && reasonRow({ phaseReason: reason }).keepsBatch === true;

/** PENDING or RUNNING: what a parent waits for. */
export const works = (agent: Pick<Agent, 'phase'>): boolean =>
  agent.phase === 'PHASE_PENDING' || agent.phase === 'PHASE_RUNNING';
