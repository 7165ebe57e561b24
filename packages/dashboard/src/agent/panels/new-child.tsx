import type { AgentStatus } from '@muster/sdk';
import { isTerminal, limits } from '@muster/sdk/contract';
import { Button } from '../../parts/button.tsx';
import { useSignedIn } from '../../session/session.ts';
import { openSpawn } from '../../spawn/open-spawn.ts';
import { mayCommand } from '../may-command.ts';

/** For whoever may: a person gives a live agent a child, as the agent itself could. */
export function NewChild({ status: { agentId, phase } }: { readonly status: AgentStatus }) {
  const { caller } = useSignedIn();
  if (isTerminal(phase) || agentId.agent.length >= limits.pathDepth || !mayCommand(caller, agentId))
    return null;
  return (
    <div>
      <Button onClick={() => openSpawn({ parent: agentId })}>New child</Button>
    </div>
  );
}
