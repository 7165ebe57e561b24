import type { Phase } from '@muster/sdk/contract';
import type { Effect } from '../../domain/decision.ts';
import type { AgentKey } from '../../store/agent-store.ts';

/** Aborts when a long reply must end early, with the reason. */
export interface ReplySignal extends AbortSignal {
  readonly reason: 'disconnected' | 'closing' | 'revoked';
}

/** What a watcher learns about an agent. */
export interface WatchedState {
  readonly phase: Phase;
  readonly sequence: number;
}

/** The reader of a list, within a tenant. */
export const readerOf = ({ provider, account }: { provider: string; account: string }): string =>
  `${provider}/${account}`;

/** Follows the agents of a tenant. */
export interface ListWatcher {
  readonly tenant: number;
  readonly reader?: string;
  changed(id: string): void;
  /** Some agents changed, and it is unknown which. */
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
 * Wakes what waits for a change. A node wakes its own watchers immediately after a commit, notifies the other nodes, and
 * once a second looks at everything that is watched, so that a lost notification delays a wake-up by a second at most.
 * Lists can't be looked at that way: after a lost notification their streams end and connect again.
 */
export class Wakes {
  readonly #agents = new Map<string, { key: AgentKey; listeners: Set<(state: WatchedState) => void> }>();
  readonly #lists = new Set<ListWatcher>();
  readonly #pollers = new Map<string, Set<Poller>>();
  readonly #keys = new Map<string, Set<() => void>>();
  readonly #sessions = new Map<string, Set<() => void>>();
  /** Called with what the other workers and nodes have to be notified of. */
  onEffects: (effects: readonly Effect[]) => void = () => {};

  /** Effects of a commit on this node. */
  perform(effects: readonly Effect[]): void {
    this.wake(effects);
    this.onEffects(effects);
  }

  /** Effects of a commit on this node or on another one. */
  wake(effects: readonly Effect[]): void {
    for (const effect of effects) {
      if (effect.type === 'changed') this.changed(effect, effect);
      if (effect.type === 'marked') this.marked(effect);
      if (effect.type === 'work') this.work(effect.tenant, effect.pool);
      if (effect.type === 'deleted') this.deleted(effect.tenant);
      if (effect.type === 'runner') this.runner(effect.runnerId);
    }
  }

  changed(key: AgentKey, state: WatchedState): void {
    for (const listener of [...(this.#agents.get(key.id)?.listeners ?? [])]) listener(state);
    for (const list of this.#lists) if (list.tenant === key.tenant) list.changed(key.id);
  }

  /** Only that reader's lists show it. */
  marked({ tenant, id, reader }: { tenant: number; id: string; reader: string }): void {
    for (const list of this.#lists) if (list.tenant === tenant && list.reader === reader) list.changed(id);
  }

  /** No change of an agent says that it is gone: the lists of its tenant start again. */
  deleted(tenant: number): void {
    for (const list of [...this.#lists]) if (list.tenant === tenant) list.missed();
  }

  /** A notification of another node was lost. Only lists need to know: the timers look at the rest every second. */
  missed(): void {
    for (const list of [...this.#lists]) list.missed();
  }

  work(tenant: number, pool: string): void {
    for (const poller of this.#allPollers()) {
      if (poller.pool === pool && poller.hasRoom && (poller.tenant === 0 || poller.tenant === tenant))
        poller.wake();
    }
  }

  runner(runnerId: string): void {
    for (const poller of this.#pollers.get(runnerId) ?? []) poller.wake();
  }

  /** The polls of these runners look again for what to answer, on every node. */
  wakeRunners(runners: readonly string[]): void {
    if (runners.length > 0) this.perform(runners.map((runnerId) => ({ type: 'runner', runnerId })));
  }

  /** `id` is that of a key or of a session. */
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

  /** The caller may turn out not to be this runner, so nobody else's poll is replaced. */
  watchRunner(poller: Poller): () => void {
    return watch(this.#pollers, poller.runnerId, poller);
  }

  #allPollers(): Poller[] {
    return [...this.#pollers.values()].flatMap((pollers) => [...pollers]);
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
      pollers: this.#allPollers(),
      keyIds: [...this.#keys.keys()],
      sessions: [...this.#sessions.keys()],
    };
  }

  isWatching(id: string): boolean {
    return this.#agents.has(id) || this.#lists.size > 0;
  }
}

function watch<W>(watched: Map<string, Set<W>>, id: string, watcher: W): () => void {
  const watchers = watched.get(id) ?? new Set();
  watched.set(id, watchers.add(watcher));
  return () => {
    watchers.delete(watcher);
    if (watchers.size === 0 && watched.get(id) === watchers) watched.delete(id);
  };
}

/** What one node notifies the others of. */
export interface CommittedChanges {
  readonly agents: readonly AgentKey[];
  readonly pools: readonly { tenant: number; pool: string }[];
  readonly runners: readonly string[];
  /** The tenants of agents that were deleted. */
  readonly deletedIn: readonly number[];
}

export function changesOf(effects: readonly Effect[]): CommittedChanges {
  return {
    // Other nodes read a marked agent again for every list: marks are few beside the entries of a timeline.
    agents: effects.flatMap((e) =>
      e.type === 'changed' || e.type === 'marked' ? [{ tenant: e.tenant, id: e.id }] : [],
    ),
    pools: effects.flatMap((e) => (e.type === 'work' ? [{ tenant: e.tenant, pool: e.pool }] : [])),
    runners: effects.flatMap((e) => (e.type === 'runner' ? [e.runnerId] : [])),
    deletedIn: effects.flatMap((e) => (e.type === 'deleted' ? [e.tenant] : [])),
  };
}
