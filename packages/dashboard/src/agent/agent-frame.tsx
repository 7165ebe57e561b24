import type { AgentId, AgentStatus, TimelineEntry } from '@muster/sdk';
import { statusText } from '@muster/sdk/contract';
import { useCallback, useRef, useState } from 'react';
import { ViewSwitch } from '../parts/button.tsx';
import { useTitle } from '../parts/page.tsx';
import { useSignedIn } from '../session/session.ts';
import { AgentHeader } from './agent-header.tsx';
import { Dock } from './dock.tsx';
import { KillControl } from './kill-control.tsx';
import { mayCommand } from './may-command.ts';
import { AgentPanels } from './panels/agent-panels.tsx';
import { Transcript } from './transcript/transcript.tsx';
import { useMarkedSeen } from './use-marked-seen.ts';
import { type AgentView, agentViews } from './views.ts';
import './agent-frame.css';

/** The parts of an agent's page and where they stand. The transcript does not wait for the status. */
export function AgentFrame({
  agentId,
  status,
  refreshSoon,
}: {
  readonly agentId: AgentId;
  readonly status: AgentStatus | undefined;
  readonly refreshSoon: () => void;
}) {
  const { client } = useSignedIn();
  const [view, setView] = useState<AgentView>('transcript');
  const [newest, setNewest] = useState('0');
  const onEntries = useCallback(
    (entries: readonly TimelineEntry[]) => {
      setNewest((before) => entries.at(-1)?.sequence ?? before);
      refreshSoon();
    },
    [refreshSoon],
  );
  const name = agentId.agent.at(-1) ?? '';
  useTitle([name, status && statusText(status), 'Muster'].filter(Boolean).join(' · '));
  const life = useLife(status?.createdAt);
  return (
    <div className="agent-frame" data-view={view}>
      {status ? <Head status={status} newest={newest} /> : <h1 className="agent-coming">{name}</h1>}
      <ViewSwitch views={agentViews} view={view} onChoose={setView} />
      <div className="agent-columns">
        <div className="agent-log">
          <Transcript key={life} agentId={agentId} client={client} onEntries={onEntries} />
        </div>
        <aside className="agent-side" aria-label="About this agent">
          {status && <AgentPanels key={life} status={status} />}
        </aside>
        <div className="agent-foot">{status && <Dock key={life} status={status} />}</div>
      </div>
    </div>
  );
}

function Head({ status, newest }: { readonly status: AgentStatus; readonly newest: string }) {
  const { caller } = useSignedIn();
  useMarkedSeen(status, newest);
  return (
    <AgentHeader status={status}>
      {mayCommand(caller, status.agentId) && <KillControl status={status} />}
    </AgentHeader>
  );
}

/** Counts the agents that were at this address while it was looked at: a new one may take the name of one that ended. */
function useLife(createdAt: string | undefined): number {
  const known = useRef({ createdAt, count: 0 });
  const { current } = known;
  if (createdAt !== undefined && createdAt !== current.createdAt) {
    known.current = { createdAt, count: current.createdAt === undefined ? 0 : current.count + 1 };
  }
  return known.current.count;
}
