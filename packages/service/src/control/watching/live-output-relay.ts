import { type BodyOf, limits, type TimelinePartial } from '@muster/sdk/contract';
import type pg from 'pg';
import type { Log } from '../../lib/log.ts';
import { type AgentKey, keyColumns } from '../../store/agent-store.ts';
import { findWatchers, passOn, watchAgents, watchSeconds } from '../../store/statements/watches.ts';
import { type NodeBus, payloadBytes } from './node-bus.ts';
import type { Wakes } from './wakes.ts';

/** Streams that are opened in this time are recorded together. */
const openMs = 10;
const renewMs = (watchSeconds * 1000) / 3;
/** What waits for the other nodes; beyond it, partials are dropped. */
const maxWaiting = 100;
const payloadsPerStatement = 20;
const maxRates = 10_000;

type Listener = (partial: TimelinePartial) => void;

export interface LiveOutputOptions {
  readonly database: pg.Pool;
  readonly wakes: Pick<Wakes, 'wakeRunners'>;
  readonly bus: Pick<NodeBus, 'node' | 'onLive'>;
  readonly log: Log;
}

/**
 * Passes what agents are producing from their runners to the open streams. A node records which running agents its
 * streams watch, and runners learn of it with their polls; so nothing is sent or asked while nobody watches. A runner
 * sends to any node. That node gives partials to its own streams, and to other nodes that watch the agent. Partials are
 * neither stored nor repeated, and are dropped where they come faster than they can be passed on.
 */
export class LiveOutputRelay {
  readonly #options: LiveOutputOptions;
  readonly #watched = new Map<string, { readonly key: AgentKey; readonly listeners: Set<Listener> }>();
  /** Watched since the last record. */
  #opened = new Map<string, AgentKey>();
  #opening: NodeJS.Timeout | undefined;
  #renewing: NodeJS.Timeout | undefined;
  readonly #rates = new Map<string, Rate>();
  #waiting: string[] = [];
  #isPassing = false;

  constructor(options: LiveOutputOptions) {
    this.#options = options;
    options.bus.onLive = (payload) => this.#receivePassed(payload);
  }

  close(): void {
    clearTimeout(this.#opening);
    clearInterval(this.#renewing);
  }

  /** Calls back with the partials of a running agent. */
  watch(key: AgentKey, listener: Listener): () => void {
    const watched = this.#watched.get(key.id) ?? { key, listeners: new Set() };
    this.#watched.set(key.id, watched);
    watched.listeners.add(listener);
    this.#opened.set(key.id, key);
    this.#opening ??= setTimeout(() => this.#open(), openMs);
    this.#renewing ??= setInterval(() => this.#record([...this.#watched.values()], false), renewMs);
    return () => {
      watched.listeners.delete(listener);
      if (watched.listeners.size > 0) return;
      this.#watched.delete(key.id);
      if (this.#watched.size > 0) return;
      clearInterval(this.#renewing);
      this.#renewing = undefined;
    };
  }

  #open(): void {
    this.#opening = undefined;
    const opened = [...this.#opened.values()].map((key) => ({ key }));
    this.#opened = new Map();
    this.#record(opened, true);
  }

  #record(watched: readonly { readonly key: AgentKey }[], isOpened: boolean): void {
    const { database, bus, wakes, log } = this.#options;
    // In the same order each time: two of these statements may run at the same time.
    const keys = watched.map(({ key }) => key).sort((a, b) => (a.id < b.id ? -1 : 1));
    watchAgents(database, ...keyColumns(keys), bus.node, isOpened).then(
      (rows) => isOpened && wakes.wakeRunners(rows.map((row) => row.runner_id)),
      (error) => log.warn({ err: error }, 'watched agents not recorded'),
    );
  }

  /** From a runner: only partials of that runner's live runs are passed on. */
  async receive({ runnerId, partials }: BodyOf<'runnerPartials'>): Promise<Record<string, never>> {
    const { database, bus } = this.#options;
    const agents = partials.map(({ agentKey }) => agentKey);
    const runs = partials.map(({ runId }) => runId);
    const rows = await findWatchers(database, runnerId, agents, runs);
    const nodesOf = new Map(rows.map(({ agent, number, nodes }) => [`${agent}/${number}`, nodes]));
    for (const { agentKey, runId, key, type, offset, text } of partials) {
      const nodes = nodesOf.get(`${agentKey}/${runId}`);
      if (!nodes || !this.#rateOf(agentKey).take(performance.now())) continue;
      const partial = { runId: String(runId), key, type, offset, text };
      this.#show(agentKey, partial);
      if (nodes.some((node) => node !== bus.node)) this.#pass(agentKey, partial);
    }
    return {};
  }

  #rateOf(agentKey: string): Rate {
    const known = this.#rates.get(agentKey);
    if (known) return known;
    if (this.#rates.size >= maxRates) this.#rates.clear();
    const rate = new Rate();
    this.#rates.set(agentKey, rate);
    return rate;
  }

  #show(agent: string, partial: TimelinePartial): void {
    for (const listener of this.#watched.get(agent)?.listeners ?? []) listener(partial);
  }

  #pass(agent: string, partial: TimelinePartial): void {
    const { node } = this.#options.bus;
    for (const piece of pieces(partial, (part) => JSON.stringify({ node, agent, partial: part }))) {
      if (this.#waiting.length < maxWaiting) this.#waiting.push(piece);
    }
    if (!this.#isPassing) void this.#passWaiting();
  }

  /** One statement at a time: what a slow database does not take in time is dropped. */
  async #passWaiting(): Promise<void> {
    this.#isPassing = true;
    while (this.#waiting.length > 0) {
      const payloads = this.#waiting.splice(0, payloadsPerStatement);
      await passOn(this.#options.database, payloads).catch(() => {});
    }
    this.#isPassing = false;
  }

  #receivePassed(payload: string): void {
    const passed = passedIn(payload);
    if (passed && passed.node !== this.#options.bus.node) this.#show(passed.agent, passed.partial);
  }
}

interface Passed {
  readonly node: string;
  readonly agent: string;
  readonly partial: TimelinePartial;
}

/** Null for a payload that this build can't read: it is from a node of another version. */
function passedIn(payload: string): Passed | null {
  try {
    const passed = JSON.parse(payload) as Partial<Passed> | null;
    return typeof passed?.partial?.text === 'string' ? (passed as Passed) : null;
  } catch {
    return null;
  }
}

/** The payload, or several if one would be too long: a character may take six bytes. */
function pieces(partial: TimelinePartial, payloadOf: (partial: TimelinePartial) => string): string[] {
  const payload = payloadOf(partial);
  const { text, offset } = partial;
  if (Buffer.byteLength(payload) <= payloadBytes || text.length < 2) return [payload];
  const half = text.length >> 1;
  return [
    ...pieces({ ...partial, text: text.slice(0, half) }, payloadOf),
    ...pieces({ ...partial, text: text.slice(half), offset: offset + half }, payloadOf),
  ];
}

/** Ten a second on average; partials that were delayed on their way may come together. */
export class Rate {
  #left: number = limits.partialsPerSecond;
  #atMs = Number.NEGATIVE_INFINITY;

  /** Whether one more may pass. */
  take(nowMs: number): boolean {
    const gained = ((nowMs - this.#atMs) / 1000) * limits.partialsPerSecond;
    this.#left = Math.min(limits.partialsPerSecond, this.#left + gained);
    this.#atMs = nowMs;
    if (this.#left < 1) return false;
    this.#left -= 1;
    return true;
  }
}
