import { isTerminal } from '@muster/sdk/contract';
import { isLive } from '../agent.ts';
import { type Decide, decided, unchanged } from '../decision.ts';
import { Draft } from '../draft.ts';
import { block } from '../settle.ts';

export interface BlockAgent {
  readonly type: 'block';
  /** The live run that this is about; null: there is none. */
  readonly runId: number | null;
  readonly message: string;
}

/**
 * Blocks an agent whose state makes another command fail each time. The rules for the end of a run may be what fails, so
 * this reads as little of the state as possible.
 */
export const blockAgent: Decide<BlockAgent, boolean> = (loaded, { runId, message }, state) => {
  const { run, agent } = state;
  const live = isLive(run) ? run : null;
  const isStill = isTerminal(agent.phase) || agent.reason === 'BLOCKED';
  if (isStill || (live?.number ?? null) !== runId) return unchanged(false);
  const draft = Draft.of(state, loaded.now);
  if (live) draft.endRun('FAILED', loaded.now);
  block(draft, { code: 'INTERNAL', message });
  return decided(loaded, true, [draft]);
};
