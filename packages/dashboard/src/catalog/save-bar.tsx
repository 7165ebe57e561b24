import { useEffect, useRef } from 'react';
import { Button } from '../parts/button.tsx';
import { ReasonField } from './reason-field.tsx';
import './save-bar.css';

/** Stays in sight below the text: why it is changed, and the buttons. */
export function SaveBar({
  label,
  reason,
  onReason,
  error,
  said,
  isDirty,
  isSavable,
  isSaving,
  onSave,
  onDiscard,
}: {
  readonly label: string;
  readonly reason: string;
  readonly onReason: (reason: string) => void;
  readonly error: unknown;
  /** What came of the last thing that was done. */
  readonly said: string;
  readonly isDirty: boolean;
  readonly isSavable: boolean;
  readonly isSaving: boolean;
  readonly onSave: () => void;
  readonly onDiscard: () => void;
}) {
  const save = useRef(onSave);
  save.current = isSavable && !isSaving ? onSave : () => {};
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.key !== 's' || !(event.ctrlKey || event.metaKey) || event.altKey) return;
      event.preventDefault();
      save.current();
    };
    addEventListener('keydown', onKeyDown);
    return () => removeEventListener('keydown', onKeyDown);
  }, []);
  return (
    <div className="save-bar">
      <p className="save-bar-said" role="status">
        {said}
      </p>
      <ReasonField value={reason} onChange={onReason} error={error} />
      <div className="save-bar-buttons">
        {isDirty && (
          <Button look="quiet" onClick={onDiscard}>
            Discard changes
          </Button>
        )}
        <Button look="primary" disabled={!isSavable || isSaving} title="Ctrl + S" onClick={onSave}>
          {isSaving ? 'Saving …' : label}
        </Button>
      </div>
    </div>
  );
}
