import { Field } from './field.tsx';

/** How long something is to work: a span from now on, until a time of one's own, or without end. */
export interface Expiry {
  /** In milliseconds; `at` for the time beside it, `never` for no end. */
  readonly span: string;
  /** As `<input type="datetime-local">` has it. */
  readonly at: string;
}

const dayMs = 86_400_000;
const spans: readonly (readonly [span: string, words: string])[] = [
  [String(dayMs / 24), '1 hour'],
  [String(dayMs), '1 day'],
  [String(7 * dayMs), '7 days'],
  [String(30 * dayMs), '30 days'],
  [String(90 * dayMs), '90 days'],
  ['at', 'Until …'],
  ['never', 'No end'],
];

export const expiryInDays = (days: number): Expiry => ({ span: String(days * dayMs), at: '' });

/** The time as the service takes it; null for no end, undefined while the time is not given yet. */
export function expiresAt({ span, at }: Expiry, now = Date.now()): string | null | undefined {
  if (span === 'never') return null;
  if (span !== 'at') return new Date(now + Number(span)).toISOString();
  return at === '' ? undefined : new Date(at).toISOString();
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
      <Field label="Works for" error={value.span === 'at' ? undefined : error}>
        {(attributes) => (
          <select
            {...attributes}
            value={value.span}
            onChange={(event) => onChange({ ...value, span: event.target.value })}
          >
            {spans.map(([span, words]) => (
              <option key={span} value={span}>
                {words}
              </option>
            ))}
          </select>
        )}
      </Field>
      {value.span === 'at' && (
        <Field label="Until" error={error} hint="In your local time.">
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
