import type { Phase } from '@muster/sdk/contract';
import type { Effect } from '../domain/effects.ts';
import type { AgentKey } from '../store/agent-store.ts';

/** Where an agent stands, as far as a watcher needs to know. */
export interface WatchedState {
  readonly phase: Phase;
  readonly sequence: number;
}

/** Who follows the agents of a tenant. */
export interface ListWatcher {
  readonly tenant: number;
  changed(id: string): void;
  /** Some changed, and nobody knows which. */
  missed(): void;
}

export interface Poller {
  readonly runnerId: string;
  readonly tenant: number;
  readonly pool: string;
  readonly hasRoom: boolean;
  wake(): void;
}

/**
 * Who is to be woken by what. A node wakes its own watchers as soon as a commit is done, tells the other nodes in one
 * coalesced notification, and once a second looks at everything that is watched: a lost notification costs at most a
 * second and never a wake-up. Only lists can't be looked at so; who follows one is told to begin anew.
 */
export class Wakes {
  readonly #agents = new Map<string, { key: AgentKey; listeners: Set<(state: WatchedState) => void> }>();
  readonly #lists = new Set<ListWatcher>();
  readonly #pollers = new Map<string, Poller>();
  readonly #keys = new Map<string, Set<() => void>>();
  readonly #sessions = new Map<string, Set<() => void>>();
  /** Called with what the other nodes should know. */
  onChanges: (changes: CommittedChanges) => void = () => {};

  /** Effects of a commit on this node. */
  perform(effects: readonly Effect[]): void {
    this.#dispatch(effects);
    this.onChanges(changesOf(effects));
  }

  /** What another node told, or what the safety net found. */
  #dispatch(effects: readonly Effect[]): void {
    for (const effect of effects) {
      if (effect.type === 'changed') this.changed(effect, effect);
      if (effect.type === 'work') this.work(effect.tenant, effect.pool);
      if (effect.type === 'stop') this.#pollers.get(effect.runnerId)?.wake();
    }
  }

  changed(key: AgentKey, state: WatchedState): void {
    for (const listener of [...(this.#agents.get(key.id)?.listeners ?? [])]) listener(state);
    for (const list of this.#lists) if (list.tenant === key.tenant) list.changed(key.id);
  }

  /** Another node had changes that did not arrive. What is watched one by one is looked at once a second anyway. */
  missed(): void {
    for (const list of [...this.#lists]) list.missed();
  }

  work(tenant: number, pool: string): void {
    for (const poller of this.#pollers.values()) {
      if (poller.pool === pool && poller.hasRoom && (poller.tenant === 0 || poller.tenant === tenant))
        poller.wake();
    }
  }

  stop(runnerId: string): void {
    this.#pollers.get(runnerId)?.wake();
  }

  /** Of a key or a session. */
  revoked(id: string): void {
    for (const cut of [...(this.#keys.get(id) ?? []), ...(this.#sessions.get(id) ?? [])]) cut();
  }

  watchAgent(key: AgentKey, listener: (state: WatchedState) => void): () => void {
    const watched = this.#agents.get(key.id) ?? { key, listeners: new Set() };
    watched.listeners.add(listener);
    this.#agents.set(key.id, watched);
    return () => {
      watched.listeners.delete(listener);
      if (watched.listeners.size === 0) this.#agents.delete(key.id);
    };
  }

  watchList(list: ListWatcher): () => void {
    this.#lists.add(list);
    return () => this.#lists.delete(list);
  }

  watchRunner(poller: Poller): () => void {
    this.#pollers.set(poller.runnerId, poller);
    return () => {
      if (this.#pollers.get(poller.runnerId) === poller) this.#pollers.delete(poller.runnerId);
    };
  }

  /** Cuts a long reply when its key, or its session, stops working. */
  watchKey(keyId: string, cut: () => void): () => void {
    return watch(this.#keys, keyId, cut);
  }

  watchSession(id: string, cut: () => void): () => void {
    return watch(this.#sessions, id, cut);
  }

  /** What this node watches right now. */
  watched() {
    return {
      agents: [...this.#agents.values()].map((watched) => watched.key),
      pollers: [...this.#pollers.values()],
      keyIds: [...this.#keys.keys()],
      sessions: [...this.#sessions.keys()],
    };
  }

  isWatching(id: string): boolean {
    return this.#agents.has(id) || this.#lists.size > 0;
  }
}

function watch(watched: Map<string, Set<() => void>>, id: string, cut: () => void): () => void {
  const cuts = watched.get(id) ?? new Set();
  watched.set(id, cuts.add(cut));
  return () => {
    cuts.delete(cut);
    if (cuts.size === 0 && watched.get(id) === cuts) watched.delete(id);
  };
}

/** What one node tells the others. */
export interface CommittedChanges {
  readonly agents: readonly AgentKey[];
  readonly pools: readonly { tenant: number; pool: string }[];
  readonly runners: readonly string[];
}

function changesOf(effects: readonly Effect[]): CommittedChanges {
  return {
    agents: effects.flatMap((e) => (e.type === 'changed' ? [{ tenant: e.tenant, id: e.id }] : [])),
    pools: effects.flatMap((e) => (e.type === 'work' ? [{ tenant: e.tenant, pool: e.pool }] : [])),
    runners: effects.flatMap((e) => (e.type === 'stop' ? [e.runnerId] : [])),
  };
}
