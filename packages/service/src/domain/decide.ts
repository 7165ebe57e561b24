import { unreachable } from '../lib/assert.ts';
import type { AgentState } from './agent.ts';
import { type AcknowledgeChild, acknowledgeChild } from './commands/acknowledge-child.ts';
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
import { type LoseRun, loseRun } from './commands/lose-run.ts';
import { type QueueFollowUp, queueFollowUp } from './commands/queue-follow-up.ts';
import { type RemoveFollowUp, removeFollowUp } from './commands/remove-follow-up.ts';
import { type ReopenAgent, reopenAgent } from './commands/reopen-agent.ts';
import { type ReportRun, reportRun } from './commands/report-run.ts';
import { type RetryAgent, retryAgent } from './commands/retry-agent.ts';
import { type StopTurn, stopTurn } from './commands/stop-turn.ts';
import { type UpdateTask, updateTask } from './commands/update-task.ts';
import type { Decision } from './decision.ts';
import type { LoadedAgents } from './loaded-agents.ts';

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
  | AcknowledgeChild
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
    case 'acknowledgeChild':
    case 'label':
      return {};
    default:
      return unreachable(command);
  }
}

export function decide(loaded: LoadedAgents, command: AgentCommand, state: AgentState): Decision<unknown> {
  switch (command.type) {
    case 'queue':
      return queueFollowUp(loaded, command, state);
    case 'remove':
      return removeFollowUp(loaded, command, state);
    case 'clear':
      return clearFollowUps(loaded, command, state);
    case 'stop':
      return stopTurn(loaded, command, state);
    case 'kill':
      return killTree(loaded, command, state);
    case 'retry':
      return retryAgent(loaded, command, state);
    case 'reopen':
      return reopenAgent(loaded, command, state);
    case 'createTasks':
      return createTasks(loaded, command, state);
    case 'updateTask':
      return updateTask(loaded, command, state);
    case 'ask':
      return askQuestion(loaded, command, state);
    case 'finish':
      return declareFinished(loaded, command, state);
    case 'fail':
      return declareFailed(loaded, command, state);
    case 'claim':
      return claimRun(loaded, command, state);
    case 'report':
      return reportRun(loaded, command, state);
    case 'lose':
      return loseRun(loaded, command, state);
    case 'block':
      return blockAgent(loaded, command, state);
    case 'due':
      return deliverDue(loaded, command, state);
    case 'acknowledgeChild':
      return acknowledgeChild(loaded, command, state);
    case 'label':
      return labelAgent(loaded, command, state);
    default:
      return unreachable(command);
  }
}
