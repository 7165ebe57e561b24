import { type ReactNode, useId } from 'react';
import './field.css';

/** A labelled input. `children` is given the ids by which it names its label, its hint and its error. */
export function Field({
  label,
  hint,
  error,
  children,
}: {
  readonly label: string;
  readonly hint?: ReactNode;
  readonly error?: string | undefined;
  readonly children: (attributes: {
    readonly id: string;
    readonly 'aria-describedby': string;
    readonly 'aria-invalid': boolean;
  }) => ReactNode;
}) {
  const id = useId();
  const noteId = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children({ id, 'aria-describedby': noteId, 'aria-invalid': error !== undefined })}
      <p id={noteId} className={error === undefined ? 'field-hint' : 'field-error'}>
        {error ?? hint}
      </p>
    </div>
  );
}
