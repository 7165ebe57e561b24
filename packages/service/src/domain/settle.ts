import { faultOf, isTerminal, type Phase, type PhaseReason } from '@muster/sdk/contract';
import { type Agent, type AgentError, type ChildView, isLive, works } from './agent.ts';
import { unfinished } from './checklist.ts';
import type { Draft } from './draft.ts';

/**
 * Where an agent goes that no run holds.
 *
 *            ┌──────── queue, retry, woken ────────┐
 *            ▼                                     │
 *   PENDING ──claim──▶ RUNNING ──end──▶ settle ──▶ WAITING_FOR_INPUT
 *      ▲                  │               │
 *      └── CHILDREN ◀─────┴───────────────┴──▶ COMPLETED · FAILED · CANCELED
 *
 * The rules are tried in order; the first that fits decides. They are the same whether a run has just ended or a
 * message, a task or a deferral that kept the agent from resting has gone away.
 */
export function settle(draft: Draft, children: readonly ChildView[]): void {
  const { agent } = draft;
  const { memory } = agent;
  if (hasWork(draft)) return pend(draft);
  if (memory.blocked) return rest(draft, 'BLOCKED');
  if (memory.interrupted) return rest(draft, 'INTERRUPTED');
  if (memory.question) return rest(draft, 'QUESTION');
  if (unfinished(draft.checklist, memory.activated).length > 0) return rest(draft, 'TASKS_UNFINISHED');
  if (children.some(works)) {
    draft.remember({ forChildren: true });
    return place(draft, 'PHASE_PENDING', 'CHILDREN');
  }
  if (memory.finished && agent.deferred === 0) return end(draft, 'PHASE_COMPLETED', 'FINISHED');
  rest(draft, agent.deferred > 0 ? 'DEFERRED' : 'RESTING');
}

/** Something a run could be given. Unseen children wait while a person has interrupted the agent or owes it an answer. */
export function hasWork(draft: Draft): boolean {
  const { queued, memory } = draft.agent;
  const hasUnseen = memory.unseenChildren.length > 0 && !memory.interrupted && memory.question === '';
  return queued > 0 || memory.batch !== null || memory.spawnDue || memory.prefaceDue || hasUnseen;
}

/** Waits for a runner: not before a limit or a delay ends, and not while a killed process may still live. */
export function pend(draft: Draft, reason: PhaseReason = 'STARTING'): void {
  const { agent, run, now } = draft;
  const { limitUntil, retryAt } = agent.memory;
  if (run && run.state === 'ENDED' && run.goneAt === null) {
    draft.set({ claimableAt: null });
    return draft.move('PHASE_PENDING', 'STOPPING');
  }
  if (limitUntil !== null && limitUntil > now) {
    draft.set({ claimableAt: limitUntil });
    return draft.move('PHASE_PENDING', 'PROVIDER_LIMIT');
  }
  if (retryAt !== null && retryAt > now) {
    draft.set({ claimableAt: retryAt });
    return draft.move('PHASE_PENDING', 'RETRYING');
  }
  draft.set({ claimableAt: agent.claimableAt ?? now });
  draft.move('PHASE_PENDING', reason);
}

const rest = (draft: Draft, reason: PhaseReason): void => place(draft, 'PHASE_WAITING_FOR_INPUT', reason);

export function place(draft: Draft, phase: Phase, reason: PhaseReason): void {
  draft.set({ claimableAt: null });
  draft.move(phase, reason);
}

/**
 * A person has to fix something first. The agent keeps its batch and its queue until a message, a retry or a kill; what
 * was counted against it starts again then.
 */
export function block(draft: Draft, error: AgentError): void {
  noteError(draft, error);
  const blocked = fixOf(error, draft.agent, draft.run?.runner ?? draft.agent.home ?? '');
  draft.remember({ blocked, lostInARow: 0, passingFaults: 0, retryAt: null });
  rest(draft, 'BLOCKED');
}

export function noteError(draft: Draft, error: AgentError): void {
  draft.produce({ error });
  draft.log('ERROR', { text: error.message, data: { code: error.code } });
}

/** What to do about an error, with the names of what has to be fixed. */
function fixOf({ code }: AgentError, { backend, settings }: Agent, runner: string): string {
  const facts = {
    runner: runner || '(unknown)',
    provider: backend === 'BACKEND_A' ? 'Anthropic' : 'OpenAI',
    model: settings.model,
  };
  return faultOf(code).fix.replace(
    /\{(runner|provider|model)\}/g,
    (_, name: keyof typeof facts) => facts[name],
  );
}

/** The end of an agent. What was not delivered is cleared, and the timeline says why. */
export function end(draft: Draft, phase: Phase, reason: PhaseReason, why: string = reason): void {
  for (const followUp of [...draft.queue(), ...draft.deferred()]) {
    draft.moveFollowUp(followUp, 'CLEARED', { text: why, data: { reason, why } });
  }
  // Counted again: a stored count that was wrong must not keep an agent from ending.
  draft.set({ queued: 0, deferred: 0, nextDeliverAt: null, endedAt: draft.now });
  draft.remember({
    batch: null,
    spawnDue: false,
    prefaceDue: false,
    unseenChildren: [],
    preemptedBy: null,
    blocked: '',
    retryAt: null,
  });
  place(draft, phase, reason);
}

/** After a message or a task that mattered is gone: an agent without a run is settled again, unless it is BLOCKED. */
export function resettle(draft: Draft, children: readonly ChildView[]): void {
  const next = draft.deferred().map((f) => f.deliverAt ?? '');
  if (draft.agent.deferred === 0) draft.set({ nextDeliverAt: null });
  else if (next.length === draft.agent.deferred) draft.set({ nextDeliverAt: next.sort()[0] ?? null });
  if (isLive(draft.run) || isTerminal(draft.agent.phase) || draft.agent.reason === 'BLOCKED') return;
  if (draft.agent.phase === 'PHASE_PENDING' && draft.agent.reason !== 'CHILDREN' && hasWork(draft)) return;
  settle(draft, children);
}
