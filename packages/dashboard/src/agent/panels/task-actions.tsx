import type { AgentId, Task, TaskStatus } from '@muster/sdk';
import { useState } from 'react';
import { Button } from '../../parts/button.tsx';
import { Problem, problemText } from '../../parts/problem.tsx';
import { useCommand } from '../use-command.ts';

/** What a person may do with a task of an agent. */
export function TaskActions({
  task,
  agentId,
  tasks,
}: {
  readonly task: Task;
  readonly agentId: AgentId;
  readonly tasks: ReadonlyMap<string, Task>;
}) {
  const [isAsked, setAsked] = useState(false);
  const { mutate, error, isPending } = useCommand(agentId, (client, status: TaskStatus) =>
    client.updateTask(agentId, task.id, { status }),
  );
  const isDone = task.status === 'TASK_STATUS_COMPLETED';
  return (
    <>
      <div className="task-actions">
        {isDone ? (
          <Button disabled={isPending} onClick={() => mutate('TASK_STATUS_IN_PROGRESS')}>
            Reopen
          </Button>
        ) : (
          <Button disabled={isPending} onClick={() => mutate('TASK_STATUS_COMPLETED')}>
            Mark as done
          </Button>
        )}
        {isAsked ? (
          <>
            <Button look="danger" disabled={isPending} onClick={() => mutate('TASK_STATUS_DELETED')}>
              Delete it for good
            </Button>
            <Button look="quiet" onClick={() => setAsked(false)}>
              Keep it
            </Button>
          </>
        ) : (
          <Button look="quiet" onClick={() => setAsked(true)}>
            Delete
          </Button>
        )}
      </div>
      <Problem error={error && named(problemText(error), tasks)} />
    </>
  );
}

/** The service names tasks by their ids; people know them by their subjects. */
const named = (message: string, tasks: ReadonlyMap<string, Task>): string =>
  message.replace(/"([^"]+)"/g, (whole, id: string) => {
    const subject = tasks.get(id)?.subject;
    return subject ? `“${subject}”` : whole;
  });
