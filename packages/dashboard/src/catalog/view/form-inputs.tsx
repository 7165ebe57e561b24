import type { Schema } from '@muster/sdk/contract';
import { type ReactNode, useId, useState } from 'react';
import { Button } from '../../parts/button.tsx';
import { ChoiceField, SuggestionField, TextField } from '../../parts/field.tsx';
import { valuesOf } from '../model/document-schema.ts';
import type { Words } from '../model/editor.ts';
import { fitsInput, type Input, inputFor, rowFields, type Source, sourceOf, sources } from '../model/form.ts';

export interface FormInputProps {
  readonly label: string;
  readonly hint: ReactNode;
  readonly error: string | undefined;
  readonly field: string;
  readonly schema: Schema;
  readonly value: unknown;
  readonly isProse?: boolean;
  readonly words: Words;
  /** Undefined removes the field. */
  readonly onChange: (value: unknown) => void;
  readonly onText: () => void;
}

/** The input that fits a schema. */
export function FormInput(props: FormInputProps) {
  const { field, schema, value, isProse = false, label, hint, onText } = props;
  const input = inputFor(field, schema, isProse);
  if (input === 'text' || !fitsInput(input, value, schema))
    return (
      <div className="field stack">
        <p className="form-label">{label}</p>
        <Button onClick={onText}>Edit in text</Button>
        <p className="field-hint">{hint}</p>
      </div>
    );
  const Shown = inputs[input];
  return <Shown {...props} />;
}

/**
 * What is typed, as long as it means the stored value: a line that is being typed is empty for a moment, and a number
 * ends with a dot.
 */
function useTyped<R>(value: unknown, read: (typed: R) => unknown, write: (value: unknown) => R) {
  const [typed, setTyped] = useState(() => write(value));
  const isCurrent = JSON.stringify(read(typed)) === JSON.stringify(value);
  return [isCurrent ? typed : write(value), setTyped] as const;
}

const textOf = (value: unknown): string => (value === undefined || value === null ? '' : String(value));
const orAbsent = (text: string): string | undefined => (text === '' ? undefined : text);

function StringInput({ label, hint, error, value, onChange }: FormInputProps) {
  const texts = { label, hint, error, isCode: true };
  return <TextField {...texts} value={textOf(value)} onChange={(text) => onChange(orAbsent(text))} />;
}

function ProseInput({ label, hint, error, value, onChange }: FormInputProps) {
  const [typed, setTyped] = useTyped(value, (text: string) => text.trim() || undefined, textOf);
  return (
    <TextField
      {...{ label, hint, error }}
      rows={14}
      dir="auto"
      value={typed}
      onChange={(text) => {
        setTyped(text);
        onChange(text.trim() || undefined);
      }}
    />
  );
}

const numberIn = (text: string): unknown =>
  text.trim() === '' ? undefined : Number.isNaN(Number(text)) ? text : Number(text);

function NumberInput({ label, hint, error, value, onChange }: FormInputProps) {
  const [typed, setTyped] = useTyped(value, numberIn, textOf);
  return (
    <TextField
      {...{ label, hint, error }}
      inputMode="decimal"
      isCode
      value={typed}
      onChange={(text) => {
        setTyped(text);
        onChange(numberIn(text));
      }}
    />
  );
}

function ChoiceInput({ label, hint, error, schema, value, onChange }: FormInputProps) {
  const read = (text: string): unknown =>
    text === '' ? undefined : schema.type === 'boolean' ? text === 'true' : text;
  return (
    <ChoiceField
      {...{ label, hint, error }}
      none="Default"
      values={valuesOf(schema)}
      value={textOf(value)}
      onChange={(text) => onChange(read(text))}
    />
  );
}

function NameInput({ label, hint, error, field, schema, words, value, onChange }: FormInputProps) {
  return (
    <SuggestionField
      {...{ label, hint, error }}
      placeholder="Default"
      suggestions={words(field, schema)}
      value={textOf(value)}
      onChange={(text) => onChange(orAbsent(text.trim()))}
    />
  );
}

const secretSchema: Schema = { type: 'string', names: 'secret' };

