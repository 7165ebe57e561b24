import type { AgentStatus } from '@muster/sdk';
import { useSignedIn } from '../../session/session.ts';
import { SharePanel } from '../../share/share-panel.tsx';
import { mayCommand } from '../may-command.ts';
import { Changes } from './changes.tsx';
import { Checklist } from './checklist.tsx';
import { Details } from './details.tsx';
import { Output } from './output.tsx';
import { Runs } from './runs.tsx';
import { Tree } from './tree.tsx';

/** What stands beside the transcript: everything else that is known of an agent. */
export function AgentPanels({ status }: { readonly status: AgentStatus }) {
  const { caller } = useSignedIn();
  // Whoever came by a share link sees this one agent: nothing leads to another page, nor to other agents.
  const isLinked = caller.role !== 'share';
  return (
    <div className="agent-panels">
      <Checklist status={status} />
      <Changes status={status} isLinked={isLinked} />
      <Runs status={status} isLinked={isLinked} />
      {isLinked && <Tree status={status} />}
      <Output status={status} />
      <Details status={status} isLinked={isLinked} />
      {mayCommand(caller, status.agentId) && <SharePanel status={status} />}
    </div>
  );
}
