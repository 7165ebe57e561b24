export const phases = [
  'PHASE_UNSPECIFIED',
  'PHASE_PENDING',
  'PHASE_RUNNING',
  'PHASE_WAITING_FOR_INPUT',
  'PHASE_COMPLETED',
  'PHASE_FAILED',
  'PHASE_CANCELED',
] as const;
export type Phase = (typeof phases)[number];

export const terminalPhases = ['PHASE_COMPLETED', 'PHASE_FAILED', 'PHASE_CANCELED'] as const;
export const isTerminal = (phase: Phase): boolean => (terminalPhases as readonly Phase[]).includes(phase);
/** Whether a wait for the agent ends: it has ended, or it does nothing until it gets a message. */
export const needsAttention = (phase: Phase): boolean =>
  phase === 'PHASE_WAITING_FOR_INPUT' || isTerminal(phase);

/** Sections of a list of agents, most urgent first. */
export const agentSections = [
  'question',
  'blocked',
  'failed',
  'unfinished',
  'finished',
  'waiting',
  'working',
  'idle',
] as const;
export type AgentSection = (typeof agentSections)[number];

/** What a person sees of a reason. */
interface ReasonDisplay {
  readonly section: AgentSection;
  readonly color?: 'yellow' | 'cyan' | 'red' | 'green' | 'dim';
  /** What the agent needs to continue; absent while it works and after it has ended. */
  readonly needs?: 'a person' | 'a runner' | 'nothing';
  /**
   * Why the agent has its status and what to do, with `{at}`, `{model}`, `{tasks}`, `{fix}` and `{noRunner}` filled in.
   * `ifError` replaces it where the agent has an error, as `{error}`.
   */
  readonly advice: string;
  readonly ifError?: string;
}

/** What follows from the reason of an agent, everywhere. */
export interface ReasonRow extends ReasonDisplay {
  readonly phases: readonly Phase[];
  /** A few words for people, such as `rate limited`. */
  readonly status: string;
  /** It happened at a time. The others last. */
  readonly isEvent?: true;
  /** The word between the status and the time at which it changes by itself, `wakesAt`. */
  readonly timeWord?: 'for' | 'until' | 'at';
  /** For the documentation: why, and who can change it. */
  readonly why: string;
  readonly changedBy: string;
  /** What `needsInput` of the agent is. */
  readonly needsInput?: 'question' | 'fix';
  /** Lists have the agent's error. */
  readonly showsError?: true;
  /** The exit code of `muster wait`, and what it says of the agent; 0 if absent. */
  readonly exit?: readonly [code: number, meaning: string];
  /** It can be retried: immediately if it is idle, before its time if it is waiting for one. */
  readonly isRetryable?: true;
  /** When `wakesAt` has come, the agent waits for a runner like any other. */
  readonly endsAtTime?: true;
  /** An idle agent keeps its batch and its queue until a person has acted. */
  readonly keepsBatch?: true;
  /** Where it differs in one of the phases. */
  readonly in?: Readonly<Partial<Record<Phase, Partial<ReasonDisplay>>>>;
}

const pending = ['PHASE_PENDING'] as const;
const running = ['PHASE_RUNNING'] as const;
const idle = ['PHASE_WAITING_FOR_INPUT'] as const;

