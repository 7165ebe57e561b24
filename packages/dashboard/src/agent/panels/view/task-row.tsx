import type { AgentId, Task, TaskStatus } from '@muster/sdk';
import { plainText } from '@muster/sdk/contract';
import { type ReactNode, useId, useState } from 'react';
import { Button, LineButton } from '../../../parts/button.tsx';
import { Markdown } from '../../../parts/markdown.tsx';
import { Problem, problemText } from '../../../parts/problem.tsx';
import { useCommand } from '../../view/use-agent.ts';
import { openTasks, type TaskActivation, type TaskState, taskStateTexts } from '../model/tasks.ts';

interface TaskRowProps {
  readonly task: Task;
  readonly agentId: AgentId;
  readonly tasks: ReadonlyMap<string, Task>;
  readonly activation: TaskActivation;
  readonly state: TaskState;
  /** The pointer or the focus is on the name of this task in another row. */
  readonly isHighlighted: boolean;
  readonly onHighlight: (id: string | null) => void;
  readonly mayChange: boolean;
}

/** A task in one line; expanded, its description and actions. */
export function TaskRow(props: TaskRowProps) {
  const { task, state, isHighlighted, mayChange, tasks } = props;
  const [isOpen, setOpen] = useState(false);
  const bodyId = useId();
  const open = openTasks(task.blockedBy, tasks);
  return (
    <li className="task-row" data-state={state} data-highlighted={isHighlighted} id={rowId(task.id)}>
      <LineButton
        className="task-line"
        aria-expanded={isOpen}
        aria-controls={bodyId}
        onClick={() => setOpen(!isOpen)}
      >
        <TaskIcon state={state} />
        <span className="task-subject" dir="auto">
          {subjectOf(task)}
        </span>
        <span className="task-state secondary">{taskStateTexts[state]}</span>
      </LineButton>
      <TaskFacts {...props} />
      <div id={bodyId} className="task-body stack" hidden={!isOpen}>
        {isOpen && (
          <>
            {task.description === '' ? (
              <p className="secondary">No description</p>
            ) : (
              <Markdown text={task.description} />
            )}
            <TaskLinks
              {...props}
              title="Depends on"
              ids={task.blockedBy.filter((id) => !open.includes(id))}
            />
            <TaskLinks {...props} title="Blocks" ids={task.blocks} />
            {mayChange && state !== 'deleted' && <TaskActions {...props} />}
          </>
        )}
      </div>
    </li>
  );
}

const subjectLength = 500;
/** Without the marks of Markdown: a subject may be the first line of a comment. */
const subjectOf = ({ subject }: Task): string => plainText(subject, subjectLength) || 'Untitled task';

const rowId = (id: string): string => `task-${id}`;

/** Blockers, condition and origin, visible without expanding the task. */
function TaskFacts(props: TaskRowProps) {
  const { task, tasks, activation, state } = props;
  const isClosed = state === 'done' || state === 'deleted';
  const pattern = task.activation?.filesModified?.pattern;
  const blockers = isClosed ? [] : openTasks(task.blockedBy, tasks);
  if (blockers.length === 0 && pattern === undefined && !task.ephemeral && task.persona === '') return null;
  return (
    <ul className="task-facts secondary">
      {blockers.length > 0 && (
        <li>
          <TaskLinks {...props} title="Blocked by" ids={blockers} />
        </li>
      )}
      {pattern !== undefined && (
        <li>
          {activation === 'active' && !isClosed ? 'Active: a push changed ' : 'Active when a push changes '}
          {pattern === '' ? 'any file' : <code>{pattern}</code>}
        </li>
      )}
      {task.ephemeral && <li>Removed after this turn</li>}
      {task.persona !== '' && <li>From persona {task.persona}</li>}
    </ul>
  );
}

/** Names of other tasks. Hovering highlights the row of a task; a click focuses it. */
function TaskLinks({
  title,
  ids,
  tasks,
  onHighlight,
}: Pick<TaskRowProps, 'tasks' | 'onHighlight'> & {
  readonly title: string;
  readonly ids: readonly string[];
}) {
  const known = ids.flatMap((id) => tasks.get(id) ?? []);
  if (known.length === 0) return null;
  const goTo = (id: string) => document.getElementById(rowId(id))?.querySelector('button')?.focus();
  return (
    <span className="task-links secondary">
      {title}{' '}
      {known.map((task) => (
        <button
          key={task.id}
          type="button"
          onPointerEnter={() => onHighlight(task.id)}
          onPointerLeave={() => onHighlight(null)}
          onFocus={() => onHighlight(task.id)}
          onBlur={() => onHighlight(null)}
          onClick={() => goTo(task.id)}
        >
          {subjectOf(task)}
          {task.status === 'TASK_STATUS_COMPLETED' && ' (done)'}
        </button>
      ))}
    </span>
  );
}

function TaskActions({ task, agentId, tasks }: Pick<TaskRowProps, 'task' | 'agentId' | 'tasks'>) {
  const [isConfirming, setConfirming] = useState(false);
  const { mutate, error, isPending } = useCommand(agentId, (client, status: TaskStatus) =>
    client.updateTask(agentId, task.id, { status }),
  );
  const isDone = task.status === 'TASK_STATUS_COMPLETED';
  return (
    <>
      <div className="task-actions wrap">
        <Button
          disabled={isPending}
          onClick={() => mutate(isDone ? 'TASK_STATUS_IN_PROGRESS' : 'TASK_STATUS_COMPLETED')}
        >
          {isDone ? 'Reopen' : 'Mark as done'}
        </Button>
        {isConfirming ? (
          <>
            <Button look="danger" disabled={isPending} onClick={() => mutate('TASK_STATUS_DELETED')}>
              Delete permanently
            </Button>
            <Button look="quiet" onClick={() => setConfirming(false)}>
              Cancel
            </Button>
          </>
        ) : (
          <Button look="quiet" onClick={() => setConfirming(true)}>
            Delete
          </Button>
        )}
      </div>
      <Problem error={error && withSubjects(problemText(error), tasks)} />
    </>
  );
}

/** The service names tasks by id; the page shows their subjects. */
const withSubjects = (message: string, tasks: ReadonlyMap<string, Task>): string =>
  message.replace(/"([^"]+)"/g, (whole, id: string) => {
    const subject = tasks.get(id)?.subject;
    return subject ? `“${subject}”` : whole;
  });

const iconShapes: Readonly<Record<TaskState, ReactNode>> = {
  todo: null,
  inactive: null,
  working: <path className="filled" d="M8 4.2a3.8 3.8 0 0 1 0 7.6Z" />,
  blocked: <path d="M5 8h6" />,
  done: <path className="tick" d="m5.1 8.2 2 2 3.8-4.2" />,
  deleted: <path d="m5.8 5.8 4.4 4.4m0-4.4-4.4 4.4" />,
};

export const TaskIcon = ({ state }: { readonly state: TaskState }) => (
  <svg className="task-icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
    <circle cx="8" cy="8" r="6.25" {...(state === 'inactive' && { strokeDasharray: '2.2 2.7' })} />
    {iconShapes[state]}
  </svg>
);
