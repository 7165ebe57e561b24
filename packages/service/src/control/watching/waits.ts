import { setTimeout as pause } from 'node:timers/promises';
import { type AgentStatus, type BodyOf, limits, needsAttention } from '@muster/sdk/contract';
import { keepsBatch } from '../../domain/agent.ts';
import { isAnswered } from '../../domain/batch.ts';
import { invalid, isRefusal, notFound, type Refusal } from '../../domain/refusal.ts';
import { withWakeSignal } from '../../lib/wake-signal.ts';
import type { AgentKey } from '../../store/agent-store.ts';
import type { FoundRow } from '../../store/statements/find-agents.ts';
import { refuseSeveral } from '../access/permit.ts';
import type { Principal } from '../access/principal.ts';
import { runNumber } from '../agents/inspection.ts';
import type { OwnRuns } from '../agents/own-runs.ts';
import { noSuchRun, type Reads } from '../agents/read.ts';
import type { Targets } from '../agents/targets.ts';
import type { Wakes } from './wakes.ts';

export type Waited =
  /** One of the agents needs attention, or all of them do. */
  | { readonly agents: readonly AgentKey[]; readonly all?: boolean }
  /** The same of the agents below one, those that are spawned meanwhile included. */
  | { readonly below: FoundRow; readonly all: boolean }
  | { readonly agent: FoundRow; readonly followUpId: string }
  | { readonly agent: FoundRow; readonly runId: number };

/** The longest time between two looks: a notification of another node may be lost. */
const maxMs = 1_000;
/** The shortest time between two looks. */
const minMs = 100;

/** A wait looks, and looks again when it is woken. */
interface Watch<T> {
  /** Null while there is nothing. */
  look(): Promise<T | null>;
  /** Calls back when a look may find something. */
  watch(wake: () => void): () => void;
  /** It looks once a second even if it is not woken: only the database knows. */
  readonly isPolled: boolean;
}

/** Finds the status that is the reply. */
interface AgentWatch extends Watch<AgentStatus | Refusal> {
  /** The agent whose status is the reply after a timeout. */
  unfinished(): Promise<AgentKey>;
}

/**
 * Waits for agents. Each watches before it looks, so that no change is missed between the two. What only the database
 * knows (messages, the agents below one) is looked up once a second; the timers do that for phases of watched agents.
 */
export class Waits {
  readonly #targets: Targets;
  readonly #reads: Reads;
  readonly #wakes: Wakes;
  readonly #ownRuns: OwnRuns;

  constructor(targets: Targets, reads: Reads, wakes: Wakes, ownRuns: OwnRuns) {
    this.#targets = targets;
    this.#reads = reads;
    this.#wakes = wakes;
    this.#ownRuns = ownRuns;
  }

  /** What a request waits for. */
  async waitedTurn(
    caller: Principal,
    { agentId, followUpId = '', runId }: BodyOf<'wait'>,
  ): Promise<Waited | Refusal> {
    if (followUpId !== '' && runId !== undefined)
      return invalid('runId', 'may not be combined with followUpId; wait for one of the two');
    const agent = await this.#targets.find(caller, agentId);
    if (isRefusal(agent)) return agent;
    if (runId !== undefined) return { agent, runId: runNumber(runId) };
    return followUpId === '' ? { agents: [agent] } : { agent, followUpId };
  }

  async waitedAgents(
    caller: Principal,
    { agentIds = [], below, all = false }: BodyOf<'waitMany'>,
  ): Promise<Waited | Refusal> {
    if (below && agentIds.length > 0)
      return invalid('below', 'may not be combined with agentIds; give one of the two');
    if (below) {
      const refused = refuseSeveral(caller);
      if (refused) return refused;
      const above = await this.#targets.find(caller, below, 'below.agent');
      return isRefusal(above) ? above : { below: above, all };
    }
    if (agentIds.length === 0)
      return invalid('agentIds', `must name 1 to ${limits.agentsPerWait} agents, unless below is set`);
    const agents = await this.#targets.findAll(caller, agentIds);
    return isRefusal(agents) ? agents : { agents, all };
  }

  /** The status that was waited for, or after a timeout the current one; null if the signal was aborted. */
  async wait(
    caller: Principal,
    waited: Waited,
    signal: AbortSignal,
    timeoutMs = Number.POSITIVE_INFINITY,
  ): Promise<AgentStatus | Refusal | null> {
    const watch = this.#watchOf(waited);
    const found = await awaited(watch, signal, timeoutMs);
    if (found === 'aborted') return null;
    const status = found === 'timeout' ? await this.#status(await watch.unfinished()) : found;
    if (isRefusal(status)) return status;
    await this.#ownRuns.acknowledge(caller, status);
    return { ...status, timedOut: found === 'timeout' };
  }

  /** Looks when an agent has changed, until there is something. */
  whenChanged<T>(
    agent: AgentKey,
    look: () => Promise<T | null>,
    signal: AbortSignal,
    timeoutMs: number,
  ): Promise<T | 'timeout' | 'aborted'> {
    const watch = (wake: () => void) => this.#wakes.watchAgent(agent, wake);
    return awaited({ look, watch, isPolled: false }, signal, timeoutMs);
  }

