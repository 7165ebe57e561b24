import { type ReactNode, useId, useSyncExternalStore } from 'react';
import { LineButton } from '../../../parts/button.tsx';
import { ErrorBoundary } from '../../../parts/problem.tsx';

/** A collapsible section with a summary in its heading. */
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
  const [isOpen, setOpen] = useOpenPanel(title, isOpenAtFirst);
  const titleId = useId();
  const bodyId = useId();
  return (
    <section className="panel" aria-labelledby={titleId}>
      <h2>
        <LineButton aria-expanded={isOpen} aria-controls={bodyId} onClick={() => setOpen(!isOpen)}>
          <ExpandIcon />
          <span id={titleId}>{title}</span>
          {summary !== undefined && <span className="panel-summary">{summary}</span>}
        </LineButton>
      </h2>
      <div id={bodyId} className="panel-body" hidden={!isOpen}>
        {isOpen && (
          <ErrorBoundary fallback={<p className="panel-empty">This panel can't be displayed.</p>}>
            {children}
          </ErrorBoundary>
        )}
      </div>
    </section>
  );
}

/** Points down while the button around it is expanded. */
export const ExpandIcon = () => (
  <svg className="expand-icon" viewBox="0 0 12 12" width="10" height="10" aria-hidden="true">
    <path d="M3.5 1.5 8.5 6l-5 4.5" fill="none" stroke="currentColor" strokeWidth="1.6" />
  </svg>
);

/** A text that may be long and scrolls by itself. */
export const PanelText = ({ label, children }: { readonly label: string; readonly children: ReactNode }) => (
  // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable area must be reachable by keyboard.
  <section className="panel-text" tabIndex={0} aria-label={label}>
    {children}
  </section>
);

/** The panels that the user opened or closed, for all agents, kept in the browser. */
const storageKey = 'muster.panels';
const listeners = new Set<() => void>();
let chosen: Readonly<Record<string, boolean>> = storedChoices();

function storedChoices(): Readonly<Record<string, boolean>> {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(storageKey) ?? '{}');
    return typeof stored === 'object' && stored !== null ? (stored as Record<string, boolean>) : {};
  } catch {
    return {};
  }
}

const subscribe = (listener: () => void): (() => void) => {
  listeners.add(listener);
  return () => listeners.delete(listener);
};

function useOpenPanel(name: string, isOpenAtFirst: boolean): [boolean, (isOpen: boolean) => void] {
  const isOpen = useSyncExternalStore(subscribe, () => chosen[name] ?? isOpenAtFirst);
  const setOpen = (next: boolean) => {
    chosen = { ...chosen, [name]: next };
    localStorage.setItem(storageKey, JSON.stringify(chosen));
    for (const listener of listeners) listener();
  };
  return [isOpen, setOpen];
}
