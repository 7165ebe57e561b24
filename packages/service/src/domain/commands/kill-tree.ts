import { isTerminal } from '@muster/sdk/contract';
import { type AgentState, isLive } from '../agent.ts';
import { dropEphemeral } from '../batch.ts';
import { type Decision, decided } from '../decision.ts';
import { Draft } from '../draft.ts';
import type { LoadedAgents } from '../loaded-agents.ts';
import { end } from '../settle.ts';

export interface KillTree {
  readonly type: 'kill';
}

/**
 * Ends an agent and every agent below it in one transaction. The root of the tree is locked, and so is every
 * descendant: a spawn that races this one either committed before and is found, or comes after and is refused.
 */
export function killTree(
  loaded: LoadedAgents,
  _command: KillTree,
  target: AgentState,
): Decision<Record<string, never>> {
  const doomed = [target, ...loaded.descendants(target.agent.id)].filter((s) => !isTerminal(s.agent.phase));
  const drafts = doomed.map((state) => {
    const draft = Draft.of(state, loaded.now);
    const { run } = draft;
    if (isLive(run)) {
      draft.log('RUN_ENDED', { runId: run.number, text: 'KILLED', data: { outcome: 'KILLED' } });
      draft.setRun({ state: 'ENDED', outcome: 'KILLED', endedAt: loaded.now, currentAction: '' });
    }
    dropEphemeral(draft, draft.agent.memory.batch);
    end(draft, 'PHASE_CANCELED', state === target ? 'KILLED' : 'PARENT_KILLED');
    return draft;
  });
  return decided(loaded, {}, drafts);
}
