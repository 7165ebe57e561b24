import { isTerminal } from '@muster/sdk/contract';
import {
  type ChildView,
  type FollowUp,
  isUndelivered,
  type Run,
} from '../../packages/service/src/domain/agent.ts';
import {
  type AgentChange,
  childView,
  type PoolKey,
} from '../../packages/service/src/domain/loaded-agents.ts';
import {
  type AgentKey,
  type AgentStore,
  type AgentTransaction,
  CommitUnknownError,
  type Found,
  type Moment,
  type ReadState,
  type StoredReply,
  type Wanted,
  type WantedState,
} from '../../packages/service/src/store/agent-store.ts';
import type { AgentRows, MemoryTables } from './memory-tables.ts';
import { holds } from './timeline-audit.ts';
import type { VirtualClock } from './virtual-clock.ts';

/** How a transaction fails, if it does. */
export type TransactionFault = 'none' | 'refused' | 'aborted' | 'unknown, committed' | 'unknown, lost';

/** The faults and the latency of a node's connection to the store. */
export interface ConnectionFaults {
  isAlive(): boolean;
  latencyMs(): number;
  fault(): TransactionFault;
}

/** Never resolves: the process that waits for it has crashed. */
const never = <T>(): Promise<T> => new Promise<T>(() => {});

/**
 * The store as one node sees it. Rows are locked without waiting, as `FOR UPDATE SKIP LOCKED` does: what another
 * node's open transaction holds comes back unlocked. Nothing is written before the commit, and then all of it.
 */
export class MemoryStore implements AgentStore {
  readonly #tables: MemoryTables;
  readonly #clock: VirtualClock;
  readonly #locks: Map<string, object>;
  readonly #faults: ConnectionFaults;
  readonly #open = new Set<MemoryTransaction>();

  constructor(
    tables: MemoryTables,
    clock: VirtualClock,
    locks: Map<string, object>,
    faults: ConnectionFaults,
  ) {
    this.#tables = tables;
    this.#clock = clock;
    this.#locks = locks;
    this.#faults = faults;
  }

