import { isTerminal } from '@muster/sdk/contract';
import type { AgentState, Identity } from '../domain/agent.ts';
import { invalid, notFound, type Refusal } from '../domain/refusal.ts';

/** Of the holders of one path in several workspaces: the one that is live, else the newest. */
export function pickAgent<S extends { agent: Pick<AgentState['agent'], 'id' | 'phase' | 'workspace'> }>(
  states: readonly S[],
  identity: Identity,
): S | Refusal {
  if (states.length === 1 && states[0]) return states[0];
  const path = identity.path.join('/');
  const live = states.filter((s) => !isTerminal(s.agent.phase));
  if (live.length > 1) {
    const workspaces = live.map((s) => s.agent.workspace).sort();
    return invalid(
      'agentId.workspace',
      `${path} is in several workspaces: ${workspaces.join(', ')}; name one`,
    );
  }
  const newest = [...states].sort((a, b) => (a.agent.id < b.agent.id ? 1 : -1))[0];
  return live[0] ?? newest ?? notFound(`the agent ${path} does not exist`);
}
