import type { Task, TaskInput } from '@muster/sdk/contract';
import { mintTaskId } from '../lib/ids.ts';

/** Tasks as a caller wrote them into tasks of a checklist: ids minted where absent, the persona blanked. */
export const tasksFrom = (inputs: readonly TaskInput[] | undefined): Task[] =>
  (inputs ?? []).map((input) => ({
    id: input.id || mintTaskId(),
    subject: input.subject ?? '',
    description: input.description ?? '',
    status: statusFrom(input.status),
    blocks: input.blocks ?? [],
    blockedBy: input.blockedBy ?? [],
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
export function personaTasks(persona: string, inputs: readonly TaskInput[] | undefined): Task[] {
  const tasks = tasksFrom(inputs);
  const renamed = new Map(tasks.map((task) => [task.id, mintTaskId()]));
  const rename = (ids: readonly string[]) =>
    ids.map((id) => renamed.get(id)).filter((id) => id !== undefined);
  return tasks.map((task) => ({
    ...task,
    id: renamed.get(task.id) ?? task.id,
    blocks: rename(task.blocks),
    blockedBy: rename(task.blockedBy),
    persona,
  }));
}
