import { isLive } from '../agent.ts';
import { type Decide, type Done, decided, unchanged } from '../decision.ts';
import { Draft } from '../draft.ts';
import { finishRun } from '../finish-run.ts';
import { invalid } from '../refusal.ts';

export interface StopTurn {
  readonly type: 'stop';
  readonly runId: number;
  readonly kind: 'INTERRUPT' | 'KILL';
}

/** Stops the turn with exactly this number: a stop that comes late can't hit a newer one. */
export const stopTurn: Decide<StopTurn, Done> = (loaded, { runId, kind }, state) => {
  const { run } = state;
  if (!isLive(run)) return invalid('runId', 'no turn is running');
  if (run.number !== runId) return invalid('runId', `the current run is ${run.number}`);
  if (kind === 'INTERRUPT' && run.state === 'STOPPING') return unchanged({});

  const draft = Draft.of(state, loaded.now);
  if (kind === 'INTERRUPT') {
    draft.setRun({ state: 'STOPPING', stop: 'INTERRUPT' });
    draft.move('PHASE_RUNNING', 'STOPPING');
  } else {
    finishRun(draft, { outcome: 'KILLED', processLeft: true }, loaded.children(draft.agent.id));
  }
  return decided(loaded, {}, [draft]);
};
