import type { AgentState } from './agent.ts';
import { acknowledgeChild } from './commands/acknowledge-child.ts';
import { askQuestion, declareFailed, declareFinished } from './commands/ask-finish-fail.ts';
import { blockAgent } from './commands/block-agent.ts';
import { type ClaimRun, claimRun } from './commands/claim-run.ts';
import { concludeAgent } from './commands/conclude-agent.ts';
import { creditRun } from './commands/credit-run.ts';
import { endBudgetWait } from './commands/end-budget-wait.ts';
import { killTree } from './commands/kill-tree.ts';
import { labelAgent } from './commands/label-agent.ts';
import { orderQueue } from './commands/order-queue.ts';
import {
  deliverDue,
  type QueueFollowUp,
  queueFollowUp,
  type RepeatFollowUp,
  refuseMessage,
  repeatFollowUp,
} from './commands/queue-follow-up.ts';
import { clearFollowUps, type RemoveFollowUp, removeFollowUp } from './commands/remove-follow-ups.ts';
import { reopenAgent } from './commands/reopen-agent.ts';
import { type ReportLate, reportLate } from './commands/report-late.ts';
import { loseRun, type ReportRun, reportRun } from './commands/report-run.ts';
import { resumeAgent } from './commands/resume-agent.ts';
import { retryAgent } from './commands/retry-agent.ts';
import { setBudget } from './commands/set-budget.ts';
import { refuseSpawn, type SpawnAgent, spawnAgent } from './commands/spawn-agent.ts';
import { stopTurn } from './commands/stop-turn.ts';
import { createTasks, updateTask } from './commands/tasks.ts';
import { type AnswerThread, answer, type ResolveThread, resolveThread } from './commands/threads.ts';
import { warnAgent } from './commands/warn-agent.ts';
import { type Decision, unchanged } from './decision.ts';
import type { LoadedAgents } from './loaded-agents.ts';
import { isRefusal, type Refusal } from './refusal.ts';

/** What a command needs loaded beside the agent's row and its newest run. */
export interface Needs {
  /** The follow-up with this id, in whatever state. */
  readonly followUpId?: string;
  /** The run with this number, if it is not the newest. */
  readonly olderRun?: number;
  /** All undelivered follow-ups. */
  readonly queue?: boolean;
  readonly checklist?: boolean;
  readonly children?: boolean;
  readonly policies?: boolean;
  /** The budgets over it, as far as they are committed: none is locked. */
  readonly budgets?: boolean;
  /** Its review threads, with the texts of those that are open and of these. */
  readonly threads?: readonly string[];
  /** How many live agents are below it. */
  readonly liveDescendants?: boolean;
  /** The parent, locked: the command may settle the agent. */
  readonly parent?: boolean;
  /** The root, locked, and how many live agents are below it. */
  readonly root?: boolean;
  /** The root and every descendant, locked. */
  readonly tree?: boolean;
  /** How many more runs its tenant may have in this pool, if the pool limits them. No other node may claim meanwhile. */
  readonly freeRunsIn?: string;
}

const reopening: Needs = { parent: true, root: true };
const settling: Needs = { queue: true, checklist: true, children: true, parent: true };