function SecretInput({ label, hint, error, words, value, onChange }: FormInputProps) {
  const [, name = ''] = sourceOf(value) ?? [];
  return (
    <SuggestionField
      {...{ label, hint, error }}
      placeholder="Name of a secret"
      suggestions={words('fromSecret', secretSchema)}
      value={name}
      onChange={(text) => onChange(text.trim() === '' ? undefined : { fromSecret: text.trim() })}
    />
  );
}

const linesIn = (text: string): unknown => {
  const lines = text
    .split('\n')
    .map((line) => line.trim())
    .filter(Boolean);
  return lines.length === 0 ? undefined : lines;
};

function LinesInput({ label, hint, error, value, onChange }: FormInputProps) {
  const write = (value: unknown) => (Array.isArray(value) ? value.join('\n') : '');
  const [typed, setTyped] = useTyped(value, linesIn, write);
  return (
    <TextField
      {...{ label, error }}
      hint={<>{hint} One per line.</>}
      rows={Math.min(8, Math.max(2, typed.split('\n').length + 1))}
      isCode
      value={typed}
      onChange={(text) => {
        setTyped(text);
        onChange(linesIn(text));
      }}
    />
  );
}

type Row = Readonly<Record<string, string>>;

/** Entries with a few fields each. One with only the first field is written as a text. */
function RowsInput({ label, hint, error, schema, value, onChange }: FormInputProps) {
  const columns = rowFields(schema.items ?? {});
  const first = columns[0]?.[0] ?? '';
  const write = (value: unknown): readonly Row[] =>
    Array.isArray(value)
      ? value.map((entry) => (typeof entry === 'string' ? { [first]: entry } : entry))
      : [];
  const read = (rows: readonly Row[]): unknown => {
    const entries = rows.map((row, at) => entryOf(row, first, Array.isArray(value) ? value[at] : undefined));
    const filled = entries.filter((entry) => entry !== undefined);
    return filled.length === 0 ? undefined : filled;
  };
  const [rows, setRows] = useTyped(value, read, write);
  const change = (next: readonly Row[]) => {
    setRows(next);
    onChange(read(next));
  };
  return (
    <RowList
      {...{ label, hint, error }}
      count={rows.length}
      onAdd={() => change([...rows, {}])}
      onRemove={(at) => change(rows.filter((_, other) => other !== at))}
    >
      {(at) =>
        columns.map(([name, { description = '' }]) => (
          <TextField
            key={name}
            label={labelOf(name)}
            title={description}
            isCode
            value={rows[at]?.[name] ?? ''}
            onChange={(text) =>
              change(rows.map((row, other) => (other === at ? { ...row, [name]: text.trim() } : row)))
            }
          />
        ))
      }
    </RowList>
  );
}

/** As it was written, if it says the same. */
function entryOf(row: Row, first: string, before: unknown): unknown {
  const filled = Object.fromEntries(Object.entries(row).filter(([, text]) => text !== ''));
  const names = Object.keys(filled);
  if (names.length === 0) return undefined;
  const isText =
    names.length === 1 && names[0] === first && (before === undefined || typeof before === 'string');
  return isText ? filled[first] : filled;
}

interface Given {
  readonly name: string;
  readonly source: Source;
  readonly text: string;
}

const sourceTitles: Readonly<Record<Source, string>> = {
  value: 'Value',
  fromSecret: 'Secret',
  fromRunner: 'Runner variable',
};

