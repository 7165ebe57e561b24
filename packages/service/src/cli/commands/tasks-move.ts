import type { Task } from '@muster/sdk/contract';
import type { Invocation } from '../invocation.ts';
import { taskLine } from '../status-text.ts';

const statuses = {
  start: 'TASK_STATUS_IN_PROGRESS',
  done: 'TASK_STATUS_COMPLETED',
  reopen: 'TASK_STATUS_PENDING',
  delete: 'TASK_STATUS_DELETED',
} as const satisfies Record<string, Task['status']>;

export const moving =
  (name: keyof typeof statuses) =>
  async ({ args, client, output, signal }: Invocation): Promise<void> => {
    const [agent, id] = args as [string, string];
    const { task } = await client().updateTask(agent, id, { status: statuses[name] }, { signal });
    output.answer(task, () => output.line(taskLine(task)));
  };
