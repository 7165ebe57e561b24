import { isTerminal } from '@muster/sdk/contract';
import { assert } from '../lib/assert.ts';
import { isLive } from './agent.ts';
import type { Change } from './world.ts';

/**
 * What must hold of every change, asserted before it is written. Invariants that need the whole queue, the whole tree
 * or the clock are checked by the simulator, which has them.
 */
export function assertInvariants({ before, after }: Change): void {
  const { agent, run } = after;
  const name = agent.path.join('/');
  const terminal = isTerminal(agent.phase);
  const atRest = agent.phase === 'PHASE_WAITING_FOR_INPUT' || terminal;

  assert(!(atRest && agent.queued > 0), `NoStrandedQueue: ${name} rests with ${agent.queued} queued`);
  assert(!(terminal && agent.deferred > 0), `NoStrandedQueue: ${name} ended with ${agent.deferred} deferred`);
  assert(agent.queued >= 0 && agent.deferred >= 0, `NeverLost: ${name} counts below zero`);
  assert(
    isLive(run) === (agent.phase === 'PHASE_RUNNING'),
    `OneLiveRun: ${name} is ${agent.phase}, run ${run?.state}`,
  );
  assert(
    (run?.number ?? 0) === agent.runCount,
    `RunNumbersRise: ${name} has run ${run?.number} of ${agent.runCount}`,
  );
  assert(!(atRest && agent.claimableAt), `OneLiveRun: ${name} rests and could be claimed`);
  assert(
    terminal === (agent.endedAt !== null),
    `KillIsFinal: ${name} is ${agent.phase}, ended ${agent.endedAt}`,
  );
  if (!before) return;
  assert(agent.runCount >= before.agent.runCount, `RunNumbersRise: ${name} went back`);
  assert(agent.sequence >= before.agent.sequence, `TimelineOrder: ${name} went back`);
  assert(
    !isTerminal(before.agent.phase) || agent.phase === before.agent.phase,
    `KillIsFinal: ${name} came back`,
  );
}
