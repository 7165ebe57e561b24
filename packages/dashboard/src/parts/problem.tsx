import { ConnectionError, InvalidArgumentError, MusterError } from '@muster/sdk';
import type { ReactNode } from 'react';
import './problem.css';

/** What went wrong, in a sentence that says what to do next. */
export function problemOf(error: unknown): string {
  if (error instanceof ConnectionError) return 'The service did not answer. Try again in a moment.';
  if (error instanceof MusterError || error instanceof Error) return error.message;
  return String(error);
}

/** The complaint about one field of a request, if the error is one. */
export const fieldProblem = (error: unknown, field: string): string | undefined =>
  error instanceof InvalidArgumentError
    ? error.fieldViolations.find((violation) => violation.field === field)?.description
    : undefined;

export function Problem({ error, children }: { readonly error: unknown; readonly children?: ReactNode }) {
  if (error === null || error === undefined) return null;
  return (
    <div className="problem" role="alert">
      <p>{problemOf(error)}</p>
      {children}
    </div>
  );
}
