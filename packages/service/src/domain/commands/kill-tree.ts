import { isTerminal } from '@muster/sdk/contract';
import { isLive } from '../agent.ts';
import { dropEphemeral } from '../batch.ts';
import { type Decide, type Done, decided } from '../decision.ts';
import { Draft } from '../draft.ts';
import type { Actor } from '../events.ts';
import { end } from '../settle.ts';

export interface KillTree {
  readonly type: 'kill';
  /** If it is not the agent's own account. */
  readonly by?: Actor | undefined;
}

/**
 * Ends an agent and every agent below it in one transaction. The root of the tree is locked, and so is every
 * descendant: a spawn that races this one either committed before and is found, or comes after and is refused.
 */
export const killTree: Decide<KillTree, Done> = (loaded, { by }, target) => {
  const doomed = [target, ...loaded.descendants(target.agent.id)].filter((s) => !isTerminal(s.agent.phase));
  const drafts = doomed.map((state) => {
    const draft = Draft.of(state, loaded.now);
    if (isLive(draft.run)) draft.endRun('KILLED', null);
    dropEphemeral(draft, draft.agent.memory.batch);
    end(draft, 'PHASE_CANCELED', state === target ? 'KILLED' : 'PARENT_KILLED');
    if (by && state === target) draft.events.push({ type: 'killedByOther', by });
    return draft;
  });
  return decided(loaded, {}, drafts);
};