  #status(key: AgentKey): Promise<AgentStatus | Refusal> {
    return this.#reads.status({ key });
  }

  #watchOf(waited: Waited): AgentWatch {
    if ('agents' in waited) {
      const [one, ...others] = waited.agents;
      return one && others.length === 0
        ? this.#ofAgent(one)
        : this.#ofAgents(waited.agents, waited.all ?? false);
    }
    if ('below' in waited) return this.#ofBelow(waited.below, waited.all);
    if ('runId' in waited) return this.#ofRun(waited.agent, waited.runId);
    return this.#ofFollowUp(waited.agent, waited.followUpId);
  }

  /** Its status says whether the wait is over: no look before it, which would be one more round trip. */
  #ofAgent(agent: AgentKey): AgentWatch {
    return {
      look: async () => {
        const status = await this.#status(agent);
        return isRefusal(status) || needsAttention(status.phase) ? status : null;
      },
      watch: (wake) =>
        this.#wakes.watchAgent(agent, ({ phase }) => {
          if (needsAttention(phase)) wake();
        }),
      isPolled: false,
      unfinished: async () => agent,
    };
  }

  #ofAgents(agents: readonly AgentKey[], all: boolean): AgentWatch {
    // Until a look finds otherwise, each counts as working. The timers report the phases of watched agents every second.
    const working = new Set(agents.map(({ id }) => id));
    const isOver = (): boolean => working.size === 0 || (!all && working.size < agents.length);
    const keys = new Map(agents.map((agent) => [agent.id, agent]));
    return {
      look: async () => {
        const found = await this.#reads.attention(agents);
        working.clear();
        for (const id of found.working) working.add(id);
        const over = keys.get((all ? found.last : found.first) ?? '');
        return over && (!all || working.size === 0) ? this.#status(over) : null;
      },
      watch: (wake) => {
        const stops = agents.map((agent) =>
          this.#wakes.watchAgent(agent, ({ phase }) => {
            if (!needsAttention(phase)) return void working.add(agent.id);
            working.delete(agent.id);
            if (isOver()) wake();
          }),
        );
        return () => {
          for (const stop of stops) stop();
        };
      },
      isPolled: false,
      unfinished: async () => agents.find(({ id }) => working.has(id)) ?? (agents[0] as AgentKey),
    };
  }

  #ofBelow(above: FoundRow, all: boolean): AgentWatch {
    return {
      look: async () => {
        const settled = await this.#reads.settledBelow({ above, all });
        return settled && this.#status(settled);
      },
      watch: (wake) =>
        this.#wakes.watchList({ tenant: above.tenant, changed: () => wake(), missed: () => wake() }),
      isPolled: true,
      unfinished: async () => above,
    };
  }

  #ofRun(agent: FoundRow, runId: number): AgentWatch {
    const hasRun = runId >= 1 && runId <= agent.run_count;
    return {
      look: async () => {
        if (!hasRun) return noSuchRun(runId, agent.run_count);
        const now = await this.#reads.phase(agent);
        // The newest run is live exactly while its agent is RUNNING.
        return !now || runId < now.run_count || now.phase !== 'PHASE_RUNNING' ? this.#status(agent) : null;
      },
      ...this.#whenNotRunning(agent),
    };
  }

  #ofFollowUp(agent: FoundRow, followUpId: string): AgentWatch {
    let isKnown = false;
    return {
      look: async () => {
        const progress = await this.#reads.progressOf({ ...agent, followUpId });
        // A message that was there was removed meanwhile.
        if (!progress)
          return isKnown ? this.#status(agent) : notFound(`the agent has no follow-up "${followUpId}"`);
        isKnown = true;
        // A person has to fix something before the message can be answered.
        return isAnswered(progress) || keepsBatch(progress) ? this.#status(agent) : null;
      },
      ...this.#whenNotRunning(agent),
    };
  }

  /** A batch ends when its run does. What happens to messages during a run is found by the look once a second. */
  #whenNotRunning(agent: FoundRow): Omit<AgentWatch, 'look'> {
    return {
      watch: (wake) =>
        this.#wakes.watchAgent(agent, ({ phase }) => {
          if (phase !== 'PHASE_RUNNING') wake();
        }),
      isPolled: true,
      unfinished: async () => agent,
    };
  }
}

async function awaited<T>(
  { look, watch, isPolled }: Watch<T>,
  signal: AbortSignal,
  timeoutMs: number,
): Promise<T | 'timeout' | 'aborted'> {
  const deadlineMs = performance.now() + timeoutMs;
  const leftMs = () => deadlineMs - performance.now();
  return withWakeSignal(signal, watch, async (wakeSignal) => {
    let found = await look();
    while (found === null) {
      if (signal.aborted) return 'aborted';
      if (leftMs() <= 0) return 'timeout';
      if (isPolled) await pause(Math.min(minMs, leftMs()));
      await wakeSignal.within(Math.min(isPolled ? maxMs : Number.POSITIVE_INFINITY, leftMs()));
      // A wait continues while the database is unavailable for some time.
      found = signal.aborted ? null : await look().catch(() => null);
    }
    return found;
  });
}
