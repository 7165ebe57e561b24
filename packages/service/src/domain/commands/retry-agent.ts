import { reasonRow } from '@muster/sdk/contract';
import { keepsBatch } from '../agent.ts';
import { type Decide, type Done, decided, unchanged } from '../decision.ts';
import { Draft } from '../draft.ts';
import { precondition } from '../refusal.ts';
import { continueKept, pendNow } from '../settle.ts';

export interface RetryAgent {
  readonly type: 'retry';
}

/**
 * Runs the batch of a BLOCKED agent, or of one that a budget has stopped, again, and that of a RETRYING or rate-limited one
 * without waiting any longer.
 */
export const retryAgent: Decide<RetryAgent, Done> = (loaded, _command, state) => {
  const { agent } = state;
  const draft = Draft.of(state, loaded.now);
  draft.remember({ retriedRun: agent.runCount + 1 });
  if (keepsBatch(agent)) {
    continueKept(draft, loaded.children(agent.id));
    return decided(loaded, {}, [draft]);
  }
  if (!reasonRow({ phaseReason: agent.reason }).isRetryable) {
    const path = agent.path.join('/');
    const message = `the agent ${path} is neither blocked, out of budget, retrying nor rate limited (${agent.phase}, ${agent.reason})`;
    return precondition('NOT_BLOCKED', path, message);
  }
  if (agent.claimableAt !== null && agent.claimableAt <= loaded.now) return unchanged({});
  pendNow(draft, agent.reason === 'RETRYING' ? 'RETRYING' : 'STARTING');
  return decided(loaded, {}, [draft]);
};
