import type { AgentId } from '@muster/sdk';
import { pathOf, statusText } from '@muster/sdk/contract';
import { useState } from 'react';
import { Activity } from '../agent/activity.tsx';
import { AgentPanels } from '../agent/panels/agent-panels.tsx';
import { isLiveRun } from '../agent/panels/run-words.ts';
import { Standing } from '../agent/standing.tsx';
import { Transcript } from '../agent/transcript/transcript.tsx';
import { useStatus } from '../agent/use-status.ts';
import { type AgentView, agentViews } from '../agent/views.ts';
import iconUrl from '../icon.svg';
import { ViewSwitch } from '../parts/button.tsx';
import { Markdown } from '../parts/markdown.tsx';
import { useTitle } from '../parts/page.tsx';
import { Moment } from '../parts/times.tsx';
import { useClient } from '../session/use-session.ts';
import { ThemeChoice } from '../shell/account-menu.tsx';
import { ConnectionBanner } from '../shell/connection-banner.tsx';
import '../agent/agent-frame.css';
import './shared-agent.css';

/** One agent, to look at: live, and without anything to press that would change it. */
export function SharedAgent({
  agentId,
  until,
}: {
  readonly agentId: AgentId;
  readonly until: string | null;
}) {
  const client = useClient();
  const { query, refreshSoon } = useStatus(agentId);
  const [view, setView] = useState<AgentView>('transcript');
  const status = query.data;
  useTitle([pathOf(agentId), status && statusText(status), 'Muster'].filter(Boolean).join(' · '));
  return (
    <div className="agent-frame shared-agent" data-view={view}>
      <header>
        <img src={iconUrl} alt="Muster" width="24" height="24" />
        <h1>{pathOf(agentId)}</h1>
        {status && <Standing status={status} />}
        <p className="shared-until">
          {until === null ? (
            'Shared with you until the link is revoked'
          ) : (
            <>
              Shared with you until <Moment at={until} />
            </>
          )}
          . You can look, and change nothing.
        </p>
        <ThemeChoice />
      </header>
      <ConnectionBanner />
      <ViewSwitch views={agentViews} view={view} onChoose={setView} />
      <main className="agent-columns">
        <div className="agent-log">
          <Transcript agentId={agentId} client={client} onEntries={refreshSoon} isLinked={false} />
        </div>
        <aside className="agent-side" aria-label="About this agent">
          {status && status.description !== '' && <Task text={status.description} />}
          {status && <AgentPanels status={status} />}
        </aside>
        <div className="agent-foot">
          {status?.run && isLiveRun(status.run) && <Activity status={status} />}
        </div>
      </main>
    </div>
  );
}

const Task = ({ text }: { readonly text: string }) => (
  // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached from the keyboard.
  <section className="shared-task" tabIndex={0} aria-label="What it was asked to do">
    <Markdown text={text} />
  </section>
);