/** Why an agent is in its phase. */
const rows = {
  NO_RUNNER: {
    phases: pending,
    status: 'waiting for a runner',
    why: 'no available runner can run its model in its pool',
    changedBy: 'the operator: start a runner',
    section: 'waiting',
    color: 'yellow',
    needs: 'a runner',
    advice: '{noRunner} The agent then starts automatically.',
  },
  POOL_FULL: {
    phases: pending,
    status: 'waiting for capacity',
    why: 'all runners that could are at capacity, or its tenant has as many live runs as `maxRuns` or `maxRunsTotal` of the pool allow',
    changedBy: 'time, or an admin: raise the limit',
    section: 'waiting',
    needs: 'nothing',
    advice:
      'The pool is at capacity. The agent starts when another run ends. To add capacity, start another runner, or raise the limits of the pool: maxRuns for each runner, maxRunsTotal for all.',
  },
  STARTING: {
    phases: ['PHASE_PENDING', 'PHASE_RUNNING'],
    status: 'starting',
    why: 'a runner is about to claim it, or is preparing the run',
    changedBy: 'time',
    section: 'working',
    color: 'cyan',
    advice: 'The agent is about to start.',
    in: { PHASE_RUNNING: { advice: 'The runner is preparing the workspace.' } },
  },
  WORKING: {
    phases: running,
    status: 'working',
    why: 'its turn is in progress',
    changedBy: 'the agent',
    section: 'working',
    color: 'cyan',
    advice: 'Working.',
  },
  STOPPING: {
    phases: ['PHASE_PENDING', 'PHASE_RUNNING'],
    status: 'stopping',
    why: 'its turn is being stopped, or a killed process is not confirmed dead yet',
    changedBy: 'the runner',
    section: 'working',
    advice: 'The turn is stopping. If this takes too long, kill the turn.',
  },
  RESTING: {
    phases: idle,
    status: 'idle',
    why: 'its turn is done',
    changedBy: 'you',
    section: 'finished',
    needs: 'a person',
    advice: 'The turn is complete. Send a message to start the next one.',
  },
  QUESTION: {
    phases: idle,
    status: 'needs input',
    why: 'it asked a question, in `needsInput`',
    changedBy: 'you',
    needsInput: 'question',
    exit: [12, 'the agent needs input (it asked a question)'],
    section: 'question',
    color: 'yellow',
    needs: 'a person',
    advice: 'The agent needs an answer to continue.',
  },
  TASKS_UNFINISHED: {
    phases: idle,
    status: 'unfinished tasks',
    why: 'its turn ended with active tasks unfinished, after reminders',
    changedBy: 'you',
    exit: [13, 'the agent is idle with unfinished tasks'],
    section: 'unfinished',
    color: 'yellow',
    needs: 'a person',
    advice: 'The agent stopped with {tasks}. Send a message to continue.',
  },
  INTERRUPTED: {
    phases: idle,
    status: 'interrupted',
    isEvent: true,
    why: 'its turn was stopped',
    changedBy: 'you',
    exit: [14, "the agent's turn was interrupted"],
    section: 'finished',
    needs: 'a person',
    advice: 'The turn was stopped. Send a message to continue.',
  },
  BLOCKED: {
    phases: idle,
    status: 'blocked',
    why: 'a person has to fix an error; `needsInput` says what, `error` has the code',
    changedBy: 'you',
    needsInput: 'fix',
    showsError: true,
    exit: [15, 'the agent is blocked; muster status shows what to fix'],
    isRetryable: true,
    keepsBatch: true,
    section: 'blocked',
    color: 'red',
    needs: 'a person',
    advice: 'Blocked: {fix}',
  },
  DEFERRED: {
    phases: idle,
    status: 'scheduled',
    timeWord: 'for',
    why: 'a message is scheduled for `wakesAt`',
    changedBy: 'time',
    section: 'idle',
    needs: 'nothing',
    advice: 'The next message is due{at}. Send a message to start earlier.',
  },
  CHILDREN: {
    phases: pending,
    status: 'waiting for children',
    why: 'its children are still working',
    changedBy: 'its children',
    section: 'working',
    needs: 'nothing',
    advice:
      'The agent is waiting for its children. It continues when one needs input or fails, or when none is working. Send a message to continue now.',
  },
  PROVIDER_LIMIT: {
    phases: pending,
    status: 'rate limited',
    timeWord: 'until',
    why: "the provider's rate limit lasts until `wakesAt`",
    changedBy: 'time',
    endsAtTime: true,
    isRetryable: true,
    section: 'waiting',
    color: 'yellow',
    needs: 'nothing',
    advice:
      'The provider of {model} limits requests. The agent retries automatically{at}. Retry to try now, for example with another key.',
  },
  BUDGET: {
    phases: ['PHASE_PENDING', 'PHASE_WAITING_FOR_INPUT'],
    status: 'out of budget',
    timeWord: 'until',
    why: 'a budget has too little left for its next request; `needsInput` says which, and who may raise it',
    changedBy: 'time, if `wakesAt` is set; you: raise the budget, and it continues by itself',
    needsInput: 'fix',
    exit: [16, 'a budget has stopped the agent; muster status shows which'],
    endsAtTime: true,
    isRetryable: true,
    keepsBatch: true,
    section: 'blocked',
    color: 'yellow',
    needs: 'a person',
    advice: '{fix}',
    in: { PHASE_PENDING: { section: 'waiting', needs: 'nothing', advice: '{fix}' } },
  },
  RETRYING: {
    phases: pending,
    status: 'retrying',
    timeWord: 'at',
    why: 'a run was lost, handed back or met a temporary error; the same messages run again, after an error at `wakesAt`',
    changedBy: 'time',
    showsError: true,
    isRetryable: true,
    section: 'waiting',
    needs: 'nothing',
    advice:
      'The last run was lost because its runner disconnected or shut down. The agent retries the same messages.',
    ifError: '{error} The agent retries the same messages{at}.',
  },
  FINISHED: {
    phases: ['PHASE_COMPLETED'],
    status: 'finished',
    isEvent: true,
    why: 'it declared itself finished',
    changedBy: 'you: reopen it',
    section: 'finished',
    color: 'green',
    advice: 'The agent declared itself finished.',
  },
  ERROR: {
    phases: ['PHASE_FAILED'],
    status: 'failed',
    isEvent: true,
    why: 'it failed; `error` says how',
    changedBy: 'you: reopen it',
    showsError: true,
    exit: [10, 'the agent failed'],
    section: 'failed',
    color: 'red',
    advice: 'The agent failed and gave no reason.',
    ifError: '{error}',
  },
  KILLED: {
    phases: ['PHASE_CANCELED'],
    status: 'killed',
    isEvent: true,
    why: 'it was killed',
    changedBy: '–',
    exit: [11, 'the agent was killed'],
    section: 'idle',
    color: 'dim',
    advice: 'The agent was killed.',
  },
  PARENT_KILLED: {
    phases: ['PHASE_CANCELED'],
    status: 'killed with its parent',
    isEvent: true,
    why: 'an agent above it was killed',
    changedBy: '–',
    exit: [11, 'the agent was killed'],
    section: 'idle',
    color: 'dim',
    advice: 'The agent was killed together with its parent.',
  },
} as const satisfies Record<string, ReasonRow>;

