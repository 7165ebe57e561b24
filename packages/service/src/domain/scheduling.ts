import { type Backend, type Demand, isRehearsalModel, limits, type PhaseReason } from '@muster/sdk/contract';
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

/** What a tenant may have in a pool; null without a limit. */
export interface PoolLimits {
  /** The most runs on each runner. */
  readonly maxRuns: number | null;
  /** How many more runs on all runners together. */
  readonly freeRuns: number | null;
}

/** Why an agent with work is not running: no runner can run it, all slots are taken, or it is about to start. */
export function waitingReason(
  agent: Waiting,
  runners: readonly AvailableRunner[],
  { maxRuns, freeRuns }: PoolLimits,
): PhaseReason {
  const able = runners.filter((runner) => canRun(runner, agent));
  if (able.length === 0) return 'NO_RUNNER';
  if (freeRuns !== null && freeRuns <= 0) return 'POOL_FULL';
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

/** What a tenant has in a pool: agents that a runner may claim now, and live runs. */
export interface PoolWork {
  readonly waiting: Slots;
  readonly running: Slots;
}

/**
 * How many runners the live runs and the waiting agents of a tenant need in a pool: each kind of slot as many as the runs
 * that take it, and all together as many as `maxRuns` of the pool says. Agents beyond `maxRunsTotal` need none, because no
 * runner may take them.
 */
export function runnersWanted({ waiting, running }: PoolWork, { maxRuns, freeRuns }: PoolLimits): number {
  const room = freeRuns === null ? Number.POSITIVE_INFINITY : Math.max(0, freeRuns);
  const real = Math.min(waiting.real, room);
  const rehearsed = Math.min(waiting.rehearsed, room - real);
  const slots = { real: running.real + real, rehearsed: running.rehearsed + rehearsed };
  // No runner takes a run of a pool whose limit is 0.
  if (maxRuns === 0) return 0;
  const wanted = Math.max(
    slots.real / limits.runsPerRunner,
    slots.rehearsed / limits.rehearsedRunsPerRunner,
    maxRuns === null ? 0 : (slots.real + slots.rehearsed) / maxRuns,
  );
  return Math.min(limits.runnersPerTenant, Math.ceil(wanted));
}

/** The demand of a tenant in a pool. `runners` are those of the pool that take runs of the tenant. */
export function demandOf(
  tenant: number,
  work: PoolWork,
  runners: readonly AvailableRunner[],
  poolLimits: PoolLimits,
): Demand {
  const { maxRuns, freeRuns } = poolLimits;
  const freeOf = ({ rehearses, freeReal, freeRehearsed, heldBy }: AvailableRunner) =>
    Math.max(0, Math.min(rehearses ? freeRehearsed : freeReal, (maxRuns ?? Infinity) - heldBy(tenant)));
  const free = runners.reduce((sum, runner) => sum + freeOf(runner), 0);
  return {
    waiting: work.waiting.real + work.waiting.rehearsed,
    running: work.running.real + work.running.rehearsed,
    free: Math.max(0, Math.min(free, freeRuns ?? free)),
    runners: runners.length,
    wanted: runnersWanted(work, poolLimits),
  };
}

/** A kind of slot of a runner: for runs that need a provider, and for rehearsals. */
export type Slot = 'real' | 'rehearsed';
export type Slots = Readonly<Record<Slot, number>>;

interface Polled {
  readonly free: Slots;
  readonly backends?: readonly Backend[] | undefined;
  /** It plays every model, and puts all runs into its slots for rehearsals. */
  readonly rehearses?: boolean | undefined;
}

/** The backends whose agents may take each kind of slot that is free; '' is a rehearsal model, which needs none. */
export function backendsOfFreeSlots({ free, backends = [], rehearses = false }: Polled) {
  const bySlot: Record<Slot, string[]> = rehearses
    ? { real: [], rehearsed: ['', ...backends] }
    : { real: [...backends], rehearsed: [''] };
  return { real: free.real > 0 ? bySlot.real : [], rehearsed: free.rehearsed > 0 ? bySlot.rehearsed : [] };
}

const slotOf = (isRehearsed: boolean): Slot => (isRehearsed ? 'rehearsed' : 'real');

/** The free slots of a runner once it has begun the runs of these models, which it does not know of yet. */
export function freeSlots({ free, rehearses = false }: Polled, unsentModels: readonly string[]): Slots {
  const left = { ...free };
  for (const model of unsentModels) left[slotOf(rehearses || isRehearsalModel(model))] -= 1;
  return left;
}

/** An agent that a runner could claim. */
export interface Candidate {
  readonly tenant: number;
  readonly id: string;
  readonly claimable_at: string;
  /** How many more runs its tenant may have on this runner and in its pool; null without a limit. */
  readonly room: number | null;
}

/**
 * Fills the free slots. Tenants take turns in the order of their candidates, with one run each. Of a tenant, the
 * agent that waits longest comes first, also if the tenant may have fewer runs than there are slots of both kinds. If
 * no slot is left that this agent can use, a later agent of the tenant may get a slot of the other kind.
 */
export function chooseClaims<C extends Candidate>(
  candidates: Readonly<Record<Slot, readonly C[]>>,
  free: Slots,
): (C & { readonly slot: Slot })[] {
  const passedOver = new Set<C>();
  for (;;) {
    const left = (slot: Slot) => candidates[slot].filter((candidate) => !passedOver.has(candidate));
    const { fitting, beyond } = withinRoom([...left('real'), ...left('rehearsed')]);
    const chosen = (['real', 'rehearsed'] as const).flatMap((slot) =>
      ranked(left(slot).filter((candidate) => fitting.has(candidate)))
        .sort((a, b) => a.rank - b.rank)
        .slice(0, Math.max(0, free[slot]))
        .map(({ candidate }) => ({ candidate, slot })),
    );
    for (const { candidate } of chosen) fitting.delete(candidate);
    const withoutSlot = [...fitting].filter(({ tenant }) => beyond.has(tenant));
    if (withoutSlot.length === 0) return chosen.map(({ candidate, slot }) => ({ ...candidate, slot }));
    for (const candidate of withoutSlot) passedOver.add(candidate);
  }
}

/** The candidates for which their tenants have room, those that wait longest first, and the tenants that have more. */
function withinRoom<C extends Candidate>(candidates: readonly C[]) {
  const fitting = new Set<C>();
  const beyond = new Set<number>();
  const oldestFirst = [...candidates].sort((a, b) => (a.claimable_at < b.claimable_at ? -1 : 1));
  for (const { candidate, rank } of ranked(oldestFirst)) {
    if (candidate.room === null || rank < candidate.room) fitting.add(candidate);
    else beyond.add(candidate.tenant);
  }
  return { fitting, beyond };
}

/** How many of the same tenant come before each. */
function ranked<C extends Candidate>(candidates: readonly C[]): { candidate: C; rank: number }[] {
  const before = new Map<number, number>();
  return candidates.map((candidate) => {
    const rank = before.get(candidate.tenant) ?? 0;
    before.set(candidate.tenant, rank + 1);
    return { candidate, rank };
  });
}
