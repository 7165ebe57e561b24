import { isTerminal, type Task } from '@muster/sdk/contract';
import type { AgentState } from '../agent.ts';
import { addTasks, openCycles, undeliveredTasks } from '../batch.ts';
import { deduplicated, refuseTasks } from '../checklist.ts';
import { type Decision, decided } from '../decision.ts';
import { Draft } from '../draft.ts';
import type { LoadedAgents } from '../loaded-agents.ts';
import { precondition } from '../refusal.ts';
import { resettle } from '../settle.ts';

export interface CreateTasks {
  readonly type: 'createTasks';
  readonly tasks: readonly Task[];
}

/** Adds tasks to the checklist at once. Ephemeral ones leave with the batch that is under way. */
export function createTasks(
  loaded: LoadedAgents,
  command: CreateTasks,
  state: AgentState,
): Decision<readonly Task[]> {
  const { agent } = state;
  const path = agent.path.join('/');
  if (isTerminal(agent.phase)) return precondition('AGENT_ENDED', path, `the agent ${path} has ended`);
  const draft = Draft.of(state, loaded.now);
  openCycles(draft);
  const refused = refuseTasks(command.tasks, draft.checklist, undeliveredTasks(state), true);
  if (refused) return refused;

  const tasks = deduplicated(command.tasks);
  addTasks(draft, tasks);
  const { batch } = agent.memory;
  const ephemeral = tasks.filter((t) => t.ephemeral).map((t) => t.id);
  if (batch && ephemeral.length > 0) {
    draft.remember({ batch: { ...batch, ephemeralTaskIds: [...batch.ephemeralTaskIds, ...ephemeral] } });
  }
  resettle(draft, loaded.children(agent.id));
  return decided(loaded, draft.checklist, [draft]);
}