export type PhaseReason = keyof typeof rows;
export const phaseReasons = Object.keys(rows) as readonly PhaseReason[];
const rowOf: Readonly<Record<PhaseReason, ReasonRow>> = rows;

/** For a reason of a newer service: what usually holds in the phase. */
const usualReasons: Readonly<Record<Phase, PhaseReason>> = {
  PHASE_UNSPECIFIED: 'STARTING',
  PHASE_PENDING: 'STARTING',
  PHASE_RUNNING: 'WORKING',
  PHASE_WAITING_FOR_INPUT: 'RESTING',
  PHASE_COMPLETED: 'FINISHED',
  PHASE_FAILED: 'ERROR',
  PHASE_CANCELED: 'KILLED',
};

/** What follows from an agent's reason in its phase. */
export function reasonRow({
  phase = 'PHASE_UNSPECIFIED',
  phaseReason,
}: {
  readonly phase?: Phase;
  readonly phaseReason: PhaseReason;
}): ReasonRow {
  if (!Object.hasOwn(rows, phaseReason)) return rowOf[usualReasons[phase]];
  const row = rowOf[phaseReason];
  const differing = row.in?.[phase];
  return differing ? { ...row, ...differing } : row;
}

/** Messages, stops and kills depend on the phase alone. */
export const canRetry = (agent: {
  readonly phase: Phase;
  readonly phaseReason: PhaseReason;
  readonly wakesAt: string | null;
}): boolean =>
  reasonRow(agent).isRetryable === true &&
  (agent.phase === 'PHASE_WAITING_FOR_INPUT' || agent.wakesAt !== null);

/** A killed agent stays ended. */
export const canReopen = ({ phase }: { readonly phase: Phase }): boolean =>
  phase === 'PHASE_COMPLETED' || phase === 'PHASE_FAILED';