  async transaction<T>(work: (transaction: AgentTransaction) => Promise<T>): Promise<T> {
    const faults = this.#faults;
    const fault = faults.fault();
    await this.#delayed();
    if (fault === 'refused') throw new Error('the store refuses connections');
    const transaction = new MemoryTransaction(this.#tables, this.#clock, this.#locks, () => this.#delayed());
    this.#open.add(transaction);
    try {
      const result = await work(transaction);
      await this.#delayed();
      if (fault === 'aborted') throw new Error('the connection broke before COMMIT');
      if (fault === 'unknown, lost') throw new CommitUnknownError('the connection broke during COMMIT');
      this.#tables.commit(transaction.changes, transaction.newReplies, this.#clock.now);
      transaction.release();
      await this.#delayed();
      if (fault === 'unknown, committed') throw new CommitUnknownError('the connection broke during COMMIT');
      return result;
    } finally {
      transaction.release();
      this.#open.delete(transaction);
    }
  }

  /** The node has crashed: the server ends its sessions, which rolls back open transactions. */
  endSessions(): void {
    for (const transaction of this.#open) transaction.release();
  }

  /** One way to the store or back. Never resolves if the node crashed meanwhile. */
  async #delayed(): Promise<void> {
    const ms = this.#faults.latencyMs();
    if (ms > 0) await this.#clock.delay(ms);
    if (!this.#faults.isAlive()) await never();
  }
}

class MemoryTransaction implements AgentTransaction {
  readonly changes: AgentChange[] = [];
  readonly newReplies: StoredReply[] = [];
  readonly #tables: MemoryTables;
  readonly #clock: VirtualClock;
  readonly #locks: Map<string, object>;
  readonly #delayed: () => Promise<void>;
  readonly #locked = new Set<string>();
  /** Statements of one transaction are carried out in the order in which they were sent. */
  #sent: Promise<void> = Promise.resolve();

  constructor(
    tables: MemoryTables,
    clock: VirtualClock,
    locks: Map<string, object>,
    delayed: () => Promise<void>,
  ) {
    this.#tables = tables;
    this.#clock = clock;
    this.#locks = locks;
    this.#delayed = delayed;
  }

  release(): void {
    for (const id of this.#locked) if (this.#locks.get(id) === this) this.#locks.delete(id);
    this.#locked.clear();
  }

  async moment(): Promise<Moment> {
    await this.#sent;
    return { now: this.#clock.now, closedTenants: [] };
  }

  /** As one statement does it: rows are found in a snapshot and locked later in their current state. */
  async lock(wanted: readonly Wanted[]): Promise<Found[]> {
    const found: { want: number; rows: AgentRows }[] = [];
    this.#sent = this.#findThenLock(() => {
      for (const [want, one] of wanted.entries())
        for (const rows of this.#find(one)) found.push({ want, rows });
    });
    await this.#sent;
    return found.map(({ want, rows: { agent } }) => ({
      wanted: want,
      tenant: agent.tenant,
      id: agent.id,
      parent: agent.parent,
      root: agent.root,
      locked: this.#tryLock(agent.id),
    }));
  }

  async lockTree(key: AgentKey): Promise<{ key: AgentKey; locked: boolean }[]> {
    let found: AgentRows[] = [];
    await this.#findThenLock(() => {
      const all = [...this.#tables.agents.values()];
      found = all.filter(({ agent }) => agent.ancestors.includes(key.id) && !isTerminal(agent.phase));
    });
    return found.map(({ agent }) => ({
      key: { tenant: agent.tenant, id: agent.id },
      locked: this.#tryLock(agent.id),
    }));
  }

  async #findThenLock(look: () => void): Promise<void> {
    await this.#delayed();
    look();
    await this.#delayed();
  }

  async agents(wanted: readonly WantedState[]): Promise<ReadState[]> {
    await this.#sent;
    return wanted.flatMap(({ want, parts }) =>
      this.#find(want).map((rows) => ({
        state: { agent: rows.agent, run: rows.run, followUps: new Map(), checklist: [] },
        parts: {
          ...(parts.has('queue') && { queue: [...rows.followUps.values()].filter(isUndelivered) }),
          ...(parts.has('checklist') && { checklist: [...rows.checklist] }),
          ...(parts.has('children') && { children: this.#children(rows.agent.id) }),
          ...(parts.has('policies') && { policies: [] }),
          ...(parts.has('budgets') && { budgets: this.#tables.budgets.over(rows.agent) }),
        },
      })),
    );
  }

  #children(id: string): ChildView[] {
    return [...this.#tables.agents.values()]
      .filter(({ agent }) => agent.parent === id && agent.current)
      .map(childView);
  }

  async followUps(keys: readonly (AgentKey & { readonly followUpId: string })[]) {
    const found = new Map<string, FollowUp[]>();
    for (const { id, followUpId } of keys) {
      const followUp = this.#tables.agents.get(id)?.followUps.get(followUpId);
      if (followUp) found.set(id, [...(found.get(id) ?? []), followUp]);
    }
    return found;
  }

  async runs(keys: readonly (AgentKey & { readonly number: number })[]) {
    const found = new Map<string, Run[]>();
    for (const { id, number } of keys) {
      const run = this.#tables.agents.get(id)?.runs.find((one) => one.number === number);
      if (run) found.set(id, [...(found.get(id) ?? []), run]);
    }
    return found;
  }

  async threads(keys: readonly AgentKey[]) {
    return new Map(this.#rows(keys).map(({ agent, threads }) => [agent.id, new Map(threads)]));
  }

  async liveDescendants(keys: readonly (AgentKey & { readonly root: string })[]) {
    const live = [...this.#tables.agents.values()].filter(({ agent }) => !isTerminal(agent.phase));
    return new Map(
      keys.map(({ id }) => [id, live.filter(({ agent }) => agent.ancestors.includes(id)).length]),
    );
  }

  async lockPools(pools: readonly PoolKey[]) {
    await this.#sent;
    return pools.map(({ tenant }) => this.#tryLock(`pool ${tenant}`));
  }

  async freeRuns(pools: readonly PoolKey[]) {
    await this.#sent;
    return pools.map((pool) => ({ ...pool, freeRuns: this.#tables.freeRuns(pool.tenant) }));
  }

  async lockReplies(keys: readonly { readonly keyId: string; readonly key: string }[]) {
    await this.#sent;
    return keys.map(({ keyId, key }) => this.#tryLock(`reply ${keyId}/${key}`));
  }

  async replies(keys: readonly { readonly keyId: string; readonly key: string }[]) {
    await this.#sent;
    return keys
      .map(({ keyId, key }) => this.#tables.replies.get(`${keyId}/${key}`))
      .filter((reply) => reply !== undefined);
  }

  save(changes: readonly AgentChange[], replies: readonly StoredReply[]): void {
    const made = new Set(changes.filter((c) => c.before === null).map((c) => c.after.agent.id));
    for (const { id, path } of changes.map((c) => c.after.agent)) {
      const isMine = this.#locked.has(id) || made.has(id);
      holds(isMine, 'LockedWrites', () => `${path} was written without its lock`);
    }
    this.changes.push(...changes);
    this.newReplies.push(...replies);
  }

  #find(want: Wanted): AgentRows[] {
    if ('identity' in want) return this.#tables.find(want.identity);
    const rows = this.#tables.agents.get(want.key.id);
    return rows?.agent.tenant === want.key.tenant ? [rows] : [];
  }

  #tryLock(id: string): boolean {
    const holder = this.#locks.get(id);
    if (holder !== undefined && holder !== this) return false;
    this.#locks.set(id, this);
    this.#locked.add(id);
    return true;
  }

  #rows(keys: readonly AgentKey[]): AgentRows[] {
    return keys.map(({ id }) => this.#tables.agents.get(id)).filter((rows) => rows !== undefined);
  }
}
