import type { AgentId, AgentStatus, Task, TaskInput } from '@muster/sdk';
import { isTerminal } from '@muster/sdk/contract';
import { type FormEvent, useMemo, useRef, useState } from 'react';
import { mayCommand } from '../../../live/model/allowed-actions.ts';
import { Button } from '../../../parts/button.tsx';
import { SelectField, TextField } from '../../../parts/field.tsx';
import { plural } from '../../../parts/model/text.ts';
import { fieldProblem, Problem } from '../../../parts/problem.tsx';
import { useSignedIn } from '../../../session/session.ts';
import { useCommand } from '../../view/use-agent.ts';
import { activationOf, inWorkingOrder, isDeleted, pushedFilesOf, taskStateOf } from '../model/tasks.ts';
import { Panel, useEntries } from './panel.tsx';
import { TaskRow } from './task-row.tsx';

export function Checklist({ status }: { readonly status: AgentStatus }) {
  const tasks = status.tasks.filter((task) => !isDeleted(task));
  const done = tasks.filter((task) => task.status === 'TASK_STATUS_COMPLETED').length;
  const summary = tasks.length === 0 ? 'none' : `${done} of ${tasks.length}`;
  return (
    <Panel title="Checklist" summary={summary} isOpenAtFirst>
      {tasks.length > 0 && <progress max={tasks.length} value={done} aria-label={`${summary} tasks done`} />}
      <Tasks status={status} />
    </Panel>
  );
}

function Tasks({ status }: { readonly status: AgentStatus }) {
  const { tasks, agentId, phase, runCount } = status;
  const { caller } = useSignedIn();
  const [highlighted, setHighlighted] = useState<string | null>(null);
  const isConditional = tasks.some(({ activation }) => activation?.filesModified);
  const pushes = useEntries(status, 'PUSH', { isNeeded: isConditional }).data;
  const pushedFiles = useMemo(() => pushes && pushedFilesOf(pushes, runCount), [pushes, runCount]);
  const ordered = useMemo(() => inWorkingOrder(tasks), [tasks]);
  const byId = useMemo(() => new Map(tasks.map((task) => [task.id, task])), [tasks]);
  const mayChange = mayCommand(caller, agentId) && !isTerminal(phase);

  const renderTask = (task: Task) => {
    const activation = activationOf(task, pushedFiles);
    return (
      <TaskRow
        key={task.id}
        task={task}
        agentId={agentId}
        tasks={byId}
        activation={activation}
        state={taskStateOf(task, byId, activation)}
        isHighlighted={task.id === highlighted}
        onHighlight={setHighlighted}
        mayChange={mayChange}
      />
    );
  };
  const current = ordered.filter((task) => !isDeleted(task));
  const deleted = ordered.filter(isDeleted);
  return (
    <>
      {current.length === 0 ? (
        <p className="secondary">
          No tasks yet. An agent with open tasks has the status “unfinished tasks” when its turn ends.
        </p>
      ) : (
        <ol className="checklist">{current.map(renderTask)}</ol>
      )}
      {deleted.length > 0 && (
        <details>
          <summary>{plural(deleted.length, 'deleted task')}</summary>
          <ol className="checklist">{deleted.map(renderTask)}</ol>
        </details>
      )}
      {mayChange && <AddTask agentId={agentId} tasks={current} />}
    </>
  );
}

const blank = { subject: '', description: '', blockedBy: '', pattern: '' };
type TaskDraft = typeof blank;

const taskFrom = ({ subject, description, blockedBy, pattern }: TaskDraft): TaskInput => ({
  subject: subject.trim(),
  description,
  ...(blockedBy !== '' && { blockedBy: [blockedBy] }),
  ...(pattern.trim() !== '' && { activation: { filesModified: { pattern: pattern.trim() } } }),
});

function AddTask({ agentId, tasks }: { readonly agentId: AgentId; readonly tasks: readonly Task[] }) {
  const subjectField = useRef<HTMLInputElement>(null);
  const [draft, setDraft] = useState(blank);
  const update = (changed: Partial<TaskDraft>) => setDraft({ ...draft, ...changed });
  const { mutate, error, isPending, reset } = useCommand(agentId, (client, task: TaskInput) =>
    client.createTasks(agentId, [task]),
  );
  const onSuccess = () => {
    setDraft(blank);
    subjectField.current?.focus();
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (draft.subject.trim() !== '' && !isPending) mutate(taskFrom(draft), { onSuccess });
  };
  return (
    <form className="add-task stack" onSubmit={submit} aria-label="Add task">
      <div className="input-line">
        <input
          ref={subjectField}
          aria-label="New task"
          aria-invalid={fieldProblem(error, 'tasks[0].subject') !== undefined}
          placeholder="New task"
          value={draft.subject}
          onChange={(event) => {
            update({ subject: event.target.value });
            reset();
          }}
        />
        <Button type="submit" disabled={isPending || draft.subject.trim() === ''}>
          Add
        </Button>
      </div>
      <TaskOptions {...{ draft, update, tasks, error }} />
      <Problem error={error} />
    </form>
  );
}

interface TaskOptionsProps {
  readonly draft: TaskDraft;
  readonly update: (changed: Partial<TaskDraft>) => void;
  readonly tasks: readonly Task[];
  readonly error: unknown;
}

const TaskOptions = ({ draft, update, tasks, error }: TaskOptionsProps) => (
  <details>
    <summary>More options</summary>
    <TextField
      label="Description"
      rows={3}
      value={draft.description}
      onChange={(description) => update({ description })}
    />
    {tasks.length > 0 && (
      <SelectField
        label="Blocked by"
        value={draft.blockedBy}
        options={[['', 'no task'], ...tasks.map(({ id, subject }) => [id, subject] as const)]}
        onChange={(blockedBy) => update({ blockedBy })}
      />
    )}
    <TextField
      label="Active when pushed"
      hint="A pattern such as src/**. The task is inactive until a push changes a matching file."
      error={fieldProblem(error, 'tasks[0].activation.filesModified.pattern')}
      spellCheck={false}
      value={draft.pattern}
      onChange={(pattern) => update({ pattern })}
    />
  </details>
);
