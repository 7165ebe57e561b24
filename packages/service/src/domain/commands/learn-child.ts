import type { AgentState } from '../agent.ts';
import { type Decision, decided, unchanged } from '../decision.ts';
import { Draft } from '../draft.ts';
import type { World } from '../world.ts';

export interface LearnChild {
  readonly type: 'learn';
  readonly child: string;
}

/** A parent has looked at a child with its own tools: that it settled is no news any more. */
export function learnChild(world: World, { child }: LearnChild, state: AgentState): Decision<boolean> {
  const { phase, memory } = state.agent;
  if (phase !== 'PHASE_RUNNING' || !memory.news.includes(child)) return unchanged(false);
  const draft = Draft.of(state, world.now);
  draft.remember({ news: memory.news.filter((id) => id !== child) });
  return decided(world, true, [draft]);
}
