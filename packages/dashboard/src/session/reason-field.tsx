import { limits } from '@muster/sdk/contract';
import { TextField } from '../parts/field.tsx';
import { fieldProblem } from '../parts/problem.tsx';
import { useSignedIn } from './session.ts';

interface ReasonFieldProps {
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly error: unknown;
}

/** The reason for a change. Operators must give one for each write. */
export function ReasonField({ value, onChange, error }: ReasonFieldProps) {
  const isRequired = useSignedIn().caller.role === 'operator';
  return (
    <TextField
      label={isRequired ? 'Reason' : 'Reason (optional)'}
      hint={isRequired ? 'Required for operators. Recorded in the history.' : 'Recorded in the history.'}
      error={fieldProblem(error, 'justification')}
      value={value}
      onChange={onChange}
      maxLength={limits.justificationLength}
      autoComplete="off"
    />
  );
}
