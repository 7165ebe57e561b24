import type { KeyboardEvent } from 'react';
import { Button } from '../parts/button.tsx';
import { DialogActions } from '../parts/dialog.tsx';
import { Field } from '../parts/field.tsx';
import { Problem } from '../parts/problem.tsx';
import { useSignedIn } from '../session/session.ts';
import { MoreOptions } from './more-options.tsx';
import type { SpawnPreset } from './open-spawn.ts';
import { RehearsalHint } from './rehearsal-hint.tsx';
import { Remembered } from './remembered.tsx';
import { SpawnChoices } from './spawn-choices.tsx';
import { TasksField } from './tasks-field.tsx';
import { useSpawnForm } from './use-spawn-form.ts';
import './spawn-form.css';

export function SpawnForm({
  preset,
  onClose,
}: {
  readonly preset: SpawnPreset;
  readonly onClose: () => void;
}) {
  const { caller } = useSignedIn();
  const { form, error, isPending, submit, last, forgetLast, ...part } = useSpawnForm(preset, onClose);
  const { draft, set, problems } = part;
  const submitByKey = (event: KeyboardEvent) => {
    if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    submit();
  };
  return (
    <form
      ref={form}
      className="spawn-form"
      onKeyDown={submitByKey}
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
      noValidate
    >
      <Remembered last={last} draft={draft} onReset={forgetLast} />
      <Field
        label="What should it do?"
        error={problems.get('description')}
        hint={
          <span className="spawn-keys">
            <kbd>Ctrl</kbd> <kbd>Enter</kbd> starts it.
          </span>
        }
      >
        {(attributes) => (
          <textarea
            {...attributes}
            rows={5}
            value={draft.description}
            onChange={(event) => set({ description: event.target.value })}
            placeholder="Fix the flaky login test, and say what made it flaky."
            data-autofocus
          />
        )}
      </Field>
      <SpawnChoices {...part} parent={preset.parent} />
      <TasksField {...part} />
      <MoreOptions {...part} hasOwner={!preset.parent && caller.role !== 'member'} />
      <RehearsalHint {...part} />
      <Problem error={error} />
      <DialogActions>
        <Button onClick={onClose}>Cancel</Button>
        <Button type="submit" look="primary" disabled={isPending}>
          {isPending ? 'Starting …' : 'Start agent'}
        </Button>
      </DialogActions>
    </form>
  );
}
