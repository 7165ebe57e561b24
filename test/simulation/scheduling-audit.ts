import { isRehearsalModel, type PollReply, type PollRequest } from '@muster/sdk/contract';
import type { AgentState } from '../../packages/service/src/domain/agent.ts';
import { isRefusal, type Refusal } from '../../packages/service/src/domain/refusal.ts';
import { chooseClaims, type Slots } from '../../packages/service/src/domain/scheduling.ts';
import type { SimNode } from './sim-node.ts';
import type { Simulation } from './simulation.ts';
import { holds } from './timeline-audit.ts';

type Poll = PollRequest & { readonly slots: Slots };

interface OpenPoll {
  readonly node: SimNode;
  readonly request: Poll;
  /** Another poll of the same runner was answered meanwhile: neither can see what the other claims. */
  isAlone: boolean;
}

/** How long the transaction of a failed poll may still commit. */
const afterFailureMs = 20_000;
/** Longer than any statement takes: a poll must have seen work that is older. */
const seenMs = 3_000;

/** Checks that claims keep the limits of runners and pools, and that no agent waits while a slot is free. */
export class SchedulingAudit {
  readonly #simulation: Simulation;
  readonly #open = new Set<OpenPoll>();

  constructor(simulation: Simulation) {
    this.#simulation = simulation;
  }

  async watchPoll(
    node: SimNode,
    request: Poll,
    send: () => Promise<PollReply | Refusal>,
  ): Promise<PollReply | Refusal> {
    const others = this.#openPolls(request.runnerId);
    const poll: OpenPoll = { node, request, isAlone: others.length === 0 };
    for (const other of others) other.isAlone = false;
    this.#open.add(poll);
    try {
      const reply = await send();
      this.#open.delete(poll);
      if (poll.isAlone && !isRefusal(reply)) this.#simulation.guard(() => this.#checkIdle(request, reply));
      return reply;
    } catch (error) {
      this.#simulation.clock.after(afterFailureMs, () => this.#open.delete(poll));
      throw error;
    }
  }

  /** A run was given to a runner: it and those that the runner has already fit its slots and the limit of the pool. */
  checkClaim({ agent, run }: AgentState): void {
    const { tables } = this.#simulation;
    const [poll, ...others] = this.#openPolls(run?.runnerId ?? '');
    if (!poll?.isAlone || others.length > 0) return;
    const { runnerId, slots, rehearses = false } = poll.request;
    const most = tables.maxRuns(agent.tenant, agent.pool);
    const ofTenant = tables.heldRuns(runnerId, agent.tenant);
    holds(
      most === null || ofTenant <= most,
      'ClaimLimits',
      () => `${runnerId} has ${ofTenant} runs of tenant ${agent.tenant}, whose pool allows ${most}`,
    );
    for (const slot of ['real', 'rehearsed'] as const) {
      const used = [...tables.agents.values()].filter(
        ({ agent: other, run: last }) =>
          last?.runnerId === runnerId &&
          last.state !== 'ENDED' &&
          slot === (rehearses || isRehearsalModel(other.settings.model) ? 'rehearsed' : 'real'),
      );
      holds(
        used.length <= slots[slot],
        'ClaimLimits',
        () => `${runnerId} has ${used.length} runs in ${slots[slot]} ${slot} slots`,
      );
    }
  }

  /** A poll that claimed nothing left no agent waiting that its runner could have run. */
  #checkIdle({ runnerId, name, free, rehearses = false }: Poll, { claims, stops }: PollReply): void {
    if (claims.length > 0 || stops.length > 0) return;
    const { tables, clock } = this.#simulation;
    const since = new Date(clock.nowMs - seenMs).toISOString();
    const waiting = [...tables.agents.values()]
      .map(({ agent }) => agent)
      .filter(({ claimableAt }) => claimableAt !== null && claimableAt <= since)
      .filter(({ home }) => home === null || home === name)
      .map((agent) => ({
        ...agent,
        rehearsal: isRehearsalModel(agent.settings.model),
        max_runs: tables.maxRuns(agent.tenant, agent.pool),
        held: tables.heldRuns(runnerId, agent.tenant),
      }));
    const [starved] = chooseClaims(waiting, free, rehearses);
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
