import type { AgentIdInput } from '../contract/identity.ts';

/**
 * Names an agent: `'fix-login'`, `'fix-login/tests'`, `'workspace:fix-login/tests'`, `['fix-login', 'tests']`, or an
 * AgentId as the service gives it.
 */
export type AgentRef = string | readonly string[] | AgentIdInput;

const isPath = (agent: AgentRef): agent is readonly string[] => Array.isArray(agent);

export function agentIdOf(agent: AgentRef): AgentIdInput {
  if (isPath(agent)) return { agent: [...agent] };
  if (typeof agent !== 'string') return agent;
  // No name has a colon in it.
  const colon = agent.indexOf(':');
  const path = agent.slice(colon + 1);
  return {
    ...(colon >= 0 && { workspace: agent.slice(0, colon) }),
    agent: path === '' ? [] : path.split('/'),
  };
}
