import { createHash } from 'node:crypto';
import { isTerminal, needsAttention } from '@muster/sdk/contract';
import type { AgentCommand } from '../../packages/service/src/domain/decide.ts';
import { isRefusal, type Refusal } from '../../packages/service/src/domain/refusal.ts';
import type { Wanted } from '../../packages/service/src/store/agent-store.ts';
import type { AgentRows } from './memory-tables.ts';
import { followUp, identity, settingId, spawn, task } from './samples.ts';
import type { SimNode } from './sim-node.ts';
import type { Simulation, Waiter } from './simulation.ts';
import { holds, Violation } from './timeline-audit.ts';

const maxLive = 18;
const threadPlace = {
  repo: '',
  path: 'src/login.ts',
  line: 12,
  startLine: 12,
  side: 'NEW',
  quote: '',
  changeRequest: '',
  hostId: '',
  url: '',
} as const;
/** Of BACKEND_A, as the rehearsal model that other agents have. */
const realModel = 'claude-sonnet-4-5';

/** A client that sends random requests, retries those without a reply, and checks the replies. */
export class SimClient {
  readonly #simulation: Simulation;
  readonly #name: string;
  #count = 0;

  constructor(simulation: Simulation, name: string) {
    this.#simulation = simulation;
    this.#name = name;
  }

  async run(): Promise<void> {
    const { clock, random } = this.#simulation;
    while (this.#simulation.hasFaults) {
      await clock.delay(random.between(5, 600));
      if (this.#simulation.hasFaults) await this.#act();
    }
  }

  #fresh(): string {
    this.#count += 1;
    return `${this.#name}-${this.#count}`;
  }

