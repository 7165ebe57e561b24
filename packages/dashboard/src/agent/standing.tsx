import type { AgentStatus } from '@muster/sdk';
import { pathOf, statusAge, statusText } from '@muster/sdk/contract';
import type { ReactNode } from 'react';
import { attentionOf } from '../live/model/attention.ts';
import { StatusIcon } from '../live/status-icon.tsx';
import { useNow, wholeTime } from '../parts/times.tsx';
import './standing.css';

/** How the agent stands, and since when; a change is read out, the passing time is not. */
export function Standing({
  status,
  children,
}: {
  readonly status: AgentStatus;
  readonly children?: ReactNode;
}) {
  const { phaseSince } = status;
  const now = useNow();
  const age = statusAge(status, now);
  return (
    <p className="agent-standing">
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
