import { isTerminal, reasonRow } from '@muster/sdk/contract';
import { InvariantError } from '../lib/errors.ts';
import { type Agent, type AgentState, isLive, keepsBatch } from './agent.ts';
import type { AgentChange } from './loaded-agents.ts';

/**
 * Invariants of every change, checked before it is written, in production too. The simulator checks those that need the whole queue, the
 * whole tree or the clock.
 *
 * An invariant that the stored state already breaks is not asserted: otherwise every command on that agent would be
 * refused, even a kill.
 */
export function assertInvariants({ before, after }: AgentChange): void {
  for (const { name, isBroken, how } of rules)
    if (isBroken(after) && !(before && isBroken(before))) throw violation(after, name, how(after));
  if (!before) return;
  const { phase, runCount, sequence } = before.agent;
  if (after.agent.runCount < runCount) throw violation(after, 'RunNumbersRise', 'went back');
  if (after.agent.sequence < sequence) throw violation(after, 'TimelineOrder', 'went back');
  if (isTerminal(phase) && after.agent.phase !== phase && !isReopened(before, after))
    throw violation(after, 'KillIsFinal', 'came back');
}

const violation = ({ agent }: AgentState, name: string, how: string): InvariantError =>
  new InvariantError(`invariant violated: ${name}: ${agent.path.join('/')} ${how}`);

/** It is idle, or a message that came with the reopening is queued. */
const isReopened = (before: AgentState, { agent }: AgentState): boolean =>
  before.agent.phase !== 'PHASE_CANCELED' &&
  (agent.phase === 'PHASE_PENDING'
    ? agent.queued > 0
    : agent.phase === 'PHASE_WAITING_FOR_INPUT' && agent.reason === 'RESTING');

interface Rule {
  readonly name: string;
  readonly isBroken: (state: AgentState) => boolean;
  readonly how: (state: AgentState) => string;
}

const isIdle = ({ phase }: Agent): boolean => phase === 'PHASE_WAITING_FOR_INPUT' || isTerminal(phase);

const rules: readonly Rule[] = [
  {
    name: 'NoStrandedQueue',
    isBroken: ({ agent }) => isIdle(agent) && !keepsBatch(agent) && agent.queued > 0,
    how: ({ agent }) => `is idle with ${agent.queued} queued`,
  },
  {
    name: 'BlockedSaysWhy',
    isBroken: ({ agent }) =>
      reasonRow({ phaseReason: agent.reason }).needsInput === 'fix' &&
      agent.phase === 'PHASE_WAITING_FOR_INPUT' &&
      !agent.memory.blocked &&
      !agent.memory.budget,
    how: ({ agent }) => `is ${agent.reason} and does not say why`,
  },
  {
    name: 'ReasonFitsPhase',
    isBroken: ({ agent }) => !reasonRow({ phaseReason: agent.reason }).phases.includes(agent.phase),
    how: ({ agent }) => `is ${agent.phase} with the reason ${agent.reason}`,
  },
  {
    name: 'NoStrandedDeferral',
    isBroken: ({ agent }) => isTerminal(agent.phase) && agent.deferred > 0,
    how: ({ agent }) => `ended with ${agent.deferred} deferred`,
  },
  {
    name: 'NeverLost',
    isBroken: ({ agent }) => agent.queued < 0 || agent.deferred < 0,
    how: () => 'counts below zero',
  },
  {
    name: 'OneLiveRun',
    isBroken: ({ agent, run }) => isLive(run) !== (agent.phase === 'PHASE_RUNNING'),
    how: ({ agent, run }) => `is ${agent.phase}, run ${run?.state}`,
  },
  {
    name: 'RunNumbersRise',
    isBroken: ({ agent, run }) => (run?.number ?? 0) !== agent.runCount,
    how: ({ agent, run }) => `has run ${run?.number} of ${agent.runCount}`,
  },
  {
    name: 'NotClaimableAtRest',
    isBroken: ({ agent }) => isIdle(agent) && agent.claimableAt !== null,
    how: () => 'is idle and could be claimed',
  },
  {
    name: 'KillIsFinal',
    isBroken: ({ agent }) => isTerminal(agent.phase) !== (agent.endedAt !== null),
    how: ({ agent }) => `is ${agent.phase}, ended ${agent.endedAt}`,
  },
];
