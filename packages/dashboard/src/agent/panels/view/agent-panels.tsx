import type { AgentStatus } from '@muster/sdk';
import { mayCommand } from '../../../live/model/allowed-actions.ts';
import { useSignedIn } from '../../../session/session.ts';
import { SharePanel } from '../../../share/share-panel.tsx';
import { Budgets } from './budgets.tsx';
import { Changes } from './changes.tsx';
import { Checklist } from './checklist.tsx';
import { Details } from './details.tsx';
import { Output } from './output.tsx';
import { useIsLinked } from './panel.tsx';
import { Plan } from './plan.tsx';
import { Runs } from './runs.tsx';
import { Tree } from './tree.tsx';
import '../panels.css';
import '../changes.css';
import '../../review/review.css';

export function AgentPanels({ status }: { readonly status: AgentStatus }) {
  const { caller } = useSignedIn();
  return (
    <>
      <Checklist status={status} />
      <Plan status={status} />
      <Changes status={status} />
      <Runs status={status} />
      {useIsLinked() && <Tree status={status} />}
      <Budgets status={status} />
      <Output status={status} />
      <Details status={status} />
      {mayCommand(caller, status.agentId) && <SharePanel status={status} />}
    </>
  );
}
