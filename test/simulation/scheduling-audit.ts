import { isRehearsalModel, type PollReply, type PollRequest } from '@muster/sdk/contract';
import type { Agent, AgentState } from '../../packages/service/src/domain/agent.ts';
import { isRefusal, type Refusal } from '../../packages/service/src/domain/refusal.ts';
import type { Slot, Slots } from '../../packages/service/src/domain/scheduling.ts';
import { neededBackend } from './memory-database.ts';
import { tenants } from './samples.ts';
import type { SimNode } from './sim-node.ts';
import type { Simulation } from './simulation.ts';
import { holds } from './timeline-audit.ts';

type Poll = PollRequest & { readonly slots: Slots };

interface OpenPoll {
  readonly node: SimNode;
  readonly request: Poll;
  /** Another poll of the same runner was answered meanwhile: neither can see what the other claims. */
  isAlone: boolean;
  /** Agents that it could have claimed when it last looked for some, by kind of slot. */
  readonly seen: Record<Slot, Agent[]>;
  /** The tenants of the runs that it claimed. */
  readonly claimed: Record<Slot, number[]>;
}

/** A claim that a runner made through a node for one tenant while another one waited. */
interface Pass {
  readonly node: SimNode;
  readonly tenant: number;
}

/** How long the transaction of a failed poll may still commit. */
const afterFailureMs = 20_000;
/** Longer than any statement takes: a poll must have seen work that is older. */
const seenMs = 3_000;

/**
 * Checks that claims keep the limits of runners and pools, that no agent waits while a slot is free, and that no tenant
 * waits behind the backlog of another.
 */
export class SchedulingAudit {
  readonly #simulation: Simulation;
  readonly #open = new Set<OpenPoll>();
  /** Since the last claim for a tenant that waits, by runner, kind of slot and that tenant. */
  readonly #passes = new Map<string, Pass[]>();

  constructor(simulation: Simulation) {
    this.#simulation = simulation;
  }

  async watchPoll(
    node: SimNode,
    request: Poll,
    send: () => Promise<PollReply | Refusal>,
  ): Promise<PollReply | Refusal> {
    const others = this.#openPolls(request.runnerId);
    const seen = { real: [], rehearsed: [] };
    const claimed = { real: [], rehearsed: [] };
    const poll: OpenPoll = { node, request, isAlone: others.length === 0, seen, claimed };
    if (!poll.isAlone) this.#forgetPasses(request.runnerId);
    for (const other of others) other.isAlone = false;
    this.#open.add(poll);
    try {
      const reply = await send();
      this.#open.delete(poll);
      if (poll.isAlone && !isRefusal(reply)) this.#simulation.guard(() => this.#checkAnswered(poll, reply));
      return reply;
    } catch (error) {
      this.#forgetPasses(request.runnerId);
      this.#simulation.clock.after(afterFailureMs, () => this.#open.delete(poll));
      throw error;
    }
  }

