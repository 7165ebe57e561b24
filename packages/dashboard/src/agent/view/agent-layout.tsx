import type { AgentStatus } from '@muster/sdk';
import { isTerminal, pathOf, statusAge, statusText } from '@muster/sdk/contract';
import { type ReactNode, useState } from 'react';
import { attentionOf } from '../../live/model/attention.ts';
import { StatusIcon } from '../../live/status-icon.tsx';
import { ViewSwitch } from '../../parts/button.tsx';
import { Age, useNow, wholeTime } from '../../parts/times.tsx';
import { explanationOf, isLiveRun } from '../model/status-text.ts';
import '../agent.css';
import '../composer.css';
import '../queue.css';

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

export interface StatusProps {
  readonly status: AgentStatus;
  readonly children?: ReactNode;
}

/** The status and its age. Screen readers announce a change of the status, not of the age. */
export function StatusLine({ status, children }: StatusProps) {
  const { phaseSince } = status;
  const now = useNow();
  const age = statusAge(status, now);
  return (
    <p className="status-line wrap">
      <StatusIcon attention={attentionOf(status, false)} />
      <strong>{statusText(status, now)}</strong>
      {age !== '' && (
        <time dateTime={phaseSince} title={wholeTime(phaseSince)}>
          {age}
        </time>
      )}
      {children}
      <span className="visually-hidden" role="status">
        {`${pathOf(status.agentId)} ${statusText(status)}`}
      </span>
    </p>
  );
}

/** What the agent is doing, or why it is not working and what to do about it. */
export function Activity({ status, children }: StatusProps) {
  const { run, phase, phaseReason } = status;
  return (
    <section className="activity" aria-label="Activity" data-live={isLiveRun(run)} data-reason={phaseReason}>
      <span className="activity-spinner" aria-hidden="true" />
      <p dir="auto">
        {phaseReason === 'WORKING' && run?.currentAction ? (
          <code>{run.currentAction}</code>
        ) : (
          explanationOf(status)
        )}
        {isTerminal(phase) && <span> The agent accepts no more messages.</span>}
      </p>
      {run && isLiveRun(run) && (
        <span className="activity-run secondary">
          run {run.runId} for <Age since={run.startedAt} />
          <span className="activity-runner"> on {run.runnerId}</span>
        </span>
      )}
      {children}
    </section>
  );
}
