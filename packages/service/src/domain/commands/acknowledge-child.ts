import { type Decide, decided, unchanged } from '../decision.ts';
import { Draft } from '../draft.ts';

export interface AcknowledgeChild {
  readonly type: 'acknowledgeChild';
  readonly child: string;
}

/** A parent has looked at a child with its own tools: it needs no further run to see that the child settled. */
export const acknowledgeChild: Decide<AcknowledgeChild, boolean> = (loaded, { child }, state) => {
  const { phase, memory } = state.agent;
  if (phase !== 'PHASE_RUNNING' || !memory.unseenChildren.includes(child)) return unchanged(false);
  const draft = Draft.of(state, loaded.now);
  draft.remember({ unseenChildren: memory.unseenChildren.filter((id) => id !== child) });
  return decided(loaded, true, [draft]);
};
