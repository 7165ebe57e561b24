import type { AgentId, Task } from '@muster/sdk';
import { useId, useState } from 'react';
import { LineButton } from '../../parts/button.tsx';
import { Markdown } from '../../parts/markdown.tsx';
import { TaskActions } from './task-actions.tsx';
import { TaskMark } from './task-mark.tsx';
import { openAmong, standingWords, type TaskActivity, type TaskStanding } from './task-standing.ts';

export interface TaskRowProps {
  readonly task: Task;
  readonly agentId: AgentId;
  readonly tasks: ReadonlyMap<string, Task>;
  readonly activity: TaskActivity;
  readonly standing: TaskStanding;
  /** Another task names this one, and the reader points there. */
  readonly isPointed: boolean;
  readonly onPoint: (id: string | null) => void;
  readonly mayChange: boolean;
}

/** A task in one line; unfolded it says everything, and what one may do with it. */
export function TaskRow(props: TaskRowProps) {
  const { task, standing, isPointed, onPoint, mayChange, agentId, tasks } = props;
  const [isOpen, setOpen] = useState(false);
  const bodyId = useId();
  const open = openAmong(task.blockedBy, tasks);
  return (
    <li className="task-row" data-standing={standing} data-pointed={isPointed} id={rowId(task.id)}>
      <LineButton
        className="task-line"
        aria-expanded={isOpen}
        aria-controls={bodyId}
        onClick={() => setOpen(!isOpen)}
      >
        <TaskMark standing={standing} />
        <span className="task-subject">{task.subject || 'A task without a name'}</span>
        <span className="task-words">{standingWords[standing]}</span>
      </LineButton>
      <TaskFacts {...props} />
      <div id={bodyId} className="task-body" hidden={!isOpen}>
        {isOpen && (
          <>
            {task.description === '' ? (
              <p className="task-none">It has no description.</p>
            ) : (
              <Markdown text={task.description} />
            )}
            <Neighbours
              title="After"
              ids={task.blockedBy.filter((id) => !open.includes(id))}
              tasks={tasks}
              onPoint={onPoint}
            />
            <Neighbours title="Blocks" ids={task.blocks} tasks={tasks} onPoint={onPoint} />
            {mayChange && standing !== 'deleted' && (
              <TaskActions task={task} agentId={agentId} tasks={tasks} />
            )}
          </>
        )}
      </div>
    </li>
  );
}

const rowId = (id: string): string => `task-${id}`;

/** What keeps a task from being done, or makes it count: that is seen without unfolding it. */
function TaskFacts({ task, tasks, activity, standing, onPoint }: TaskRowProps) {
  const isClosed = standing === 'done' || standing === 'deleted';
  const pattern = task.activation?.filesModified?.pattern;
  const blockers = isClosed ? [] : openAmong(task.blockedBy, tasks);
  if (blockers.length === 0 && pattern === undefined && !task.ephemeral && task.persona === '') return null;
  return (
    <ul className="task-facts">
      {blockers.length > 0 && (
        <li>
          <Neighbours title="Blocked by" ids={blockers} tasks={tasks} onPoint={onPoint} />
        </li>
      )}
      {pattern !== undefined && (
        <li>
          {activity === 'active' && !isClosed ? 'Active: a push touched ' : 'Active when a push touches '}
          {pattern === '' ? 'any file' : <code>{pattern}</code>}
        </li>
      )}
      {task.ephemeral && (
        <li title="It leaves the list when the messages it came with are done.">
          Leaves the list after this turn
        </li>
      )}
      {task.persona !== '' && <li>From the persona {task.persona}</li>}
    </ul>
  );
}

/** Other tasks by their names. Pointing at one marks it in the list; a click leads there. */
function Neighbours({
  title,
  ids,
  tasks,
  onPoint,
}: Pick<TaskRowProps, 'tasks' | 'onPoint'> & { readonly title: string; readonly ids: readonly string[] }) {
  const known = ids.flatMap((id) => tasks.get(id) ?? []);
  if (known.length === 0) return null;
  const leadTo = (id: string) => document.getElementById(rowId(id))?.querySelector('button')?.focus();
  return (
    <span className="task-neighbours">
      {title}{' '}
      {known.map((task) => (
        <button
          key={task.id}
          type="button"
          onPointerEnter={() => onPoint(task.id)}
          onPointerLeave={() => onPoint(null)}
          onFocus={() => onPoint(task.id)}
          onBlur={() => onPoint(null)}
          onClick={() => leadTo(task.id)}
        >
          {task.subject}
          {task.status === 'TASK_STATUS_COMPLETED' && ' (done)'}
        </button>
      ))}
    </span>
  );
}
