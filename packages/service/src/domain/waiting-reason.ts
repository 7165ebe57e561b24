import { type Backend, isRehearsalModel, type PhaseReason } from '@muster/sdk/contract';
import type { Agent } from './agent.ts';

/** A runner that is there, and how much room it has. */
export interface AvailableRunner {
  /** 0 serves every tenant. */
  readonly tenant: number;
  readonly name: string;
  readonly pool: string;
  readonly backends: readonly Backend[];
  readonly rehearses: boolean;
  readonly freeReal: number;
  readonly freeRehearsed: number;
  readonly heldBy: (tenant: number) => number;
}

type Waiting = Pick<Agent, 'tenant' | 'pool' | 'backend' | 'home'> & { readonly model: string };

const canRun = (runner: AvailableRunner, agent: Waiting): boolean =>
  (runner.tenant === 0 || runner.tenant === agent.tenant) &&
  runner.pool === agent.pool &&
  (isRehearsalModel(agent.model) || runner.backends.includes(agent.backend));

/** Why an agent that has work is not running: nobody could run it, everybody is busy, or it is about to start. */
export function waitingReason(
  agent: Waiting,
  runners: readonly AvailableRunner[],
  maxRuns: number | null,
): PhaseReason {
  const able = runners.filter((runner) => canRun(runner, agent));
  if (able.length === 0) return 'NO_RUNNER';
  const home = able.filter((runner) => runner.name === agent.home);
  const hasRoom = (home.length > 0 ? home : able).some((runner) => {
    if (maxRuns !== null && runner.heldBy(agent.tenant) >= maxRuns) return false;
    return isRehearsalModel(agent.model) || runner.rehearses ? runner.freeRehearsed > 0 : runner.freeReal > 0;
  });
  return hasRoom ? 'STARTING' : 'POOL_FULL';
}

/** Whether a run of this agent would have no model behind it. */
export function wouldRehearse(agent: Waiting, runners: readonly AvailableRunner[]): boolean {
  if (isRehearsalModel(agent.model)) return true;
  const able = runners.filter((runner) => canRun(runner, agent));
  return able.length > 0 && able.every((runner) => runner.rehearses);
}
