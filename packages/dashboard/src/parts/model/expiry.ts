/** When something expires: after a time span, at a chosen time, or never. */
export interface Expiry {
  /** In milliseconds; `at` for the chosen time, `never` for no expiry. */
  readonly span: string;
  /** As `<input type="datetime-local">` has it. */
  readonly at: string;
}

const dayMs = 86_400_000;
export const expirySpans: readonly (readonly [span: string, title: string])[] = [
  [String(dayMs / 24), '1 hour'],
  [String(dayMs), '1 day'],
  [String(7 * dayMs), '7 days'],
  [String(30 * dayMs), '30 days'],
  [String(90 * dayMs), '90 days'],
  ['at', 'Custom …'],
  ['never', 'Never'],
];

export const expiryInDays = (days: number): Expiry => ({ span: String(days * dayMs), at: '' });

/** The time for the service; null for never, undefined while the custom time is empty. */
export function expiresAt({ span, at }: Expiry, now = Date.now()): string | null | undefined {
  if (span === 'never') return null;
  if (span !== 'at') return new Date(now + Number(span)).toISOString();
  return at === '' ? undefined : new Date(at).toISOString();
}
