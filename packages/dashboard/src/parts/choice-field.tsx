import type { ReactNode } from 'react';
import { Field } from './field.tsx';

/** One of several values, or none. What was chosen stays choosable, although the values lack it or are still to come. */
export function ChoiceField({
  label,
  none,
  value,
  values,
  onChange,
  error,
  hint,
}: {
  readonly label: string;
  /** What it means to choose none. */
  readonly none: string;
  readonly value: string;
  readonly values: readonly string[];
  readonly onChange: (value: string) => void;
  readonly error?: string | undefined;
  readonly hint?: ReactNode;
}) {
  const all = value === '' || values.includes(value) ? values : [value, ...values];
  return (
    <Field label={label} error={error} hint={hint}>
      {(attributes) => (
        <select {...attributes} value={value} onChange={(event) => onChange(event.target.value)}>
          <option value="">{none}</option>
          {all.map((one) => (
            <option key={one} value={one}>
              {one}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}
