import type { AgentState } from '../agent.ts';
import { type Decision, decided, unchanged } from '../decision.ts';
import { Draft } from '../draft.ts';
import type { LoadedAgents } from '../loaded-agents.ts';
import { wake } from './queue-follow-up.ts';

export interface DeliverDue {
  readonly type: 'due';
}

/** Deferred messages whose time has come join the queue, and wake the agent like fresh ones. */
export function deliverDue(loaded: LoadedAgents, _command: DeliverDue, state: AgentState): Decision<number> {
  const draft = Draft.of(state, loaded.now);
  const due = draft
    .deferred()
    .filter((f) => f.deliverAt !== null && f.deliverAt <= loaded.now)
    .sort((a, b) => ((a.deliverAt ?? '') < (b.deliverAt ?? '') ? -1 : 1));
  if (due.length === 0) return unchanged(0);
  for (const followUp of due) draft.moveFollowUp(followUp, 'QUEUED');
  const next = draft.deferred().map((f) => f.deliverAt ?? '');
  draft.set({ nextDeliverAt: next.sort()[0] ?? null });
  wake(draft);
  return decided(loaded, due.length, [draft]);
}
