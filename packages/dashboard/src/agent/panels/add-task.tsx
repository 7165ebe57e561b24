import type { AgentId, Task, TaskInput } from '@muster/sdk';
import { type FormEvent, useRef, useState } from 'react';
import { Button } from '../../parts/button.tsx';
import { Field } from '../../parts/field.tsx';
import { fieldProblem, Problem } from '../../parts/problem.tsx';
import { useCommand } from '../use-command.ts';

const blank = { subject: '', description: '', blockedBy: '', pattern: '' };

const taskFrom = ({ subject, description, blockedBy, pattern }: typeof blank): TaskInput => ({
  subject: subject.trim(),
  description,
  ...(blockedBy !== '' && { blockedBy: [blockedBy] }),
  ...(pattern.trim() !== '' && { activation: { filesModified: { pattern: pattern.trim() } } }),
});

/** A new task for the checklist: a line is enough, the rest is behind "More". */
export function AddTask({ agentId, tasks }: { readonly agentId: AgentId; readonly tasks: readonly Task[] }) {
  const subjectField = useRef<HTMLInputElement>(null);
  const [draft, setDraft] = useState(blank);
  const set = (change: Partial<typeof blank>) => setDraft({ ...draft, ...change });
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
  const wrongSubject = fieldProblem(error, 'tasks[0].subject');
  const wrongPattern = fieldProblem(error, 'tasks[0].activation.filesModified.pattern');
  return (
    <form className="add-task" onSubmit={submit} aria-label="Add a task">
      <div className="add-task-line">
        <input
          ref={subjectField}
          aria-label="New task"
          aria-invalid={wrongSubject !== undefined}
          placeholder="New task"
          value={draft.subject}
          onChange={(event) => {
            set({ subject: event.target.value });
            reset();
          }}
        />
        <Button type="submit" disabled={isPending || draft.subject.trim() === ''}>
          Add
        </Button>
      </div>
      <details>
        <summary>More about it</summary>
        <Field label="Description">
          {(attributes) => (
            <textarea
              {...attributes}
              rows={3}
              value={draft.description}
              onChange={(event) => set({ description: event.target.value })}
            />
          )}
        </Field>
        {tasks.length > 0 && (
          <Field label="Comes after">
            {(attributes) => (
              <select
                {...attributes}
                value={draft.blockedBy}
                onChange={(event) => set({ blockedBy: event.target.value })}
              >
                <option value="">nothing</option>
                {tasks.map(({ id, subject }) => (
                  <option key={id} value={id}>
                    {subject}
                  </option>
                ))}
              </select>
            )}
          </Field>
        )}
        <Field
          label="Active when a push touches"
          hint="A pattern such as src/**. Without one the task counts at once."
          error={wrongPattern}
        >
          {(attributes) => (
            <input
              {...attributes}
              spellCheck={false}
              value={draft.pattern}
              onChange={(event) => set({ pattern: event.target.value })}
            />
          )}
        </Field>
      </details>
      <Problem error={error} />
    </form>
  );
}
