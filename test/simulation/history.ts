import type { Task } from '@muster/sdk/contract';
import type { Agent, AgentState, Entry, FollowUp, Run } from '../../packages/service/src/domain/agent.ts';
import type { AgentChange } from '../../packages/service/src/domain/loaded-agents.ts';
import type { Thread } from '../../packages/service/src/domain/thread.ts';

/** One agent as the store has it, with its whole history. Values are never changed in place. */
export interface AgentHistory {
  readonly agent: Agent;
  readonly checklist: readonly Task[];
  /** Every follow-up that was not removed, in whatever state. */
  readonly followUps: ReadonlyMap<string, FollowUp>;
  readonly runs: readonly Run[];
  readonly entries: readonly Entry[];
  /** Review threads, where the suite has some. */
  readonly threads?: ReadonlyMap<string, Thread>;
}

export type Histories = ReadonlyMap<string, AgentHistory>;

/** Writes a change as the store does: parts that were not loaded are not touched. */
export function recorded(previous: AgentHistory | undefined, change: AgentChange): AgentHistory {
  const { before, after } = change;
  return {
    agent: after.agent,
    checklist: !previous || after.checklist !== before?.checklist ? after.checklist : previous.checklist,
    followUps: followUpsAfter(previous, change),
    runs: runsAfter(previous?.runs ?? [], before?.run ?? null, after.run),
    entries: previous ? [...previous.entries, ...change.entries] : change.entries,
  };
}

function followUpsAfter(
  previous: AgentHistory | undefined,
  { before, after, admitted }: AgentChange,
): ReadonlyMap<string, FollowUp> {
  const moved = [...after.followUps].filter(([id, f]) => before?.followUps.get(id) !== f);
  if (previous && moved.length === 0 && admitted.length === 0) return previous.followUps;
  const all = new Map(previous?.followUps);
  for (const [id, followUp] of moved) all.set(id, followUp);
  return all;
}

function runsAfter(runs: readonly Run[], before: Run | null, after: Run | null): readonly Run[] {
  if (!after || after === before) return runs;
  return [...runs.filter((run) => run.number !== after.number), after];
}

/** The state with everything loaded. */
export const wholeState = (history: AgentHistory): AgentState => ({
  agent: history.agent,
  run: history.runs.at(-1) ?? null,
  followUps: history.followUps,
  checklist: history.checklist,
});

export const inState = (history: AgentHistory, state: FollowUp['state']): FollowUp[] =>
  [...history.followUps.values()].filter((f) => f.state === state);
