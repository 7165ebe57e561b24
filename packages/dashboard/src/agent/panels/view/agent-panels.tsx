import type { AgentStatus } from '@muster/sdk';
import { useSignedIn } from '../../../session/session.ts';
import { SharePanel } from '../../../share/share-panel.tsx';
import { mayCommand } from '../../model/allowed-actions.ts';
import { Changes } from './changes.tsx';
import { Checklist } from './checklist.tsx';
import { Details } from './details.tsx';
import { Output } from './output.tsx';
import { Runs } from './runs.tsx';
import { Tree } from './tree.tsx';
import '../panels.css';

/** The panels beside the transcript. */
export function AgentPanels({ status }: { readonly status: AgentStatus }) {
  const { caller } = useSignedIn();
  // A share link shows one agent, so nothing links to other pages or agents.
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
