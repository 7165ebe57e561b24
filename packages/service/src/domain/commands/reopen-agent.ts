import { isTerminal, limits } from '@muster/sdk/contract';
import type { Agent } from '../agent.ts';
import { type Decide, type Done, decided, unchanged } from '../decision.ts';
import { Draft } from '../draft.ts';
import type { LoadedAgents } from '../loaded-agents.ts';
import { exhausted, precondition, type Refusal } from '../refusal.ts';
import { place } from '../settle.ts';

export interface ReopenAgent {
  readonly type: 'reopen';
}

/**
 * An agent that finished or failed is idle again, with its session, its checklist and its branch. The root of its tree is
 * locked, so no kill can miss it.
 */
export const reopenAgent: Decide<ReopenAgent, Done> = (loaded, _command, state) => {
  if (!isTerminal(state.agent.phase)) return unchanged({});
  const draft = Draft.of(state, loaded.now);
  return reopen(draft, loaded) ?? decided(loaded, {}, [draft]);
};

/** Reopens an agent that has ended, or says why that can't be. The parent and the root are loaded. */
export function reopen(draft: Draft, loaded: LoadedAgents): Refusal | null {
  const { agent } = draft;
  const refused = refuse(loaded, agent);
  if (refused) return refused;
  draft.set({ endedAt: null, result: { ...agent.result, error: null } });
  draft.remember({ interrupted: false, question: '', finished: false, forChildren: false });
  place(draft, 'PHASE_WAITING_FOR_INPUT', 'RESTING');
  if (isSwept(agent, loaded.now) && agent.session !== '') {
    draft.set({ session: '' });
    draft.log('WARNING', {
      text: 'The session of the earlier runs was deleted. The next run starts a new session.',
    });
  }
  return null;
}

function refuse(loaded: LoadedAgents, agent: Agent): Refusal | null {
  const path = agent.path.join('/');
  if (agent.phase === 'PHASE_CANCELED')
    return precondition('AGENT_KILLED', path, `the agent ${path} was killed: a kill is final`);
  if (!agent.current) return precondition('AGENT_REPLACED', path, `another agent has the name ${path} now`);
  if (agent.parent === null) return null;
  const parent = loaded.get(agent.parent);
  if (!parent || isTerminal(parent.agent.phase)) {
    const above = agent.path.slice(0, -1).join('/');
    return precondition('AGENT_ENDED', above, `the parent ${above} has ended; reopen it first`);
  }
  return loaded.liveDescendants(agent.root) >= limits.liveDescendantsPerRoot
    ? exhausted(`the tree of ${agent.path[0]} has ${limits.liveDescendantsPerRoot} live agents`)
    : null;
}

const dayMs = 24 * 3600 * 1000;

/** What is kept of an agent for some time after its end is gone, or about to be. */
const isSwept = ({ endedAt }: Agent, now: string): boolean =>
  endedAt !== null && Date.parse(endedAt) + limits.timelineDays * dayMs < Date.parse(now);
