import type { AgentStatus, CurrentRun } from '@muster/sdk';
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
      {isAtWork && <RunFacts run={run} />}
      {children}
    </section>
  );
}

/** The beginning of a runner's id tells it from its neighbours. */
const RunFacts = ({ run }: { readonly run: CurrentRun }) => (
  <span className="activity-run">
    run {run.runId} for <Age since={run.startedAt} />
    {run.runnerId !== '' && <span title={run.runnerId}> on runner {run.runnerId.slice(0, 8)}</span>}
  </span>
);
