import { type Kind, proseOf } from '@muster/sdk/contract';
import { useMemo } from 'react';
import { Button } from '../../parts/button.tsx';
import { schemaOf } from '../model/document-schema.ts';
import { fieldsIn, formFields, withField } from '../model/form.ts';
import type { useCheckedText } from './document-editor.tsx';
import { FormInput, labelOf } from './form-inputs.tsx';
import { useWords } from './use-check.ts';

const Warning = ({ text }: { readonly text: string }) => <span className="form-warning">{text}</span>;

interface DocumentFormProps {
  readonly kind: Kind;
  readonly name: string;
  readonly text: string;
  readonly checked: ReturnType<typeof useCheckedText>;
  readonly onChange: (text: string) => void;
  readonly onText: () => void;
  readonly isReadOnly: boolean;
}

/** A form over the text of a document: a change of a field changes only its part of the text. */
export function DocumentForm({ kind, name, text, checked, onChange, onText, isReadOnly }: DocumentFormProps) {
  const words = useWords(kind);
  const fields = useMemo(() => fieldsIn(kind, text), [kind, text]);
  const { common, further } = formFields(kind);
  if (fields === null)
    return (
      <div className="document-form stack">
        <p>The text has errors. Fix them there to use the form.</p>
        <Button onClick={onText}>Edit in text</Button>
      </div>
    );
  const change = (field: string, value: unknown) => {
    const next = withField(kind, name, text, field, value);
    if (next === null) onText();
    else onChange(next);
  };
  const input = (field: string) => {
    const schema = schemaOf(kind).properties?.[field] ?? {};
    const { error, warning } = checked.saidOf(field);
    return (
      <FormInput
        key={field}
        field={field}
        label={labelOf(field)}
        hint={warning === undefined ? (schema.description ?? '') : <Warning text={warning} />}
        error={error}
        schema={schema}
        value={fields[field] ?? undefined}
        isProse={field === proseOf(kind)}
        words={words}
        onChange={(value) => change(field, value)}
        onText={onText}
      />
    );
  };
  return (
    <fieldset className="document-form stack" disabled={isReadOnly}>
      <legend className="visually-hidden">Settings of {name}</legend>
      {common.map(input)}
      {further.length > 0 && (
        <details open={further.some((field) => fields[field] !== undefined)}>
          <summary>More settings</summary>
          <div className="stack">{further.map(input)}</div>
        </details>
      )}
    </fieldset>
  );
}
