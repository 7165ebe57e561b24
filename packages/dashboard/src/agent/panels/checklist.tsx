import type { AgentStatus, Task } from '@muster/sdk';
import { isTerminal } from '@muster/sdk/contract';
import { useMemo, useState } from 'react';
import { plural } from '../../parts/model/text.ts';
import { useSignedIn } from '../../session/session.ts';
import { mayCommand } from '../may-command.ts';
import { AddTask } from './add-task.tsx';
import { Panel } from './panel.tsx';
import { TaskRow } from './task-row.tsx';
import { activityOf, filesPushedBy, standingOfTask } from './task-standing.ts';
import { useEntries } from './use-entries.ts';
import { workingOrder } from './working-order.ts';
import './checklist.css';

/** What an agent has to do, in an order in which it can be done. */
export function Checklist({ status }: { readonly status: AgentStatus }) {
  const { tasks } = status;
  const kept = tasks.filter((task) => task.status !== 'TASK_STATUS_DELETED');
  const done = kept.filter((task) => task.status === 'TASK_STATUS_COMPLETED').length;
  const summary = kept.length === 0 ? 'none' : `${done} of ${kept.length}`;
  return (
    <Panel title="Checklist" summary={summary} isOpenAtFirst>
      {kept.length > 0 && (
        <progress max={kept.length} value={done} aria-label={`${summary} tasks are done`} />
      )}
      <Tasks status={status} />
    </Panel>
  );
}

function Tasks({ status }: { readonly status: AgentStatus }) {
  const { tasks, agentId, phase, runCount } = status;
  const { caller } = useSignedIn();
  const [pointed, setPointed] = useState<string | null>(null);
  const isConditional = tasks.some(({ activation }) => activation?.filesModified);
  const pushes = useEntries(status, 'PUSH', { isNeeded: isConditional }).data;
  const pushed = useMemo(() => pushes && filesPushedBy(pushes, runCount), [pushes, runCount]);
  const ordered = useMemo(() => workingOrder(tasks), [tasks]);
  const byId = useMemo(() => new Map(tasks.map((task) => [task.id, task])), [tasks]);
  const mayChange = mayCommand(caller, agentId) && !isTerminal(phase);

  const rowOf = (task: Task) => {
    const activity = activityOf(task, pushed);
    return (
      <TaskRow
        key={task.id}
        task={task}
        agentId={agentId}
        tasks={byId}
        activity={activity}
        standing={standingOfTask(task, byId, activity)}
        isPointed={task.id === pointed}
        onPoint={setPointed}
        mayChange={mayChange}
      />
    );
  };
  const isDeleted = ({ status: of }: Task) => of === 'TASK_STATUS_DELETED';
  const deleted = ordered.filter(isDeleted);
  return (
    <>
      {ordered.length === deleted.length && <NoTasks mayChange={mayChange} />}
      <ol className="checklist">{ordered.filter((task) => !isDeleted(task)).map(rowOf)}</ol>
      {deleted.length > 0 && (
        <details className="checklist-deleted">
          <summary>{plural(deleted.length, 'deleted task')}</summary>
          <ol className="checklist">{deleted.map(rowOf)}</ol>
        </details>
      )}
      {mayChange && <AddTask agentId={agentId} tasks={ordered.filter((task) => !isDeleted(task))} />}
    </>
  );
}

const NoTasks = ({ mayChange }: { readonly mayChange: boolean }) => (
  <p className="panel-empty">
    No tasks. An agent that leaves one unfinished says so instead of resting quietly.
    {mayChange && ' Add the first below.'}
  </p>
);