  #checkAnswered(poll: OpenPoll, reply: PollReply): void {
    this.#checkIdle(poll.request, reply);
    for (const slot of ['real', 'rehearsed'] as const) this.#checkTurns(poll, slot);
  }

  /** A runner looks for agents of these backends: notes which it could claim. */
  look(runnerId: string, backends: readonly string[]): void {
    const { clock } = this.#simulation;
    const [poll] = this.#openPolls(runnerId);
    if (!poll) return;
    const slot = backends.includes('') ? 'rehearsed' : 'real';
    // It looks again after a claim has stopped an agent, because of its budget: that was the turn of its tenant.
    const { agents } = this.#simulation.tables;
    for (const { id, tenant, claimableAt } of poll.seen[slot])
      if (agents.get(id)?.agent.claimableAt !== claimableAt)
        this.#passes.delete(`${runnerId}/${slot}/${tenant}`);
    poll.seen[slot] = this.#waitingFor(poll.request, clock.now).filter((agent) =>
      backends.includes(neededBackend(agent)),
    );
  }

  /** A run was given to a runner: it and those that already run fit the slots of the runner and the limits of the pool. */
  checkClaim({ agent, run }: AgentState): void {
    const { tables } = this.#simulation;
    const { maxRuns, maxRunsTotal } = tables.limitsOf(agent.tenant);
    const live = tables.liveRuns(agent.tenant);
    holds(
      live <= maxRunsTotal,
      'ClaimLimits',
      () => `tenant ${agent.tenant} has ${live} runs, its pool allows ${maxRunsTotal} in total`,
    );
    const [poll, ...others] = this.#openPolls(run?.runnerId ?? '');
    if (!poll?.isAlone || others.length > 0) return;
    const { runnerId, slots, rehearses = false } = poll.request;
    const ofTenant = tables.liveRuns(agent.tenant, runnerId);
    holds(
      ofTenant <= maxRuns,
      'ClaimLimits',
      () => `${runnerId} has ${ofTenant} runs of tenant ${agent.tenant}, whose pool allows ${maxRuns}`,
    );
    const slotOf = ({ settings }: Agent): Slot =>
      rehearses || isRehearsalModel(settings.model) ? 'rehearsed' : 'real';
    for (const slot of ['real', 'rehearsed'] as const) {
      const used = [...tables.agents.values()].filter(
        ({ agent: other, run: last }) =>
          last?.runnerId === runnerId && last.state !== 'ENDED' && slot === slotOf(other),
      );
      holds(
        used.length <= slots[slot],
        'ClaimLimits',
        () => `${runnerId} has ${used.length} runs in ${slots[slot]} ${slot} slots`,
      );
    }
    poll.claimed[slotOf(agent)].push(agent.tenant);
  }

  /**
   * A tenant that waits is passed over once at most by each other tenant. A node knows only of the claims that it made,
   * so each node may pass it over. A tenant is left out if another runner took one of its agents meanwhile: that was its
   * turn.
   */
  #checkTurns({ node, request, seen, claimed }: OpenPoll, slot: Slot): void {
    const { tables } = this.#simulation;
    const { runnerId } = request;
    const claimsOf = (tenant: number) => claimed[slot].filter((one) => one === tenant).length;
    for (const waiting of tenants) {
      const agents = seen[slot].filter(({ tenant }) => tenant === waiting);
      const left = agents.filter(
        ({ id, claimableAt }) => tables.agents.get(id)?.agent.claimableAt === claimableAt,
      );
      const own = claimsOf(waiting);
      const key = `${runnerId}/${slot}/${waiting}`;
      // A claim for the other kind of slot may have stopped one, because of its budget.
      const isStopped = [...seen.real, ...seen.rehearsed].some(
        ({ id, tenant }) => tenant === waiting && tables.agents.get(id)?.agent.reason === 'BUDGET',
      );
      if (own > 0 || isStopped || left.length < agents.length) this.#passes.delete(key);
      // Runs for the other kind of slot took room, even if they have ended since.
      const others = claimed.real.concat(claimed.rehearsed).filter((one) => one === waiting).length - own;
      if (
        left.length === 0 ||
        isStopped ||
        left.length + own < agents.length ||
        tables.roomFor(waiting, runnerId) <= others
      )
        continue;
      const passes = [...(this.#passes.get(key) ?? [])];
      for (const tenant of tenants) {
        for (let more = claimsOf(tenant) - own; more > 0 && tenant !== waiting; more -= 1) {
          const isSecond = passes.some((pass) => pass.node === node && pass.tenant === tenant);
          passes.push({ node, tenant });
          holds(
            !isSecond,
            'TakesTurns',
            () => `${runnerId} claimed two runs of tenant ${tenant} while tenant ${waiting} waited`,
          );
        }
      }
      this.#passes.set(key, passes);
    }
  }

  #forgetPasses(runnerId: string): void {
    for (const key of this.#passes.keys()) if (key.startsWith(`${runnerId}/`)) this.#passes.delete(key);
  }

  /** Agents that have waited since this time or longer, and that this runner may claim. */
  #waitingFor({ runnerId, name }: Poll, since: string): Agent[] {
    const { tables } = this.#simulation;
    return [...tables.agents.values()]
      .map(({ agent }) => agent)
      .filter(({ claimableAt }) => claimableAt !== null && claimableAt <= since)
      .filter(({ home }) => home === null || home === name)
      .filter(({ tenant }) => tables.roomFor(tenant, runnerId) > 0);
  }

  /** A poll that claimed nothing left no agent waiting that its runner could have run. */
  #checkIdle(request: Poll, { claims, stops }: PollReply): void {
    if (claims.length > 0 || stops.length > 0) return;
    const { runnerId, free, rehearses = false } = request;
    const since = new Date(this.#simulation.clock.nowMs - seenMs).toISOString();
    // The end of a run makes room, of which no poll hears at once.
    const isFreed = (tenant: number) => this.#simulation.tables.lastEnd(tenant) > since;
    const { tables, clock } = this.#simulation;
    const starved = this.#waitingFor(request, since).find(
      (agent) =>
        !isFreed(agent.tenant) &&
        !tables.budgets.areSpent(agent, clock.now) &&
        free[rehearses || isRehearsalModel(agent.settings.model) ? 'rehearsed' : 'real'] > 0,
    );
    holds(
      starved === undefined,
      'NoStarvation',
      () => `${starved?.path} has waited since ${starved?.claimableAt} while ${runnerId} had a free slot`,
    );
  }

  #openPolls(runnerId: string): OpenPoll[] {
    return [...this.#open].filter(({ node, request }) => node.isAlive && request.runnerId === runnerId);
  }
}
