import type { AgentStatus } from '@muster/sdk';
import { isTerminal, pathOf, statusAge, statusText } from '@muster/sdk/contract';
import type { ReactNode } from 'react';
import { attentionOf } from '../../live/model/attention.ts';
import { StatusIcon } from '../../live/status-icon.tsx';
import { Age, useNow, wholeTime } from '../../parts/times.tsx';
import { nextStepOf } from '../model/next-step.ts';
import { isLiveRun } from '../model/run-text.ts';

interface StatusProps {
  readonly status: AgentStatus;
  readonly children?: ReactNode;
}

/** The status and its age. Screen readers announce a change of the status, not of the age. */
export function StatusLine({ status, children }: StatusProps) {
  const { phaseSince } = status;
  const now = useNow();
  const age = statusAge(status, now);
  return (
    <p className="status-line">
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
  const isLive = run !== null && isLiveRun(run);
  return (
    <section className="activity" aria-label="Activity" data-live={isLive} data-reason={phaseReason}>
      <span className="activity-spinner" aria-hidden="true" />
      <p>
        {phaseReason === 'WORKING' && run?.currentAction ? (
          <code>{run.currentAction}</code>
        ) : (
          nextStepOf(status).explanation
        )}
        {isTerminal(phase) && <span> It accepts no more messages.</span>}
      </p>
      {isLive && (
        <span className="activity-run">
          run {run.runId} for <Age since={run.startedAt} />
          <span className="activity-runner"> on {run.runnerId}</span>
        </span>
      )}
      {children}
    </section>
  );
}
