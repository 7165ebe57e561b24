import type { Task, TaskInput } from '@muster/sdk/contract';
import { cycleOf, describeCycle } from '../domain/checklist.ts';
import { invalid, type Refusal } from '../domain/refusal.ts';
import { mintTaskId } from '../lib/ids.ts';

/** Tasks as a caller wrote them into tasks of a checklist: ids minted where absent, the persona blanked. */
export const tasksFrom = (inputs: readonly TaskInput[] | undefined): Task[] =>
  (inputs ?? []).map((input) => ({
    id: input.id || mintTaskId(),
    subject: input.subject ?? '',
    description: input.description ?? '',
    status: statusFrom(input.status),
    blocks: [...new Set(input.blocks)],
    blockedBy: [...new Set(input.blockedBy)],
    activation: activationFrom(input.activation),
    persona: '',
    dedupKey: input.dedupKey ?? '',
    ephemeral: input.ephemeral ?? false,
  }));

const statusFrom = (status: TaskInput['status']): Task['status'] =>
  !status || status === 'TASK_STATUS_UNSPECIFIED' ? 'TASK_STATUS_PENDING' : status;

export const activationFrom = (activation: TaskInput['activation']): Task['activation'] =>
  activation?.filesModified ? { filesModified: { pattern: activation.filesModified.pattern ?? '' } } : null;

/** A persona's tasks get ids of their own, so that they can't meet those of another message. */
export function personaTasks(
  persona: string,
  inputs: readonly TaskInput[] | undefined,
  field: string,
): Task[] | Refusal {
  const tasks = tasksFrom(inputs);
  const cycle = cycleOf(tasks);
  if (cycle) return invalid(field, `persona "${persona}": ${describeCycle(cycle)}`);
  const fresh = tasks.map((task) => ({ ...task, id: mintTaskId() }));
  const renamed = new Map(tasks.map((task, i) => [task.id, fresh[i]?.id]));
  const rename = (ids: readonly string[]) =>
    ids.map((id) => renamed.get(id)).filter((id) => id !== undefined);
  return fresh.map((task) => ({
    ...task,
    blocks: rename(task.blocks),
    blockedBy: rename(task.blockedBy),
    persona,
  }));
}
