import { isTerminal } from '@muster/sdk/contract';
import { assert } from '../lib/errors.ts';
import { type AgentState, isLive } from './agent.ts';
import type { Change } from './loaded-agents.ts';

/**
 * Invariants of every change, asserted before it is written. The simulator checks those that need the whole queue, the
 * whole tree or the clock.
 *
 * An invariant that the stored state already breaks is not asserted: otherwise every command on that agent would be
 * refused, even a kill.
 */
export function assertInvariants({ before, after }: Change): void {
  const broken = brokenBy(after);
  const brokenBefore = new Set(before && broken.length > 0 ? brokenBy(before).map(([name]) => name) : []);
  for (const [name, how] of broken)
    assert(brokenBefore.has(name), `${name}: ${after.agent.path.join('/')} ${how}`);
  if (!before) return;
  const name = after.agent.path.join('/');
  assert(after.agent.runCount >= before.agent.runCount, `RunNumbersRise: ${name} went back`);
  assert(after.agent.sequence >= before.agent.sequence, `TimelineOrder: ${name} went back`);
  assert(
    !isTerminal(before.agent.phase) || after.agent.phase === before.agent.phase || isReopened(before, after),
    `KillIsFinal: ${name} came back`,
  );
}

/** It is idle, or a message that came with the reopening is queued. */
const isReopened = (before: AgentState, { agent }: AgentState): boolean =>
  before.agent.phase !== 'PHASE_CANCELED' &&
  (agent.phase === 'PHASE_PENDING'
    ? agent.queued > 0
    : agent.phase === 'PHASE_WAITING_FOR_INPUT' && agent.reason === 'RESTING');

/** The invariants that a state breaks, each with how. */
function brokenBy({ agent, run }: AgentState): [name: string, how: string][] {
  const terminal = isTerminal(agent.phase);
  const isIdle = agent.phase === 'PHASE_WAITING_FOR_INPUT' || terminal;
  const rules: [name: string, isBroken: boolean, how: string][] = [
    [
      'NoStrandedQueue',
      isIdle && agent.reason !== 'BLOCKED' && agent.queued > 0,
      `is idle with ${agent.queued} queued`,
    ],
    [
      'BlockedSaysWhy',
      agent.reason === 'BLOCKED' && !agent.memory.blocked,
      'is BLOCKED and does not say why',
    ],
    ['NoStrandedDeferral', terminal && agent.deferred > 0, `ended with ${agent.deferred} deferred`],
    ['NeverLost', agent.queued < 0 || agent.deferred < 0, 'counts below zero'],
    ['OneLiveRun', isLive(run) !== (agent.phase === 'PHASE_RUNNING'), `is ${agent.phase}, run ${run?.state}`],
    ['RunNumbersRise', (run?.number ?? 0) !== agent.runCount, `has run ${run?.number} of ${agent.runCount}`],
    ['NotClaimableAtRest', isIdle && agent.claimableAt !== null, 'is idle and could be claimed'],
    ['KillIsFinal', terminal !== (agent.endedAt !== null), `is ${agent.phase}, ended ${agent.endedAt}`],
  ];
  return rules.flatMap(([name, isBroken, how]) => (isBroken ? [[name, how]] : []));
}
