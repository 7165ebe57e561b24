import { type ReactNode, useId } from 'react';
import { LineButton } from '../../parts/button.tsx';
import { ErrorBoundary } from '../../parts/problem.tsx';
import { useOpenPanel } from './open-panels.ts';
import './panel.css';

/** One part of what is known of an agent. Folded, it says the most important thing of it in its title. */
export function Panel({
  title,
  summary,
  isOpenAtFirst = false,
  children,
}: {
  readonly title: string;
  readonly summary?: ReactNode;
  readonly isOpenAtFirst?: boolean;
  readonly children: ReactNode;
}) {
  const [isOpen, choose] = useOpenPanel(title, isOpenAtFirst);
  const titleId = useId();
  const bodyId = useId();
  return (
    <section className="panel" aria-labelledby={titleId}>
      <h2>
        <LineButton aria-expanded={isOpen} aria-controls={bodyId} onClick={() => choose(!isOpen)}>
          <svg viewBox="0 0 12 12" width="10" height="10" aria-hidden="true">
            <path d="M3.5 1.5 8.5 6l-5 4.5" fill="none" stroke="currentColor" strokeWidth="1.6" />
          </svg>
          <span id={titleId}>{title}</span>
          {summary !== undefined && <span className="panel-summary">{summary}</span>}
        </LineButton>
      </h2>
      <div id={bodyId} className="panel-body" hidden={!isOpen}>
        {isOpen && (
          <ErrorBoundary fallback={<p className="panel-empty">This part can't be shown.</p>}>
            {children}
          </ErrorBoundary>
        )}
      </div>
    </section>
  );
}