/** Every command on an agent that exists, with what it needs. */
const commands = {
  queue: { decide: queueFollowUp, needs: queueNeeds },
  repeat: { decide: repeatFollowUp, needs: ({ followUpId }: RepeatFollowUp): Needs => ({ followUpId }) },
  remove: {
    decide: removeFollowUp,
    needs: ({ followUpId }: RemoveFollowUp): Needs => ({ ...settling, followUpId }),
  },
  clear: { decide: clearFollowUps, needs: settling },
  order: { decide: orderQueue, needs: { queue: true } },
  due: { decide: deliverDue, needs: { queue: true } },
  stop: { decide: stopTurn, needs: settling },
  kill: { decide: killTree, needs: { ...settling, tree: true } },
  retry: { decide: retryAgent, needs: settling },
  resume: { decide: resumeAgent, needs: {} },
  reopen: { decide: reopenAgent, needs: reopening },
  createTasks: { decide: createTasks, needs: settling },
  updateTask: { decide: updateTask, needs: settling },
  resolveThread: {
    decide: resolveThread,
    needs: ({ threadId }: ResolveThread): Needs => ({ threads: [threadId] }),
  },
  answerThread: {
    decide: answer,
    needs: ({ threadId }: AnswerThread): Needs => ({ queue: true, checklist: true, threads: [threadId] }),
  },
  ask: { decide: askQuestion, needs: {} },
  finish: { decide: declareFinished, needs: {} },
  fail: { decide: declareFailed, needs: {} },
  claim: {
    decide: claimRun,
    needs: ({ runner }: ClaimRun): Needs => ({
      ...settling,
      policies: true,
      budgets: true,
      freeRunsIn: runner.pool,
    }),
  },
  credit: { decide: creditRun, needs: { budgets: true } },
  endBudgetWait: { decide: endBudgetWait, needs: settling },
  setBudget: { decide: setBudget, needs: { budgets: true } },
  conclude: { decide: concludeAgent, needs: settling },
  report: {
    decide: reportRun,
    needs: ({ end, steers, usage }: ReportRun): Needs => ({
      budgets: Boolean(usage?.costUsd),
      ...(end ? settling : { checklist: true, queue: Boolean(steers) }),
    }),
  },
  late: { decide: reportLate, needs: ({ runId }: ReportLate): Needs => ({ olderRun: runId, budgets: true }) },
  lose: { decide: loseRun, needs: settling },
  block: { decide: blockAgent, needs: { queue: true, parent: true } },
  acknowledgeChild: { decide: acknowledgeChild, needs: {} },
  label: { decide: labelAgent, needs: {} },
  warn: { decide: warnAgent, needs: {} },
} as const;

type Entries = typeof commands;

export type AgentCommand = { [T in keyof Entries]: Parameters<Entries[T]['decide']>[1] }[keyof Entries];

export type Command = AgentCommand | SpawnAgent;

/** What a command on an agent is answered with. */
export type ReplyTo<C extends AgentCommand> =
  ReturnType<Entries[C['type']]['decide']> extends Decision<infer R> ? R : never;

function queueNeeds(command: QueueFollowUp): Needs {
  const { tasks, change, preempt, replace, minted, followUpId, review, reopen } = command;
  const known = { ...(!minted && { followUpId }), policies: !reopen };
  const threads = review && { threads: review.threads.map(({ id }) => id) };
  if (replace) return { ...settling, ...known, ...(reopen && reopening), ...threads };
  const needsAll =
    tasks.length > 0 ||
    preempt ||
    review ||
    change.persona !== undefined ||
    change.outputSchema !== undefined;
  return {
    ...known,
    ...(needsAll && { queue: true, checklist: true }),
    ...(reopen && reopening),
    ...threads,
  };
}

export function needsOf(command: Command): Needs {
  if (command.type === 'spawn')
    return { root: true, liveDescendants: true, budgets: command.budgetUsd !== null };
  const { needs } = commands[command.type];
  return typeof needs === 'function' ? needs(command as never) : needs;
}

/** Decides a command on its agent; a spawn on the parent, which a root does not have. */
export function decide(
  loaded: LoadedAgents,
  command: Command,
  target: AgentState | Refusal | null,
): Decision<unknown> {
  if (isRefusal(target)) return withoutAgent(command, target);
  if (command.type === 'spawn') return spawnAgent(loaded, command, target);
  if (target === null) throw new TypeError(`the command ${command.type} has no agent`);
  return commands[command.type].decide(loaded, command as never, target);
}

/** What is wrong with a command in itself is said before what is wrong with its agent. */
function withoutAgent(command: Command, refusal: Refusal): Decision<unknown> {
  switch (command.type) {
    case 'spawn':
      return refuseSpawn(command) ?? refusal;
    case 'queue':
      return (command.review ? null : refuseMessage(command)) ?? refusal;
    case 'repeat':
      return unchanged(null);
    default:
      return refusal;
  }
}
