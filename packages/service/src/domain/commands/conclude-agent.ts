import { isTerminal } from '@muster/sdk/contract';
import { isLive } from '../agent.ts';
import { type Decide, type Done, decided, unchanged } from '../decision.ts';
import { Draft } from '../draft.ts';
import { resettle } from '../settle.ts';

export interface ConcludeAgent {
  readonly type: 'conclude';
}

/** The work is done from outside, as when it was merged: the agent completes as if it had declared itself finished. */
export const concludeAgent: Decide<ConcludeAgent, Done> = (loaded, _command, state) => {
  if (isTerminal(state.agent.phase)) return unchanged({});
  const draft = Draft.of(state, loaded.now);
  draft.remember({ finished: true, question: '', interrupted: false });
  if (!isLive(draft.run)) resettle(draft, loaded.children(draft.agent.id));
  return decided(loaded, {}, [draft]);
};
