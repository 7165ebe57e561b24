import { ConnectionError, InvalidArgumentError, MusterError } from '@muster/sdk';
import { Component, createElement, type ReactNode } from 'react';

/** The error as text for a person. */
export function problemText(error: unknown): string {
  if (error instanceof ConnectionError) return 'The service is unavailable. Try again in a moment.';
  if (error instanceof MusterError || error instanceof Error) return error.message;
  return String(error);
}

/** The service's error about one field of the request, if there is one. */
export const fieldProblem = (error: unknown, field: string): string | undefined =>
  error instanceof InvalidArgumentError
    ? error.fieldViolations.find((violation) => violation.field === field)?.description
    : undefined;

/** What the service writes between backticks is code. */
const paragraphOf = (text: string): ReactNode =>
  createElement(
    'p',
    { dir: 'auto' },
    ...text.split('`').map((part, at) => (at % 2 === 1 ? createElement('code', null, part) : part)),
  );

export function Problem({ error, children }: { readonly error: unknown; readonly children?: ReactNode }) {
  if (error === null || error === undefined) return null;
  return (
    <div className="problem wrap" role="alert">
      {paragraphOf(problemText(error))}
      {children}
    </div>
  );
}

interface Props {
  readonly fallback: ReactNode;
  /** The children are rendered again when this value changes. */
  readonly resetBy?: unknown;
  readonly children: ReactNode;
}

interface State {
  readonly hasFailed: boolean;
  readonly resetBy: unknown;
}

/** Limits a rendering error to one part of the page. */
export class ErrorBoundary extends Component<Props, State> {
  override state: State = { hasFailed: false, resetBy: this.props.resetBy };

  static getDerivedStateFromError(): Partial<State> {
    return { hasFailed: true };
  }

  static getDerivedStateFromProps({ resetBy }: Props, state: State): State | null {
    return resetBy === state.resetBy ? null : { hasFailed: false, resetBy };
  }

  override render(): ReactNode {
    return this.state.hasFailed ? this.props.fallback : this.props.children;
  }
}
