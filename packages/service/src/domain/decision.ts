import type { Phase } from '@muster/sdk/contract';
import { type AgentState, works } from './agent.ts';
import { Draft } from './draft.ts';
import { childSettled } from './finish-run.ts';
import { assertInvariants } from './invariants.ts';
import { type AgentChange, childView, type LoadedAgents } from './loaded-agents.ts';
import type { Refusal } from './refusal.ts';

export type Decision<R> = Refusal | Decided<R>;

export interface Decided<R> {
  readonly reply: R;
  readonly changes: readonly AgentChange[];
}

/** Decides a command on the state of its agent. */
export type Decide<C, R> = (loaded: LoadedAgents, command: C, state: AgentState) => Decision<R>;

/** The reply of a command that has nothing to say. */
export type Done = Record<string, never>;

/** Nothing to write. */
export const unchanged = <R>(reply: R): Decided<R> => ({ reply, changes: [] });

/** Completes a decision: notes in each parent that a child became idle, and asserts every invariant. */
export function decided<R>(loaded: LoadedAgents, reply: R, drafts: readonly Draft[]): Decided<R> {
  const all = [...drafts];
  for (const draft of drafts) {
    const { parent } = draft.agent;
    if (!parent || !draft.before || !works(draft.before.agent) || works(draft.agent)) continue;
    let above = all.find((d) => d.agent.id === parent);
    if (!above) {
      const state = loaded.get(parent);
      // The parent is not loaded when a kill further up has ended it. It needs no note.
      if (!state) continue;
      above = Draft.of(state, loaded.now);
      all.push(above);
    }
    const siblings = new Map(loaded.children(parent).map((child) => [child.id, child]));
    for (const d of all) if (d.agent.parent === parent) siblings.set(d.agent.id, childView(d.state));
    childSettled(above, childView(draft.state), [...siblings.values()]);
  }
  const changes = all.filter(isChanged).map(changeOf);
  for (const change of changes) assertInvariants(change);
  return { reply, changes };
}

const isChanged = (draft: Draft): boolean => {
  const { before } = draft;
  return (
    !before ||
    draft.agent !== before.agent ||
    draft.run !== before.run ||
    draft.checklist !== before.checklist
  );
};

const changeOf = (draft: Draft): AgentChange => ({
  before: draft.before,
  after: draft.state,
  brief: draft.brief,
  entries: draft.entries,
  admitted: draft.admitted,
  diffs: draft.diffs,
  threadChanges: draft.threadChanges,
  events: draft.events,
  runResult: draft.runResult,
  olderRun: draft.olderRun,
});

/** What is done after a change is durable, and never before. */
export type Effect =
  | {
      readonly type: 'changed';
      readonly tenant: number;
      readonly id: string;
      readonly phase: Phase;
      readonly sequence: number;
    }
  | { readonly type: 'work'; readonly tenant: number; readonly pool: string }
  /** Someone has seen or pinned an agent. */
  | { readonly type: 'marked'; readonly tenant: number; readonly id: string; readonly reader: string }
  /** Agents of this tenant are no longer in any list. */
  | { readonly type: 'deleted'; readonly tenant: number }
  /** There is a stop or a steering message for a run of this runner. */
  | { readonly type: 'runner'; readonly runnerId: string };

export function effectsOf(changes: readonly AgentChange[]): Effect[] {
  return changes.flatMap((change): Effect[] => {
    const { before, after } = change;
    const { agent, run } = after;
    const effects: Effect[] = [
      { type: 'changed', tenant: agent.tenant, id: agent.id, phase: agent.phase, sequence: agent.sequence },
    ];
    if (agent.claimableAt !== null && agent.claimableAt !== before?.agent.claimableAt) {
      effects.push({ type: 'work', tenant: agent.tenant, pool: agent.pool });
    }
    const killed = run?.state === 'ENDED' && run.goneAt === null;
    const isStopped = run !== before?.run && (run?.state === 'STOPPING' || killed);
    if (run && (isStopped || maySteer(change))) effects.push({ type: 'runner', runnerId: run.runnerId });
    return effects;
  });
}

/** A steering message was queued for the running turn, or may have waited for it to begin. */
function maySteer({ before, after, admitted }: AgentChange): boolean {
  const { agent, run, followUps } = after;
  if (run?.state !== 'RUNNING') return false;
  if (before?.run?.state === 'STARTING') return agent.queued > 0;
  return admitted.some(({ id }) => followUps.get(id)?.steerBatch === run.batch);
}
