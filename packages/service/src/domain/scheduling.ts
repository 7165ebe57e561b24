import { type Backend, isRehearsalModel, type PhaseReason } from '@muster/sdk/contract';
import type { Agent } from './agent.ts';

/** A live runner and its free slots. */
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

export const canRun = (
  runner: Pick<AvailableRunner, 'tenant' | 'pool' | 'backends'>,
  agent: Waiting,
): boolean =>
  (runner.tenant === 0 || runner.tenant === agent.tenant) &&
  runner.pool === agent.pool &&
  (isRehearsalModel(agent.model) || runner.backends.includes(agent.backend));

/** Why an agent that has work is not running: no runner could run it, all are busy, or it is about to start. */
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

/** Whether a run of this agent would use no model. */
export function wouldRehearse(agent: Waiting, runners: readonly AvailableRunner[]): boolean {
  if (isRehearsalModel(agent.model)) return true;
  const able = runners.filter((runner) => canRun(runner, agent));
  return able.length > 0 && able.every((runner) => runner.rehearses);
}

/** An agent that a runner could claim. */
export interface Candidate {
  readonly tenant: number;
  /** Its model is a rehearsal model, which needs no provider. */
  readonly rehearsal: boolean;
  /** The most runs of its tenant that one runner of this pool may hold; null without a limit. */
  readonly max_runs: number | null;
  /** How many runs of its tenant the runner holds. */
  readonly held: number;
}

export interface Slots {
  readonly real: number;
  readonly rehearsed: number;
}

interface PolledSlots {
  readonly free: Slots;
  /** It plays every model, and puts all runs into its slots for rehearsals. */
  readonly rehearses?: boolean | undefined;
}

const slotOf = (isRehearsed: boolean): keyof Slots => (isRehearsed ? 'rehearsed' : 'real');

/** The free slots of a runner once it has begun the runs of these models, which it does not know of yet. */
export function freeSlots({ free, rehearses = false }: PolledSlots, unsentModels: readonly string[]): Slots {
  const left = { ...free };
  for (const model of unsentModels) left[slotOf(rehearses || isRehearsalModel(model))] -= 1;
  return left;
}

/** Takes candidates in order, as many as there are slots for and no more of a tenant than its pool allows. */
export function chooseClaims<C extends Candidate>(
  candidates: readonly C[],
  free: Slots,
  rehearses: boolean,
): C[] {
  const left = { ...free };
  const taken = new Map<number, number>();
  return candidates.filter((candidate) => {
    const slot = slotOf(rehearses || candidate.rehearsal);
    const ofTenant = taken.get(candidate.tenant) ?? 0;
    const isAllowed = candidate.max_runs === null || candidate.held + ofTenant < candidate.max_runs;
    if (left[slot] <= 0 || !isAllowed) return false;
    left[slot] -= 1;
    taken.set(candidate.tenant, ofTenant + 1);
    return true;
  });
}
