import { type Decide, type Done, decided, unchanged } from '../decision.ts';
import { Draft } from '../draft.ts';

export interface WarnAgent {
  readonly type: 'warn';
  readonly text: string;
}

/** Something outside of a run failed, such as a post to a code host: an entry of the timeline says so. */
export const warnAgent: Decide<WarnAgent, Done> = (loaded, { text }, state) => {
  if (state.agent.phase === 'PHASE_CANCELED') return unchanged({});
  const draft = Draft.of(state, loaded.now);
  draft.log('WARNING', { text });
  return decided(loaded, {}, [draft]);
};
