import { faultOf, isTerminal, type Phase, type PhaseReason } from '@muster/sdk/contract';
import {
  type Agent,
  type AgentError,
  type BudgetStop,
  type ChildView,
  isLive,
  keepsBatch,
  noFaults,
  works,
} from './agent.ts';
import { unfinished } from './checklist.ts';
import type { Draft } from './draft.ts';
import { discardFollowUp } from './review.ts';

/**
 * The next phase of an agent without a live run.
 *
 *            ┌──────── queue, retry, woken ────────┐
 *            ▼                                     │
 *   PENDING ──claim──▶ RUNNING ──end──▶ settle ──▶ WAITING_FOR_INPUT
 *      ▲                  │               │
 *      └── CHILDREN ◀─────┴───────────────┴──▶ COMPLETED · FAILED · CANCELED
 *
 * The first rule that fits decides. The rules are the same after the end of a run and after the removal of a message, a
 * task or a deferral that kept the agent from becoming idle.
 */
export function settle(draft: Draft, children: readonly ChildView[]): void {
  const { agent } = draft;
  const { memory } = agent;
  if (hasWork(draft)) return pend(draft);
  // What a budget has stopped is gone.
  if (memory.budget) draft.remember({ budget: undefined });
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

/** Whether a run could be given something. Unseen children wait while a person has interrupted the agent or owes it an answer. */
export function hasWork(draft: Draft): boolean {
  const { queued, memory } = draft.agent;
  const hasUnseen = memory.unseenChildren.length > 0 && !memory.interrupted && memory.question === '';
  return queued > 0 || memory.batch !== null || memory.spawnDue || memory.prefaceDue || hasUnseen;
}

/** Waits for a runner: not before a limit or a delay ends, and not while a killed process may be alive. */
export function pend(draft: Draft, reason: PhaseReason = 'STARTING'): void {
  const { agent, run, now } = draft;
  const { limitUntil, retryAt, budget } = agent.memory;
  if (run && run.state === 'ENDED' && run.goneAt === null) {
    draft.set({ claimableAt: null });
    return draft.move('PHASE_PENDING', 'STOPPING');
  }
  if (budget && !budget.isOver) {
    if (budget.until === null || budget.until > now) return waitForBudget(draft, budget);
    draft.remember({ budget: undefined });
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

/** Until its window ends, or until a person has raised it. */
function waitForBudget(draft: Draft, { key, needUsd, until, isUnpriced, message }: BudgetStop): void {
  if (isUnpriced) draft.produce({ error: { code: 'MODEL_UNPRICED', message } });
  draft.set({ claimableAt: until });
  draft.events.push({ type: 'waitsForBudget', key, needUsd });
  draft.move(until === null ? 'PHASE_WAITING_FOR_INPUT' : 'PHASE_PENDING', 'BUDGET');
}

/** Ends a wait for the end of a limit or a delay, or for a budget. */
export function pendNow(draft: Draft, reason: 'STARTING' | 'RETRYING'): void {
  endBudgetStop(draft);
  draft.remember({ limitUntil: null, retryAt: null });
  draft.set({ claimableAt: draft.now });
  draft.move('PHASE_PENDING', reason);
}

/** It is tried again, and stopped again if the budget still has too little. */
export function endBudgetStop(draft: Draft): void {
  const { budget } = draft.agent.memory;
  if (budget) draft.remember({ budget: { ...budget, isOver: true } });
}

/** What stopped the agent is gone, or is tried again: it runs the batch and the messages that it has kept. */
export function continueKept(draft: Draft, children: readonly ChildView[]): void {
  endBudgetStop(draft);
  if (hasWork(draft)) return pend(draft);
  // Nothing to run is left: what stopped it was no run, and its queue was cleared since.
  draft.remember({ blocked: '', budget: undefined });
  settle(draft, children);
}

const rest = (draft: Draft, reason: PhaseReason): void => place(draft, 'PHASE_WAITING_FOR_INPUT', reason);

export function place(draft: Draft, phase: Phase, reason: PhaseReason): void {
  draft.set({ claimableAt: null });
  draft.move(phase, reason);
}

/**
 * Blocks the agent until a person has fixed something. It keeps its batch and its queue until a message, a retry or a
 * kill; its counts of lost runs and faults start again.
 */
export function block(draft: Draft, error: AgentError): void {
  noteError(draft, error);
  const blocked = fixOf(error, draft.agent, draft.run?.runner ?? draft.agent.home ?? '');
  draft.remember({ blocked, budget: undefined, lostInARow: 0, ...noFaults });
  rest(draft, 'BLOCKED');
}

export function noteError(draft: Draft, error: AgentError, data: Record<string, unknown> = {}): void {
  draft.produce({ error });
  draft.log('ERROR', { text: error.message, data: { code: error.code, ...data } });
}

/** What to do about an error, with the names of what to fix. */
function fixOf({ code }: AgentError, { settings }: Agent, runner: string): string {
  const facts = { runner: runner || '(unknown)', model: settings.model };
  return faultOf(code).fix.replace(/\{(runner|model)\}/g, (_, name: keyof typeof facts) => facts[name]);
}

/** Ends an agent. Undelivered messages are cleared, and the timeline says why. */
export function end(draft: Draft, phase: Phase, reason: PhaseReason, why: string = reason): void {
  for (const followUp of [...draft.queue(), ...draft.deferred()]) {
    discardFollowUp(draft, followUp, 'CLEARED', { text: why, data: { reason, why } });
  }
  // Set, not counted down: a wrong stored count must not keep an agent from ending.
  draft.set({ queued: 0, deferred: 0, nextDeliverAt: null, endedAt: draft.now });
  draft.remember({
    batch: null,
    spawnDue: false,
    prefaceDue: false,
    unseenChildren: [],
    preemptedBy: null,
    blocked: '',
    budget: undefined,
    wasFinished: undefined,
    ...noFaults,
  });
  place(draft, phase, reason);
}

/** Settles an agent without a run again after a message or a task is gone, unless it keeps its batch. */
export function resettle(draft: Draft, children: readonly ChildView[]): void {
  const next = draft.deferred().map((f) => f.deliverAt ?? '');
  if (draft.agent.deferred === 0) draft.set({ nextDeliverAt: null });
  else if (next.length === draft.agent.deferred) draft.set({ nextDeliverAt: next.sort()[0] ?? null });
  if (isLive(draft.run) || isTerminal(draft.agent.phase) || keepsBatch(draft.agent)) return;
  if (draft.agent.phase === 'PHASE_PENDING' && draft.agent.reason !== 'CHILDREN' && hasWork(draft)) return;
  settle(draft, children);
}