  #freshUuid(): string {
    const hex = createHash('sha256').update(this.#fresh()).digest('hex');
    return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12}).*$/, '$1-$2-$3-$4-$5');
  }

  async #act(): Promise<void> {
    const { random, tables } = this.#simulation;
    const agents = [...tables.agents.values()];
    const live = agents.filter(({ agent }) => !isTerminal(agent.phase));
    const target = random.pick(random.chance(0.95) ? live : agents);
    const what = random.below(100);
    if (!target || (what < 14 && live.length < maxLive)) return this.#spawn(random.pick(live));
    if (what < 49) return this.#queue(target);
    if (what < 55) return this.#review(random.chance(0.8) ? target : (random.pick(agents) ?? target));
    if (what < 61) return this.#command(target, { type: 'remove', followUpId: this.#undelivered(target) });
    if (what < 63) return this.#order(target);
    if (what < 66) return this.#command(target, { type: 'clear' });
    if (what < 75) return this.#stop(target);
    if (what < 77) return this.#kill(target);
    if (what < 79) return this.#killDuringSpawns(live);
    if (what < 83) return this.#command(target, { type: 'createTasks', tasks: [task(this.#fresh())] });
    if (what < 86) return this.#updateTask(target);
    if (what < 88)
      return this.#command(target, { type: 'label', labels: { by: this.#fresh(), spawned: '' } });
    if (what < 90) return random.chance(0.6) ? this.#retry() : this.#raise(target);
    if (what < 92) return this.#reopen();
    return this.#wait(target);
  }

  /** Retries until there is a reply, which may be a refusal, or gives up. */
  async #ask<T>(handle: (node: SimNode) => Promise<T>): Promise<T | null> {
    const { network, random } = this.#simulation;
    for (let attempt = random.between(1, 5); attempt > 0; attempt -= 1) {
      const reply = await network.call(handle, random.between(50, 3_000)).catch(() => null);
      if (reply !== null) return reply;
    }
    return null;
  }

  async #command(target: AgentRows, command: AgentCommand): Promise<void> {
    await this.#ask((node) => node.transact.command(this.#wanted(target), command));
  }

  #wanted({ agent }: AgentRows): Wanted {
    const { random } = this.#simulation;
    if (random.chance(0.5)) return { key: { tenant: agent.tenant, id: agent.id } };
    return {
      identity: {
        ...identity(agent.path, agent.tenant),
        workspace: random.chance(0.5) ? '' : agent.workspace,
      },
    };
  }

  /** Kills an agent with live children, while more are spawned in its tree. */
  async #killDuringSpawns(live: readonly AgentRows[]): Promise<void> {
    const { clock, random } = this.#simulation;
    const parents = new Set(live.map(({ agent }) => agent.parent));
    const target = random.pick(live.filter(({ agent }) => parents.has(agent.id)));
    if (!target) return;
    const { id } = target.agent;
    const tree = live.filter(({ agent }) => agent.id === id || agent.ancestors.includes(id));
    const spawns = tree.slice(0, 4).map(async (parent) => {
      await clock.delay(random.between(0, 30));
      await this.#spawn(parent, 1);
    });
    await Promise.all([this.#kill(target), ...spawns]);
  }

  async #spawn(above: AgentRows | undefined, below = 0.75): Promise<void> {
    const { random, tables, hasBudgets } = this.#simulation;
    const parent = random.chance(below) ? above?.agent : undefined;
    const isChild = parent !== undefined && parent.path.length < 4;
    const path = isChild ? [...parent.path, `c${random.below(2)}`] : [`r${random.below(4)}`];
    const tenant = isChild ? parent.tenant : (random.pick([1, 1, 2, 3]) ?? 1);
    const model = random.chance(0.4) ? { model: realModel } : {};
    const budgetUsd = hasBudgets && random.chance(0.5) ? (random.pick([0, 0.5, 2, 5]) ?? null) : null;
    const key = this.#fresh();
    const tasks = random.chance(0.3) ? [task(`${key}-task`, { ephemeral: true })] : [];
    const seen = new Set<string>();
    await this.#ask(async (node) => {
      const isFree = tables.find(identity(path, tenant)).every(({ agent }) => isTerminal(agent.phase));
      const plain = spawn(`agent-${this.#fresh()}`, path, tasks);
      const command = {
        ...plain,
        identity: identity(path, tenant),
        description: key,
        change: { ...plain.change, ...model },
        budgetUsd,
      };
      const reply = await node.transact.command<string>({ identity: command.identity }, command, {
        of: ({ agent }) => agent.id,
        key: { tenant, keyId: 'client', key, digest: key },
      });
      const stored = tables.replies.get(`client/${key}`)?.reply;
      if (isRefusal(reply)) {
        const isLost = isFree && stored !== undefined && reply.status === 'ALREADY_EXISTS';
        if (isLost)
          this.#simulation.fail(new Violation('Replay', `the spawn ${key} succeeded, a retry was refused`));
        return reply;
      }
      seen.add(reply);
      this.#simulation.guard(() => {
        holds(seen.size === 1, 'Replay', () => `the spawn ${key} was answered with ${[...seen]}`);
        holds(
          stored !== undefined && seen.has(String(stored)),
          'AckedIsDurable',
          () => `spawn ${key}: ${stored}`,
        );
      });
      return reply;
    });
    const made = [...tables.agents.values()].filter(({ brief }) => brief?.description === key);
    holds(made.length <= 1, 'Replay', () => `the spawn ${key} made ${made.length} agents`);
  }

  async #queue(target: AgentRows): Promise<void> {
    const { random, clock, tables, requested } = this.#simulation;
    const isSetting = random.chance(0.15);
    const followUpId = isSetting ? settingId(this.#fresh()) : this.#fresh();
    const preempt = random.chance(0.15);
    const isDeferred = !preempt && random.chance(0.25);
    const deliverAt = isDeferred ? new Date(clock.nowMs + random.between(1, 15_000)).toISOString() : null;
    const isSteer = !isSetting && !preempt && !isDeferred && random.chance(0.3);
    const tasks = random.chance(0.15) ? [task(`${followUpId}-task`, { ephemeral: random.chance(0.5) })] : [];
    const wanted = this.#wanted(target);
    const path = target.agent.path.join('/');
    if (preempt) requested.add(`preempt ${path}`);
    await this.#ask(async (node) => {
      const command = followUp(followUpId, { preempt, deliverAt, tasks, ...(isSteer && { steer: true }) });
      const reply = await node.transact.command<{ followUpId: string }>(wanted, command);
      if (isRefusal(reply)) return reply;
      const isThere = [...tables.agents.values()].some(
        ({ agent, everAdmitted }) => agent.path.join('/') === path && everAdmitted.has(followUpId),
      );
      this.#simulation.guard(() =>
        holds(isThere, 'AckedIsDurable', () => `${followUpId} was acknowledged and is nowhere`),
      );
      return reply;
    });
  }

  /** Opens threads, or replies to one. A retry of the request has other ids for the threads, as the service mints them. */
  async #review(target: AgentRows): Promise<void> {
    const { random, tables } = this.#simulation;
    const followUpId = this.#fresh();
    const existing = random.chance(0.4) ? random.pick([...target.threads.keys()]) : undefined;
    if (existing && !isTerminal(target.agent.phase) && random.chance(0.3)) {
      const state = random.chance(0.7) ? 'RESOLVED' : 'OPEN';
      const key = { tenant: target.agent.tenant, id: target.agent.id };
      const command = { type: 'resolveThread', threadId: existing, state } as const;
      await this.#ask((node) => node.transact.command({ key }, command));
      return;
    }
    const count = existing ? 1 : random.between(1, 3);
    const bodies = Array.from({ length: count }, () => this.#fresh());
    const { tenant, id } = target.agent;
    await this.#ask(async (node) => {
      const threads = bodies.map((body) => ({
        id: existing ?? this.#freshUuid(),
        ...(!existing && { place: threadPlace }),
        comments: [
          { author: 'ada', kind: 'PERSON', permission: 'member', body, url: '', hostId: '' } as const,
        ],
      }));
      const review = { threads, taskIds: this.#fresh(), ...(!existing && { tellAgain: '' }) };
      const command = followUp(followUpId, { description: '', review, reopen: true });
      const reply = await node.transact.command<{ followUpId: string }>({ key: { tenant, id } }, command);
      if (isRefusal(reply)) return reply;
      const comments = [...(tables.agents.get(id)?.threads.values() ?? [])].flatMap((t) => t.comments);
      for (const body of bodies) {
        const times = comments.filter((comment) => comment.body === body).length;
        this.#simulation.guard(() =>
          holds(times === 1, 'AckedIsDurable', () => `the comment ${body} is there ${times} times`),
        );
      }
      return reply;
    });
  }

  /** The order may be of a queue that others change meanwhile. */
  async #order(target: AgentRows): Promise<void> {
    const queued = [...target.followUps.values()].filter(({ state }) => state === 'QUEUED');
    const followUpIds = queued.sort((a, b) => b.position - a.position).map(({ id }) => id);
    await this.#command(target, { type: 'order', followUpIds });
  }

  #undelivered(target: AgentRows): string {
    const { random } = this.#simulation;
    return random.pick([...target.audit.undelivered.keys()]) ?? 'none';
  }

  /** Most stops are for the live run; some are for the one before. */
  async #stop(target: AgentRows): Promise<void> {
    const { random, requested } = this.#simulation;
    const runId = target.agent.runCount - (random.chance(0.3) ? 1 : 0);
    const kind = random.chance(0.6) ? 'INTERRUPT' : 'KILL';
    const { tenant, id } = target.agent;
    requested.add(`stop ${id}/${runId}`);
    const key = { tenant, id };
    await this.#ask((node) => node.transact.command({ key }, { type: 'stop', runId, kind }));
  }

  async #kill(target: AgentRows): Promise<void> {
    const { tables, requested } = this.#simulation;
    const { tenant, id } = target.agent;
    requested.add(`kill ${id}`);
    await this.#ask(async (node) => {
      const reply: unknown | Refusal = await node.transact.command({ key: { tenant, id } }, { type: 'kill' });
      if (isRefusal(reply)) return reply;
      const left = [...tables.agents.values()].filter(
        ({ agent }) => (agent.id === id || agent.ancestors.includes(id)) && !isTerminal(agent.phase),
      );
      this.#simulation.guard(() =>
        holds(
          left.length === 0,
          'KillReachesAll',
          () => `${left.map((r) => r.agent.path)} live after the kill`,
        ),
      );
      return reply;
    });
  }

  /** Retries an agent that is BLOCKED or RETRYING, if there is one. */
  async #retry(): Promise<void> {
    const { random, tables } = this.#simulation;
    const waiting = [...tables.agents.values()].filter(({ agent }) =>
      /^(BLOCKED|RETRYING|BUDGET)$/.test(agent.reason),
    );
    const target = random.pick(waiting);
    if (target) await this.#command(target, { type: 'retry' });
  }

  /** Raises the budgets of the catalog, or that of an agent. */
  async #raise(target: AgentRows): Promise<void> {
    const { random, hasBudgets } = this.#simulation;
    if (!hasBudgets) return;
    if (random.chance(0.5)) return this.#simulation.raiseBudgets(random.between(1, 20));
    // What a run spends while nothing limits it is not counted until it is reported.
    if (target.agent.budgetUsd === null && target.agent.runCount > 0) return;
    const budgetUsd = (target.agent.budgetUsd ?? 0) + random.between(1, 5);
    await this.#command(target, { type: 'setBudget', budgetUsd });
  }

  async #reopen(): Promise<void> {
    const { random, tables } = this.#simulation;
    const ended = [...tables.agents.values()].filter(
      ({ agent }) => agent.current && agent.endedAt !== null && agent.phase !== 'PHASE_CANCELED',
    );
    const target = random.pick(ended);
    if (target) await this.#command(target, { type: 'reopen' });
  }

  async #updateTask(target: AgentRows): Promise<void> {
    const { random } = this.#simulation;
    const id = random.pick(target.checklist)?.id ?? 'none';
    const status = random.chance(0.7) ? 'TASK_STATUS_COMPLETED' : 'TASK_STATUS_DELETED';
    const note = random.chance(0.5) ? this.#fresh() : undefined;
    await this.#command(target, { type: 'updateTask', id, status, note });
  }

  /** As `Control.wait`: watches first, then reads; ends when either shows that the agent needs attention. */
  async #wait({ agent }: AgentRows): Promise<void> {
    const { nodes, random, clock, tables, waiters } = this.#simulation;
    const node = random.pick(nodes);
    if (!node?.isAlive) return;
    const waiter: Waiter = { node, agent: agent.id, isDone: false };
    const stop = node.wakes.watchAgent({ tenant: agent.tenant, id: agent.id }, ({ phase }) => {
      if (!needsAttention(phase)) return;
      waiter.isDone = true;
      waiters.delete(waiter);
      stop();
    });
    waiters.add(waiter);
    await clock.delay(random.between(1, 20));
    const phase = tables.agents.get(agent.id)?.agent.phase;
    if (!phase || !needsAttention(phase)) return;
    waiter.isDone = true;
    waiters.delete(waiter);
    stop();
  }
}
