import {
  type ComponentProps,
  type ReactNode,
  type Ref,
  type RefObject,
  useEffect,
  useId,
  useRef,
  useState,
} from 'react';
import { flushSync } from 'react-dom';
import { Button } from './button.tsx';
import { type Expiry, expirySpans } from './model/expiry.ts';
import { schemaProblem } from './model/json-problem.ts';

interface FieldTexts {
  readonly label: string;
  readonly hint?: ReactNode;
  readonly error?: string | undefined;
}

/** A labelled input. `children` gets the attributes that connect the input to its label, hint and error. */
export function Field({
  label,
  hint,
  error,
  children,
}: FieldTexts & {
  readonly children: (attributes: {
    readonly id: string;
    readonly 'aria-describedby': string;
    readonly 'aria-invalid': boolean;
  }) => ReactNode;
}) {
  const id = useId();
  const noteId = useId();
  return (
    <div className="field stack">
      <label htmlFor={id}>{label}</label>
      {children({ id, 'aria-describedby': noteId, 'aria-invalid': error !== undefined })}
      <p id={noteId} className={error === undefined ? 'field-hint' : 'field-error'}>
        {error ?? hint}
      </p>
    </div>
  );
}

type InputProps = ComponentProps<'input'> & Omit<ComponentProps<'textarea'>, 'ref'>;

interface TextFieldProps extends FieldTexts, Omit<InputProps, 'onChange' | 'ref'> {
  readonly ref?: Ref<HTMLInputElement>;
  readonly value: string;
  readonly onChange: (value: string) => void;
  /** A name or code: without autocomplete and spell check. */
  readonly isCode?: boolean;
}

/** A text input; a textarea if it has `rows`. */
export function TextField({ label, hint, error, onChange, isCode = false, ref, ...input }: TextFieldProps) {
  const code = isCode
    ? ({ autoComplete: 'off', autoCapitalize: 'none', spellCheck: false } as const)
    : ({ dir: 'auto' } as const);
  const change = (event: { readonly target: { readonly value: string } }) => onChange(event.target.value);
  return (
    <Field label={label} hint={hint} error={error}>
      {(attributes) =>
        input.rows === undefined ? (
          <input ref={ref} {...attributes} {...code} {...input} onChange={change} />
        ) : (
          <textarea {...attributes} {...code} {...input} onChange={change} />
        )
      }
    </Field>
  );
}

/** A text input with suggestions. */
export function SuggestionField({
  suggestions,
  ...field
}: TextFieldProps & { readonly suggestions: readonly string[] }) {
  const listId = useId();
  return (
    <>
      <TextField {...field} list={listId} isCode />
      <datalist id={listId}>
        {suggestions.map((suggestion) => (
          <option key={suggestion} value={suggestion} />
        ))}
      </datalist>
    </>
  );
}

interface SelectFieldProps extends FieldTexts {
  readonly value: string;
  readonly options: readonly (readonly [value: string, title: string])[];
  readonly onChange: (value: string) => void;
}

export const SelectField = ({ value, options, onChange, ...texts }: SelectFieldProps) => (
  <Field {...texts}>
    {(attributes) => (
      <select {...attributes} value={value} onChange={(event) => onChange(event.target.value)}>
        {options.map(([option, title]) => (
          <option key={option} value={option}>
            {title}
          </option>
        ))}
      </select>
    )}
  </Field>
);

/** An optional choice. The current value stays an option while the values load, and when they no longer include it. */
export function ChoiceField({
  none,
  values,
  ...field
}: Omit<SelectFieldProps, 'options'> & {
  /** The option for no value. */
  readonly none: string;
  readonly values: readonly string[];
}) {
  const all = field.value === '' || values.includes(field.value) ? values : [field.value, ...values];
  return <SelectField {...field} options={[['', none], ...all.map((value) => [value, value] as const)]} />;
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

interface SchemaFieldProps {
  readonly value: string;
  readonly onChange: (value: string) => void;
  /** The service's error. */
  readonly error?: string | undefined;
}

/** A JSON Schema for the structured output, checked while the user types. */
export function SchemaField({ value, onChange, error }: SchemaFieldProps) {
  const [isTouched, setTouched] = useState(false);
  const problem = isTouched ? schemaProblem(value) : undefined;
  return (
    <div className="schema-field stack">
      <TextField
        label="Output schema"
        hint="A JSON Schema that the agent's output must match."
        error={problem ?? error}
        rows={value === '' ? 2 : 8}
        isCode
        value={value}
        onChange={(text) => {
          setTouched(true);
          onChange(text);
        }}
      />
      {value.trim() === '' && (
        <Button look="quiet" onClick={() => onChange(example)}>
          Insert an example
        </Button>
      )}
    </div>
  );
}

interface ExpiryFieldProps {
  readonly value: Expiry;
  readonly onChange: (value: Expiry) => void;
  readonly error?: string | undefined;
}

export function ExpiryField({ value, onChange, error }: ExpiryFieldProps) {
  return (
    <div className="field-row">
      <SelectField
        label="Expires"
        error={value.span === 'at' ? undefined : error}
        value={value.span}
        options={expirySpans}
        onChange={(span) => onChange({ ...value, span })}
      />
      {value.span === 'at' && (
        <TextField
          label="Expires at"
          hint="Your local time."
          error={error}
          type="datetime-local"
          value={value.at}
          onChange={(at) => onChange({ ...value, at })}
          required
        />
      )}
    </div>
  );
}

/** The search starts after a pause in typing. */
const searchDelayMs = 150;

interface SearchFieldProps {
  readonly label: string;
  readonly placeholder: string;
  readonly text: string;
  readonly field: RefObject<HTMLInputElement | null>;
  readonly onSearch: (text: string) => void;
  readonly onLeave: () => void;
}

/** The search of a list. Escape leaves the field; Enter and arrow down move the focus into the list. */
export function SearchField({ label, placeholder, text, field, onSearch, onLeave }: SearchFieldProps) {
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
