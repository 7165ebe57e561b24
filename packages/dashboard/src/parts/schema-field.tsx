import { useState } from 'react';
import { Button } from './button.tsx';
import { Field } from './field.tsx';
import { schemaProblem } from './json-problem.ts';
import './schema-field.css';

const example = `{
  "type": "object",
  "properties": {
    "summary": { "type": "string" },
    "passed": { "type": "boolean" }
  },
  "required": ["summary", "passed"]
}
`;

/** A JSON Schema for the structured output, checked while one types. */
export function SchemaField({
  value,
  onChange,
  error,
}: {
  readonly value: string;
  readonly onChange: (value: string) => void;
  /** What the service said of it. */
  readonly error?: string | undefined;
}) {
  const [isTouched, setTouched] = useState(false);
  const problem = isTouched ? schemaProblem(value) : undefined;
  return (
    <div className="schema-field">
      <Field
        label="Output schema"
        hint="A JSON Schema. The agent's answer is then JSON that fits it."
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
          Fill in an example
        </Button>
      )}
    </div>
  );
}
