import { limits } from '@muster/sdk/contract';
import type { Labels } from '../agent.ts';
import { type Decide, decided, unchanged } from '../decision.ts';
import { Draft } from '../draft.ts';
import { exhausted, invalid } from '../refusal.ts';

export interface LabelAgent {
  readonly type: 'label';
  readonly labels: Labels;
}

/** Merges labels into those that the agent has; an empty value removes one. An agent that has ended takes them too. */
export const labelAgent: Decide<LabelAgent, Labels> = (loaded, command, state) => {
  const { agent } = state;
  const most = limits.labelsPerAgent;
  const set = Object.keys(merge({}, command.labels)).length;
  if (set > most) return invalid('labels', `must have at most ${most} labels; got ${set}`);
  const merged = merge(agent.labels, command.labels);
  if (Object.keys(merged).length > most)
    return exhausted(`an agent has at most ${most} labels; remove some first`);
  if (JSON.stringify(merged) === JSON.stringify(agent.labels)) return unchanged(agent.labels);
  const draft = Draft.of(state, loaded.now);
  draft.set({ labels: merged });
  return decided(loaded, merged, [draft]);
};

/** In the order of the keys, so that labels which are the same look the same. */
export function merge(labels: Labels, changes: Labels): Labels {
  const entries = new Map([...Object.entries(labels), ...Object.entries(changes)]);
  return Object.fromEntries(
    [...entries].filter(([, value]) => value !== '').sort(([a], [b]) => (a < b ? -1 : 1)),
  );
}
