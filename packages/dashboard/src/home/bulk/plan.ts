import type { AgentEntry, Caller } from '@muster/sdk';
import { isTerminal, pathOf } from '@muster/sdk/contract';
import { mayCommand } from '../../live/model/allowed-actions.ts';

/** What can be done to several agents after a confirmation. */
export type BulkAction = 'message' | 'stop' | 'label' | 'kill';

export interface Target {
  readonly page: string;
  readonly entry: AgentEntry;
}

export interface BulkPlan {
  readonly targets: readonly Target[];
  /** Live agents below those that are killed. */
  readonly below: readonly Target[];
  /** Selected agents that are left out, and why. */
  readonly left: readonly { readonly target: Target; readonly why: string }[];
}

/** Why the action does not apply to an agent; empty if it does. */
function obstacleOf(action: BulkAction, { agentId, phase }: AgentEntry, caller: Caller): string {
  if (!mayCommand(caller, agentId))
    return caller.role === 'viewer' ? 'you can only read' : `belongs to ${agentId.account}`;
  if (action === 'label') return '';
  if (isTerminal(phase)) return 'has ended';
  return action === 'stop' && phase !== 'PHASE_RUNNING' ? 'is not in a turn' : '';
}

export function planOf(
  action: BulkAction,
  selected: readonly Target[],
  fleet: Iterable<readonly [page: string, AgentEntry]>,
  caller: Caller,
): BulkPlan {
  const judged = selected.map((target) => ({ target, why: obstacleOf(action, target.entry, caller) }));
  const targets = judged.filter(({ why }) => why === '').map(({ target }) => target);
  return {
    targets,
    below: action === 'kill' ? liveBelow(targets, fleet) : [],
    left: judged.filter(({ why }) => why !== ''),
  };
}

function liveBelow(
  targets: readonly Target[],
  fleet: Iterable<readonly [page: string, AgentEntry]>,
): readonly Target[] {
  const pages = new Set(targets.map(({ page }) => page));
  const below: Target[] = [];
  for (const [page, entry] of fleet) {
    if (pages.has(page) || isTerminal(entry.phase)) continue;
    if (aboveIn(pages, { page, entry })) below.push({ page, entry });
  }
  return below;
}

/** The nearest agent above this one that is among the pages. */
export function aboveIn(pages: ReadonlySet<string>, { page, entry }: Target): string | undefined {
  let above = page;
  for (let level = 1; level < entry.agentId.agent.length; level += 1) {
    above = above.slice(0, above.lastIndexOf('/'));
    if (pages.has(above)) return above;
  }
  return undefined;
}

/** Of an agent and one above it, only the one above is killed: that ends both. */
export function callsOf(action: BulkAction, targets: readonly Target[]): readonly Target[] {
  if (action !== 'kill') return targets;
  const pages = new Set(targets.map(({ page }) => page));
  return targets.filter((target) => aboveIn(pages, target) === undefined);
}

export const nameOf = ({ entry }: Target): string => pathOf(entry.agentId);
