import { type ClipboardEvent, type KeyboardEvent, useEffect, useId, useRef, useState } from 'react';
import { Button } from '../../parts/button.tsx';
import { TextField } from '../../parts/field.tsx';
import { type DraftTask, filledTasks, newTask, withoutTask } from '../model/spawn-draft.ts';
import type { FormPart } from './use-spawn-form.ts';

/** The initial checklist. Enter adds the next task; pasted lines become one task each. */
export function TasksField({ draft: { tasks }, set, problems }: FormPart) {
  const titleId = useId();
  const [focused, setFocused] = useState<string | null>(null);
  const filled = filledTasks(tasks);
  const put = (next: readonly DraftTask[]) => set({ tasks: next });

  const insert = (at: number, subjects: readonly string[], replaced?: DraftTask) => {
    const next = replaced ? withoutTask(tasks, replaced.id) : [...tasks];
    for (const [offset, subject] of subjects.entries())
      next.splice(at + offset, 0, newTask([...tasks, ...next], subject));
    put(next);
    setFocused(next[at + subjects.length - 1]?.id ?? null);
  };

  return (
    <fieldset className="tasks-field stack" aria-labelledby={titleId}>
      <div className="tasks-field-head">
        <h3 id={titleId}>Tasks</h3>
        <Button look="quiet" onClick={() => insert(tasks.length, [''])}>
          + Add task
        </Button>
      </div>
      {tasks.length === 0 && (
        <p className="secondary">A checklist that the agent completes before it becomes idle.</p>
      )}
      {problems.has('tasks') && (
        <p className="tasks-field-error" role="alert">
          {problems.get('tasks')}
        </p>
      )}
      <ol>
        {tasks.map((task, index) => (
          <TaskRow
            key={task.id}
            task={task}
            number={index + 1}
            others={tasks.filter((other) => other !== task)}
            error={problems.get(`tasks[${filled.indexOf(task)}]`)}
            isFocused={focused === task.id}
            onChange={(change) => put(tasks.map((one) => (one === task ? { ...task, ...change } : one)))}
            onRemove={() => {
              put(withoutTask(tasks, task.id));
              setFocused((tasks[index - 1] ?? tasks[index + 1])?.id ?? null);
            }}
            onNext={() => insert(index + 1, [''])}
            onLines={(lines) => insert(index, lines, task)}
          />
        ))}
      </ol>
    </fieldset>
  );
}

interface RowProps {
  readonly task: DraftTask;
  readonly number: number;
  readonly others: readonly DraftTask[];
  readonly error: string | undefined;
  readonly isFocused: boolean;
  readonly onChange: (change: Partial<DraftTask>) => void;
  readonly onRemove: () => void;
  readonly onNext: () => void;
  readonly onLines: (lines: readonly string[]) => void;
}

function TaskRow({ task, number, others, error, isFocused, ...act }: RowProps) {
  const subject = useRef<HTMLInputElement>(null);
  const errorId = useId();
  const [isOpen, setOpen] = useState(
    task.description !== '' || task.blockedBy.length > 0 || task.pattern !== null,
  );
  useEffect(() => {
    if (isFocused) subject.current?.focus();
  }, [isFocused]);

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== 'Enter' || event.ctrlKey || event.metaKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    act.onNext();
  };
  const onPaste = (event: ClipboardEvent) => {
    const lines = event.clipboardData.getData('text').split(/\r?\n/).map(asSubject).filter(Boolean);
    if (lines.length < 2 || task.subject.trim() !== '') return;
    event.preventDefault();
    act.onLines(lines);
  };

  return (
    <li>
      <div className="tasks-field-row">
        <span aria-hidden="true">{number}</span>
        <input
          ref={subject}
          value={task.subject}
          onChange={(event) => act.onChange({ subject: event.target.value })}
          onKeyDown={onKeyDown}
          onPaste={onPaste}
          aria-label={`Task ${number}`}
          aria-invalid={error !== undefined}
          aria-describedby={errorId}
        />
        <Button look="quiet" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          Details<span className="visually-hidden"> of task {number}</span>
        </Button>
        <Button look="quiet" aria-label={`Remove task ${number}`} onClick={act.onRemove}>
          ✕
        </Button>
      </div>
      <p id={errorId} className="tasks-field-error">
        {error}
      </p>
      {isOpen && <TaskDetails {...{ task, others }} onChange={act.onChange} />}
    </li>
  );
}

/** A line of a list without its bullet. */
const asSubject = (line: string): string =>
  line.replace(/^\s*(?:[-*•]|\d+[.)])?\s*(?:\[[ x]\]\s*)?/, '').trim();

function TaskDetails({ task, others, onChange }: Pick<RowProps, 'task' | 'others' | 'onChange'>) {
  const toggle = (id: string, isOn: boolean) =>
    onChange({ blockedBy: isOn ? [...task.blockedBy, id] : task.blockedBy.filter((one) => one !== id) });
  const named = others.filter(({ subject }) => subject.trim() !== '');
  return (
    <div className="tasks-field-details stack">
      <TextField
        label="Description"
        rows={2}
        value={task.description}
        onChange={(description) => onChange({ description })}
      />
      {named.length > 0 && (
        <fieldset>
          <legend>Blocked by</legend>
          {named.map(({ id, subject }) => (
            <label key={id}>
              <input
                type="checkbox"
                checked={task.blockedBy.includes(id)}
                onChange={(event) => toggle(id, event.target.checked)}
              />
              {subject}
            </label>
          ))}
        </fieldset>
      )}
      <label>
        <input
          type="checkbox"
          checked={task.pattern !== null}
          onChange={(event) => onChange({ pattern: event.target.checked ? '' : null })}
        />
        Activate when a push changes matching files
      </label>
      {task.pattern !== null && (
        <TextField
          label="Files"
          hint="A pattern such as src/**/*.ts. Leave empty for any file."
          value={task.pattern}
          onChange={(pattern) => onChange({ pattern })}
          isCode
        />
      )}
    </div>
  );
}
