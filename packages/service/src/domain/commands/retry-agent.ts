import { type Decide, type Done, decided, unchanged } from '../decision.ts';
import { Draft } from '../draft.ts';
import { precondition } from '../refusal.ts';
import { hasWork, pend, settle } from '../settle.ts';

export interface RetryAgent {
  readonly type: 'retry';
}

/** Runs the batch of a BLOCKED agent again, and that of a RETRYING one without waiting any longer. */
export const retryAgent: Decide<RetryAgent, Done> = (loaded, _command, state) => {
  const { agent } = state;
  const draft = Draft.of(state, loaded.now);
  if (agent.reason === 'BLOCKED') {
    if (hasWork(draft)) pend(draft);
    else {
      // Nothing to run is left: what blocked it was no run, and its queue was cleared since.
      draft.remember({ blocked: '' });
      settle(draft, loaded.children(agent.id));
    }
    return decided(loaded, {}, [draft]);
  }
  if (agent.reason !== 'RETRYING') {
    const path = agent.path.join('/');
    const message = `the agent ${path} is neither blocked nor retrying (${agent.phase}, ${agent.reason})`;
    return precondition('NOT_BLOCKED', path, message);
  }
  if (agent.claimableAt !== null && agent.claimableAt <= loaded.now) return unchanged({});
  draft.remember({ retryAt: null });
  draft.set({ claimableAt: loaded.now });
  return decided(loaded, {}, [draft]);
};
