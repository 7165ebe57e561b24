import type { AgentStatus } from '@muster/sdk';
import { isTerminal } from '@muster/sdk/contract';
import type { ReactNode } from 'react';
import { Age } from '../parts/times.tsx';
import { nextStepOf } from './next-step.ts';
import './activity.css';

/** What the agent does at this moment, or why it does nothing and what would help. */
export function Activity({
  status,
  children,
}: {
  readonly status: AgentStatus;
  readonly children?: ReactNode;
}) {
  const { run, phase, phaseReason } = status;
  const isAtWork = run !== null && run.state !== 'ENDED';
  return (
    <section
      className="activity"
      aria-label="What it does now"
      data-live={isAtWork}
      data-reason={phaseReason}
    >
      <span className="activity-pulse" aria-hidden="true" />
      <p>
        {phaseReason === 'WORKING' && run?.currentAction ? (
          <code>{run.currentAction}</code>
        ) : (
          nextStepOf(status).sentence
        )}
        {isTerminal(phase) && <span> It takes no more messages.</span>}
      </p>
      {isAtWork && (
        <span className="activity-run">
          run {run.runId} for <Age since={run.startedAt} />
          <span className="activity-runner"> on {run.runnerId}</span>
        </span>
      )}
      {children}
    </section>
  );
}
