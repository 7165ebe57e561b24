import { type ReactNode, type RefObject, useEffect, useId, useRef, useState } from 'react';
import { flushSync } from 'react-dom';
import { Button } from './button.tsx';
import { type Expiry, expirySpans } from './model/expiry.ts';
import { schemaProblem } from './model/json-problem.ts';

/** A labelled input. `children` gets the attributes that connect the input to its label, hint and error. */
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

/** A select. The current value stays an option while the values load, and when they no longer include it. */
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
  /** The option for no value. */
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

/** A text input with suggestions. */
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

const example = `{
  "type": "object",
  "properties": {
    "summary": { "type": "string" },
    "passed": { "type": "boolean" }
  },
  "required": ["summary", "passed"]
}
`;

/** A JSON Schema for the structured output, checked while the user types. */
export function SchemaField({
  value,
  onChange,
  error,
}: {
  readonly value: string;
  readonly onChange: (value: string) => void;
  /** The service's error. */
  readonly error?: string | undefined;
}) {
  const [isTouched, setTouched] = useState(false);
  const problem = isTouched ? schemaProblem(value) : undefined;
  return (
    <div className="schema-field">
      <Field
        label="Output schema"
        hint="A JSON Schema that the agent's output must match."
        error={problem ?? error}
      >
        {(attributes) => (
          <textarea
            {...attributes}
            rows={value === '' ? 2 : 8}
            spellCheck={false}
            value={value}
            onChange={(event) => {
              setTouched(true);
              onChange(event.target.value);
            }}
          />
        )}
      </Field>
      {value.trim() === '' && (
        <Button look="quiet" onClick={() => onChange(example)}>
          Insert an example
        </Button>
      )}
    </div>
  );
}

export function ExpiryField({
  value,
  onChange,
  error,
}: {
  readonly value: Expiry;
  readonly onChange: (value: Expiry) => void;
  readonly error?: string | undefined;
}) {
  return (
    <div className="field-row">
      <Field label="Expires" error={value.span === 'at' ? undefined : error}>
        {(attributes) => (
          <select
            {...attributes}
            value={value.span}
            onChange={(event) => onChange({ ...value, span: event.target.value })}
          >
            {expirySpans.map(([span, title]) => (
              <option key={span} value={span}>
                {title}
              </option>
            ))}
          </select>
        )}
      </Field>
      {value.span === 'at' && (
        <Field label="Expires at" error={error} hint="Your local time.">
          {(attributes) => (
            <input
              {...attributes}
              type="datetime-local"
              value={value.at}
              onChange={(event) => onChange({ ...value, at: event.target.value })}
              required
            />
          )}
        </Field>
      )}
    </div>
  );
}

/** The search starts after a pause in typing. */
const searchDelayMs = 150;

/** The search of a list. Escape leaves the field; Enter and arrow down move the focus into the list. */
export function SearchField({
  label,
  placeholder,
  text,
  field,
  onSearch,
  onLeave,
}: {
  readonly label: string;
  readonly placeholder: string;
  readonly text: string;
  readonly field: RefObject<HTMLInputElement | null>;
  readonly onSearch: (text: string) => void;
  readonly onLeave: () => void;
}) {
  const [typed, setTyped] = useState(text);
  /** The last text that this field reported; a different `text` comes from elsewhere, for example "back". */
  const reported = useRef(text);
  useEffect(() => {
    if (text === reported.current) return;
    reported.current = text;
    setTyped(text);
  }, [text]);

  const search = () => {
    const next = typed.trim();
    if (next === reported.current) return;
    reported.current = next;
    onSearch(next);
  };
  const latestSearch = useRef(search);
  latestSearch.current = search;
  // biome-ignore lint/correctness/useExhaustiveDependencies: each key restarts the delay.
  useEffect(() => {
    const timer = setTimeout(() => latestSearch.current(), searchDelayMs);
    return () => clearTimeout(timer);
  }, [typed]);

  return (
    <div className="search-field">
      <input
        ref={field}
        type="search"
        aria-label={label}
        aria-keyshortcuts="/"
        placeholder={placeholder}
        value={typed}
        autoComplete="off"
        spellCheck={false}
        onChange={(event) => setTyped(event.target.value)}
        // No delay on blur: the list must not change after the user has moved on.
        onBlur={search}
        onKeyDown={(event) => {
          if (event.key === 'Escape') {
            // Chromium would clear the field.
            event.preventDefault();
            field.current?.blur();
          } else if (event.key === 'Enter' || event.key === 'ArrowDown') {
            event.preventDefault();
            // The list must show the results before it gets the focus.
            flushSync(search);
            onLeave();
          }
        }}
      />
      <span className="search-field-key" aria-hidden="true">
        <kbd>/</kbd>
      </span>
    </div>
  );
}
