import { type ReactNode, useState } from 'react';
import { ViewSwitch } from '../../parts/button.tsx';
import '../agent.css';

const views = [
  ['transcript', 'Transcript'],
  ['panels', 'Tasks and more'],
] as const;

/** Transcript, panels and footer. A narrow window shows either the transcript or the panels. */
export function AgentLayout({
  className = '',
  header,
  transcript,
  panels,
  footer,
  columns: Columns = 'div',
}: {
  readonly className?: string;
  readonly header: ReactNode;
  readonly transcript: ReactNode;
  readonly panels: ReactNode;
  readonly footer: ReactNode;
  readonly columns?: 'div' | 'main';
}) {
  const [view, setView] = useState<(typeof views)[number][0]>('transcript');
  return (
    <div className={`agent-layout ${className}`} data-view={view}>
      {header}
      <ViewSwitch views={views} view={view} onChoose={setView} />
      <Columns className="agent-columns">
        <div className="agent-transcript">{transcript}</div>
        <aside className="agent-side" aria-label="About this agent">
          {panels}
        </aside>
        <div className="agent-footer">{footer}</div>
      </Columns>
    </div>
  );
}
