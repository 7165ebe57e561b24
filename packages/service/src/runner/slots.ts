import type { PollRequest } from '@muster/sdk/contract';
import type { RunnerLimits } from './runner-options.ts';

type Slots = PollRequest['free'];

/** How many more runs a runner can take, of at most `left` in all. */
export function freeSlots(
  live: Iterable<{ readonly slot: keyof Slots }>,
  limits: RunnerLimits,
  left: number,
): Slots {
  const used = { real: 0, rehearsed: 0 };
  for (const { slot } of live) used[slot] += 1;
  return {
    real: Math.max(0, Math.min(left, limits.runsPerRunner - used.real)),
    rehearsed: Math.max(0, Math.min(left, limits.rehearsedRunsPerRunner - used.rehearsed)),
  };
}
