import { limits } from '@muster/sdk/contract';
import { Field } from '../parts/field.tsx';
import { fieldProblem } from '../parts/problem.tsx';
import { useSignedIn } from '../session/session.ts';
import { needsReason } from './permit.ts';

/** Why something is changed. It goes on record; an operator can't do without. */
export function ReasonField({
  value,
  onChange,
  error,
}: {
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly error: unknown;
}) {
  const isNeeded = needsReason(useSignedIn().caller);
  return (
    <Field
      label={isNeeded ? 'Why' : 'Why (optional)'}
      hint={isNeeded ? 'An operator’s change needs a reason. It goes on record.' : 'It goes on record.'}
      error={fieldProblem(error, 'justification')}
    >
      {(attributes) => (
        <input
          {...attributes}
          value={value}
          onChange={(event) => onChange(event.target.value)}
          maxLength={limits.justificationLength}
          autoComplete="off"
        />
      )}
    </Field>
  );
}
