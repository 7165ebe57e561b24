import { Component, type ReactNode } from 'react';

interface Props {
  readonly fallback: ReactNode;
  /** Another value of this tries again. */
  readonly resetBy?: unknown;
  readonly children: ReactNode;
}

interface State {
  readonly hasFailed: boolean;
  readonly resetBy: unknown;
}

/** Keeps an error in one part of the page from blanking the whole of it. */
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
