import type { ReactNode } from 'react';
import { LineButton } from '../../parts/button.tsx';
import { useFold } from './use-fold.ts';
import './fold.css';

/** One line that opens. What is inside is made only then: most of a long transcript is never looked into. */
export function Fold({
  name,
  head,
  children,
}: {
  /** Of its own in the transcript. */
  readonly name: string;
  readonly head: ReactNode;
  readonly children: () => ReactNode;
}) {
  const [isOpen, toggle] = useFold(name);
  return (
    <div className="fold">
      <LineButton className="fold-head" aria-expanded={isOpen} onClick={toggle}>
        <svg className="fold-mark" viewBox="0 0 8 8" aria-hidden="true">
          <path d="M2.5 1 6 4 2.5 7" />
        </svg>
        {head}
      </LineButton>
      {isOpen && <div className="fold-body">{children()}</div>}
    </div>
  );
}
