import { isTerminal, type Task } from '@muster/sdk/contract';
import type { ChecklistTask } from '../agent.ts';
import { addTasks, logTask, openCycles, undeliveredTasks } from '../batch.ts';
import {
  cycleAmong,
  deduplicated,
  describeCycle,
  mirrored,
  refuseMove,
  refuseSize,
  refuseTasks,
  sizeBytes,
} from '../checklist.ts';
import { type Decide, decided, unchanged } from '../decision.ts';
import { Draft } from '../draft.ts';
import { invalid, notFound, precondition, type Refusal } from '../refusal.ts';
import { resettle } from '../settle.ts';

export interface CreateTasks {
  readonly type: 'createTasks';
  readonly tasks: readonly Task[];
}

/** Adds tasks to the checklist immediately. Ephemeral ones are removed with the current batch. */
export const createTasks: Decide<CreateTasks, readonly Task[]> = (loaded, command, state) => {
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
};

type Editable = 'status' | 'subject' | 'description' | 'blocks' | 'blockedBy' | 'activation';

export type UpdateTask = {
  readonly type: 'updateTask';
  readonly id: string;
  readonly note?: string | undefined;
} & {
  readonly [F in Editable]?: Task[F] | undefined;
};

/** Changes one task; what the command leaves out stays. */
export const updateTask: Decide<UpdateTask, Task> = (loaded, command, state) => {
  const { agent } = state;
  const path = agent.path.join('/');
  const draft = Draft.of(state, loaded.now);
  openCycles(draft);
  const { checklist } = draft;
  const task = checklist.find((t) => t.id === command.id);
  if (!task) return notFound(`the agent ${path} has no task "${command.id}"`);
  if (isTerminal(agent.phase)) return precondition('AGENT_ENDED', path, `the agent ${path} has ended`);
  const refused = refuseEdges(command, checklist);
  if (refused) return refused;

  const edited: ChecklistTask = {
    ...task,
    ...(command.note !== undefined && { note: command.note }),
    subject: command.subject ?? task.subject,
    description: command.description ?? task.description,
    activation: command.activation === undefined ? task.activation : command.activation,
    blockedBy: [...(command.blockedBy ?? task.blockedBy)],
  };
  const linked = relink(checklist, edited, command.blocks);
  const undelivered = undeliveredTasks(state);
  const cycle = cycleAmong(linked, undelivered);
  if (cycle) return invalid(command.blockedBy ? 'blockedBy' : 'blocks', describeCycle(cycle));
  const status = command.status ?? task.status;
  const blocked = refuseMove(linked, edited, status);
  if (blocked) return blocked;

  const next = mirrored(linked.map((t) => (t.id === task.id ? { ...t, status } : t)));
  const result = next.find((t) => t.id === task.id) ?? edited;
  if (JSON.stringify(result) === JSON.stringify(task)) return unchanged(task);
  const tooLarge = sizeBytes(result) > sizeBytes(task) ? refuseSize([...next, ...undelivered]) : null;
  if (tooLarge) return tooLarge;
  draft.checklist = next;
  logTask(draft, result, command.note);
  resettle(draft, loaded.children(agent.id));
  return decided(loaded, result, [draft]);
};

/** Sets what the agent says about a task of its checklist. */
export function setNote(draft: Draft, task: ChecklistTask, note: string): Refusal | null {
  const next = draft.checklist.map((t) => (t.id === task.id ? { ...t, note } : t));
  const tooLarge = refuseSize([...next, ...undeliveredTasks(draft)]);
  if (tooLarge) return tooLarge;
  draft.checklist = next;
  logTask(draft, task, note);
  return null;
}

function refuseEdges(command: UpdateTask, checklist: readonly Task[]): Refusal | null {
  const known = new Set(checklist.map((t) => t.id));
  for (const field of ['blocks', 'blockedBy'] as const) {
    for (const [i, id] of (command[field] ?? []).entries()) {
      if (!known.has(id)) return invalid(`${field}[${i}]`, `no task has the id "${id}"`);
    }
  }
  return null;
}

/** The checklist with the edited task in it and, if `blocks` was given, exactly those tasks blocked by it. */
function relink(checklist: readonly Task[], edited: Task, blocks: readonly string[] | undefined): Task[] {
  const swapped = checklist.map((t) => (t.id === edited.id ? edited : t));
  if (!blocks) return swapped;
  const blocked = new Set(blocks);
  return swapped.map((t) => {
    const others = t.blockedBy.filter((id) => id !== edited.id);
    return { ...t, blockedBy: blocked.has(t.id) ? [...others, edited.id] : others };
  });
}
