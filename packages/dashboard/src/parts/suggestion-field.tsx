import { type ReactNode, useId } from 'react';
import { Field } from './field.tsx';

/** A line of text, with what one may want to write there. */
export function SuggestionField({
  label,
  value,
  suggestions,
  onChange,
  placeholder,
  error,
  hint,
}: {
  readonly label: string;
  readonly value: string;
  readonly suggestions: readonly string[];
  readonly onChange: (value: string) => void;
  readonly placeholder?: string | undefined;
  readonly error?: string | undefined;
  readonly hint?: ReactNode;
}) {
  const listId = useId();
  return (
    <Field label={label} error={error} hint={hint}>
      {(attributes) => (
        <>
          <input
            {...attributes}
            value={value}
            onChange={(event) => onChange(event.target.value)}
            placeholder={placeholder}
            list={listId}
            autoComplete="off"
            autoCapitalize="none"
            spellCheck={false}
          />
          <datalist id={listId}>
            {suggestions.map((suggestion) => (
              <option key={suggestion} value={suggestion} />
            ))}
          </datalist>
        </>
      )}
    </Field>
  );
}