/** Values by name, each written here or taken from somewhere else. */
function ValuesInput({ label, hint, error, words, value, onChange }: FormInputProps) {
  const write = (value: unknown): readonly Given[] =>
    Object.entries((value ?? {}) as object).map(([name, given]) => {
      const [source, text] = sourceOf(given) ?? (['value', ''] as const);
      return { name, source, text };
    });
  const read = (rows: readonly Given[]): unknown => {
    const filled = rows.filter(({ name }) => name !== '');
    const entries = filled.map(({ name, source, text }) => [
      name,
      source === 'value' ? text : { [source]: text },
    ]);
    return entries.length === 0 ? undefined : Object.fromEntries(entries);
  };
  const [rows, setRows] = useTyped(value, read, write);
  const change = (next: readonly Given[]) => {
    setRows(next);
    onChange(read(next));
  };
  const update = (at: number, part: Partial<Given>) =>
    change(rows.map((row, other) => (other === at ? { ...row, ...part } : row)));
  return (
    <RowList
      {...{ label, hint, error }}
      count={rows.length}
      onAdd={() => change([...rows, { name: '', source: 'value', text: '' }])}
      onRemove={(at) => change(rows.filter((_, other) => other !== at))}
    >
      {(at) => {
        const { name = '', source = 'value', text = '' } = rows[at] ?? {};
        return (
          <>
            <TextField
              label="Name"
              isCode
              value={name}
              onChange={(name) => update(at, { name: name.trim() })}
            />
            <ChoiceField
              label="From"
              none={sourceTitles.value}
              values={sources.slice(1).map((source) => sourceTitles[source])}
              value={source === 'value' ? '' : sourceTitles[source]}
              onChange={(title) =>
                update(at, { source: sources.find((source) => sourceTitles[source] === title) ?? 'value' })
              }
            />
            <SuggestionField
              label={sourceTitles[source]}
              suggestions={source === 'fromSecret' ? words('fromSecret', secretSchema) : []}
              value={text}
              onChange={(text) => update(at, { text })}
            />
          </>
        );
      }}
    </RowList>
  );
}

interface RowListProps {
  readonly label: string;
  readonly hint: ReactNode;
  readonly error: string | undefined;
  readonly count: number;
  readonly onAdd: () => void;
  readonly onRemove: (at: number) => void;
  readonly children: (at: number) => ReactNode;
}

function RowList({ label, hint, error, count, onAdd, onRemove, children }: RowListProps) {
  const noteId = useId();
  return (
    <fieldset className="form-rows stack" aria-describedby={noteId}>
      <legend>{label}</legend>
      <p id={noteId} className={error === undefined ? 'field-hint' : 'field-error'}>
        {error ?? hint}
      </p>
      {Array.from({ length: count }, (_, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a row has no other identity than its index.
        <div key={at} className="form-row">
          {children(at)}
          <Button
            look="quiet"
            aria-label={`Remove ${label.toLowerCase()} ${at + 1}`}
            onClick={() => onRemove(at)}
          >
            Remove
          </Button>
        </div>
      ))}
      <Button onClick={onAdd}>Add</Button>
    </fieldset>
  );
}

/** The fields of an object. */
function GroupInput({ label, hint, error, schema, value, ...props }: FormInputProps) {
  const fields = (value ?? {}) as Readonly<Record<string, unknown>>;
  const change = (name: string, inner: unknown) => {
    const next = Object.entries({ ...fields, [name]: inner }).filter(([, value]) => value !== undefined);
    props.onChange(next.length === 0 ? undefined : Object.fromEntries(next));
  };
  return (
    <fieldset className="form-group stack">
      <legend>{label}</legend>
      <p className={error === undefined ? 'field-hint' : 'field-error'}>{error ?? hint}</p>
      <div className="form-row">
        {Object.entries(schema.properties ?? {}).map(([name, inner]) => (
          <FormInput
            key={name}
            {...props}
            field={name}
            label={labelOf(name)}
            hint={inner.description ?? ''}
            error={undefined}
            schema={inner}
            value={fields[name]}
            onChange={(value) => change(name, value)}
          />
        ))}
      </div>
    </fieldset>
  );
}

const inputs: Readonly<Record<Exclude<Input, 'text'>, (props: FormInputProps) => ReactNode>> = {
  choice: ChoiceInput,
  group: GroupInput,
  lines: LinesInput,
  model: NameInput,
  name: NameInput,
  number: NumberInput,
  prose: ProseInput,
  rows: RowsInput,
  secret: SecretInput,
  string: StringInput,
  values: ValuesInput,
};

const labels: Readonly<Record<string, string>> = { repos: 'Repositories', allowHosts: 'Allowed hosts' };

/** `baseBranch` → `Base branch`. */
export function labelOf(field: string): string {
  if (labels[field] !== undefined) return labels[field];
  const words = field
    .replace(/(Id|Url)$/, (end) => ` ${end}`)
    .replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
  const text = words.replace(/\s+/g, ' ').replace(/\b(url|id|mcp|ci)\b/g, (short) => short.toUpperCase());
  return text.charAt(0).toUpperCase() + text.slice(1);
}
