import { unreachable } from '../lib/assert.ts';
import type { AgentState } from './agent.ts';
import { type AskQuestion, askQuestion } from './commands/ask-question.ts';
import { type BlockAgent, blockAgent } from './commands/block-agent.ts';
import { type ClaimRun, claimRun } from './commands/claim-run.ts';
import { type ClearFollowUps, clearFollowUps } from './commands/clear-follow-ups.ts';
import { type CreateTasks, createTasks } from './commands/create-tasks.ts';
import { type DeclareFailed, declareFailed } from './commands/declare-failed.ts';
import { type DeclareFinished, declareFinished } from './commands/declare-finished.ts';
import { type DeliverDue, deliverDue } from './commands/deliver-due.ts';
import { type KillTree, killTree } from './commands/kill-tree.ts';
import { type LabelAgent, labelAgent } from './commands/label-agent.ts';
import { type LearnChild, learnChild } from './commands/learn-child.ts';
import { type LoseRun, loseRun } from './commands/lose-run.ts';
import { type QueueFollowUp, queueFollowUp } from './commands/queue-follow-up.ts';
import { type RemoveFollowUp, removeFollowUp } from './commands/remove-follow-up.ts';
import { type ReopenAgent, reopenAgent } from './commands/reopen-agent.ts';
import { type ReportRun, reportRun } from './commands/report-run.ts';
import { type RetryAgent, retryAgent } from './commands/retry-agent.ts';
import { type StopTurn, stopTurn } from './commands/stop-turn.ts';
import { type UpdateTask, updateTask } from './commands/update-task.ts';
import type { Decision } from './decision.ts';
import type { World } from './world.ts';

/** Every command on an agent that exists. Spawn, which makes one, stands beside it. */
export type AgentCommand =
  | QueueFollowUp
  | RemoveFollowUp
  | ClearFollowUps
  | StopTurn
  | KillTree
  | RetryAgent
  | ReopenAgent
  | CreateTasks
  | UpdateTask
  | AskQuestion
  | DeclareFinished
  | DeclareFailed
  | ClaimRun
  | ReportRun
  | LoseRun
  | BlockAgent
  | DeliverDue
  | LearnChild
  | LabelAgent;

/** What a command needs loaded beside the agent's row and its newest run. */
export interface Needs {
  /** The follow-up with this id, in whatever state. */
  readonly followUpId?: string;
  /** All undelivered follow-ups. */
  readonly queue?: boolean;
  readonly checklist?: boolean;
  readonly children?: boolean;
  /** The parent, locked: the command may settle the agent. */
  readonly parent?: boolean;
  /** The root, locked, and how many live agents are below it. */
  readonly root?: boolean;
  /** The root and every descendant, locked. */
  readonly tree?: boolean;
}

const settling: Needs = { queue: true, checklist: true, children: true, parent: true };

export function needsOf(command: AgentCommand): Needs {
  switch (command.type) {
    case 'queue': {
      const isLarge = command.change.persona !== undefined || command.change.outputSchema !== undefined;
      const needsAll = command.tasks.length > 0 || isLarge || command.preempt;
      const known = command.minted ? {} : { followUpId: command.followUpId };
      if (command.replace) return { ...settling, ...known };
      return { ...known, ...(needsAll && { queue: true, checklist: true }) };
    }
    case 'remove':
      return { ...settling, followUpId: command.followUpId };
    case 'report':
      return command.end ? settling : { checklist: true };
    case 'clear':
    case 'stop':
    case 'createTasks':
    case 'updateTask':
    case 'claim':
    case 'lose':
    case 'retry':
      return settling;
    case 'reopen':
      return { parent: true, root: true };
    case 'kill':
      return { ...settling, tree: true };
    case 'block':
      return { queue: true, parent: true };
    case 'due':
      return { queue: true };
    case 'ask':
    case 'finish':
    case 'fail':
    case 'learn':
    case 'label':
      return {};
    default:
      return unreachable(command);
  }
}

export function decide(world: World, command: AgentCommand, state: AgentState): Decision<unknown> {
  switch (command.type) {
    case 'queue':
      return queueFollowUp(world, command, state);
    case 'remove':
      return removeFollowUp(world, command, state);
    case 'clear':
      return clearFollowUps(world, command, state);
    case 'stop':
      return stopTurn(world, command, state);
    case 'kill':
      return killTree(world, command, state);
    case 'retry':
      return retryAgent(world, command, state);
    case 'reopen':
      return reopenAgent(world, command, state);
    case 'createTasks':
      return createTasks(world, command, state);
    case 'updateTask':
      return updateTask(world, command, state);
    case 'ask':
      return askQuestion(world, command, state);
    case 'finish':
      return declareFinished(world, command, state);
    case 'fail':
      return declareFailed(world, command, state);
    case 'claim':
      return claimRun(world, command, state);
    case 'report':
      return reportRun(world, command, state);
    case 'lose':
      return loseRun(world, command, state);
    case 'block':
      return blockAgent(world, command, state);
    case 'due':
      return deliverDue(world, command, state);
    case 'learn':
      return learnChild(world, command, state);
    case 'label':
      return labelAgent(world, command, state);
    default:
      return unreachable(command);
  }
}
