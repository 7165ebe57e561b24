import type { AgentState } from '../../domain/agent.ts';
import { otherWorkspace } from '../../domain/commands/spawn-agent.ts';
import { type Command, type Needs, needsOf } from '../../domain/decide.ts';
import { identityKey, LoadedAgents, type PoolKey, poolId } from '../../domain/loaded-agents.ts';
import { notFound, type Refusal } from '../../domain/refusal.ts';
import type {
  AgentKey,
  AgentTransaction,
  Found,
  Moment,
  Part,
  ReadState,
  ReplyKey,
  StoredReply,
  Wanted,
  WantedState,
} from '../../store/agent-store.ts';
import { pickAgent } from '../agents/identify.ts';

/** A command and the agent that it is for; for a spawn, the agent that it makes. */
export interface Submission {
  readonly target: Wanted;
  readonly command: Command;
  readonly reply?: ReplyOptions | undefined;
}

export interface ReplyOptions {
  /** Makes the caller's reply from what was decided. */
  of(decided: AgentState): unknown;
  /** Stores the reply under an idempotency key, so that a repeated request gets the same one. */
  readonly key: (ReplyKey & { readonly digest: string }) | undefined;
}

export interface LoadedBatch<S> {
  readonly agents: LoadedAgents;
  readonly closedTenants: readonly number[];
  /** Stored under the idempotency keys of the batch, by `replyId`. */
  readonly replies: Map<string, StoredReply>;
  readonly ready: readonly { readonly submission: S; readonly matches: readonly Found[] }[];
  /** Another node holds an agent or an idempotency key that these need. */
  readonly locked: readonly S[];
}

/** Names the agent that is wanted. */
export const nameOf = (wanted: Wanted): string =>
  'key' in wanted ? wanted.key.id : identityKey(wanted.identity);

export const replyId = (key: ReplyKey): string => `${key.tenant}\n${key.keyId}\n${key.key}`;

/**
 * Locks and loads what the commands of a batch need. Nobody waits for a lock. Most batches need one round trip, because
 * what is known to be needed is read behind the statements that lock it.
 */
export async function loadBatch<S extends Submission>(
  transaction: AgentTransaction,
  batch: readonly S[],
): Promise<LoadedBatch<S>> {
  const loader = new BatchLoader(transaction);
  const [matches, taken, claiming, replies] = await Promise.all([
    loader.lockTargets(batch),
    lockReplyKeys(transaction, batch),
    loader.lockPools(batch),
    readReplies(transaction, batch),
    loader.loadTargets(batch),
  ]);
  await loader.lockRelated(matches);
  const ready: S[] = [];
  const locked: S[] = [];
  for (const submission of batch) {
    const isFree =
      !taken.has(submission) &&
      !claiming.has(submission) &&
      (await loader.prepare(submission, matches.get(submission) ?? []));
    (isFree ? ready : locked).push(submission);
  }
  return {
    ...(await loader.load()),
    replies,
    ready: ready.map((submission) => ({ submission, matches: matches.get(submission) ?? [] })),
    locked,
  };
}

/** Submissions whose idempotency key another node is using right now. */
async function lockReplyKeys<S extends Submission>(
  transaction: AgentTransaction,
  batch: readonly S[],
): Promise<Set<S>> {
  const keyed = batch.flatMap((submission) => {
    const key = submission.reply?.key;
    return key ? [{ submission, key }] : [];
  });
  if (keyed.length === 0) return new Set();
  const locked = await transaction.lockReplies(keyed.map(({ key }) => key));
  return new Set(keyed.filter((_, i) => !locked[i]).map(({ submission }) => submission));
}

async function readReplies(
  transaction: AgentTransaction,
  batch: readonly Submission[],
): Promise<Map<string, StoredReply>> {
  const keys = batch.flatMap(({ reply }) => reply?.key ?? []);
  const replies = keys.length > 0 ? await transaction.replies(keys) : [];
  return new Map(replies.map((reply) => [replyId(reply), reply]));
}

/** The agents to find and lock for a command before anything is known about them. */
function wantedBy({ target, command }: Submission): Wanted[] {
  if (command.type !== 'spawn' || command.identity.path.length === 1) return [target];
  const { identity } = command;
  // A parent in another workspace is looked for too, to tell "wrong workspace" from "no such parent".
  return [target, { identity: { ...identity, workspace: '', path: identity.path.slice(0, -1) } }];
}

/** The agents that have to be locked beside a match. */
function relatedTo({ command }: Submission, match: Found): string[] {
  const { parent, root, tree } = needsOf(command);
  return [parent ? match.parent : null, root || tree ? match.root : null].filter((id) => id !== null);
}

interface Needed {
  readonly parts: Set<Part>;
  readonly followUpIds: Set<string>;
  readonly olderRuns: Set<number>;
  /** Those whose texts are needed; undefined: no thread is needed. */
  threads?: readonly string[];
}

const partsOf = (needs: Needs): Part[] =>
  (['queue', 'checklist', 'children', 'policies', 'budgets'] as const).filter((part) => needs[part]);

class BatchLoader {
  readonly #transaction: AgentTransaction;
  /** The agents that are locked. */
  readonly #keys = new Map<string, AgentKey>();
  readonly #needs = new Map<string, Needed>();
  /** The pools in which runs are claimed. */
  readonly #pools = new Map<string, PoolKey>();
  /** The agents whose live descendants are counted. */
  readonly #counted = new Map<string, AgentKey & { root: string }>();
  /** What was read so far, also of agents that turned out to be locked by another node. */
  readonly #read = new Map<string, ReadState>();
  #freeRuns: Awaited<ReturnType<AgentTransaction['freeRuns']>> = [];
  #moment: Moment | null = null;

  constructor(transaction: AgentTransaction) {
    this.#transaction = transaction;
  }

  async lockTargets<S extends Submission>(batch: readonly S[]): Promise<Map<S, Found[]>> {
    const wanted = batch.flatMap((submission) => wantedBy(submission).map((want) => ({ submission, want })));
    const matches = new Map<S, Found[]>(batch.map((submission) => [submission, []]));
    for (const found of await this.#transaction.lock(wanted.map(({ want }) => want))) {
      const { submission } = wanted[found.wanted] as (typeof wanted)[number];
      matches.get(submission)?.push(found);
      if (found.locked) this.#keys.set(found.id, { tenant: found.tenant, id: found.id });
    }
    return matches;
  }

  /** Claims in pools in which another node is claiming right now. */
  async lockPools<S extends Submission>(batch: readonly S[]): Promise<Set<S>> {
    const claims = batch.flatMap((submission) => {
      const { target, command } = submission;
      const pool = needsOf(command).freeRunsIn;
      const { tenant } = 'key' in target ? target.key : target.identity;
      return pool === undefined ? [] : [{ submission, pool: { tenant, pool } }];
    });
    for (const { pool } of claims) this.#pools.set(poolId(pool), pool);
    const pools = [...this.#pools.values()];
    const isLocked = pools.length > 0 ? await this.#transaction.lockPools(pools) : [];
    const busy = new Set(pools.filter((_, i) => !isLocked[i]).map(poolId));
    return new Set(claims.filter(({ pool }) => busy.has(poolId(pool))).map(({ submission }) => submission));
  }

  /** Reads the agents that are being locked. */
  async loadTargets(batch: readonly Submission[]): Promise<void> {
    const wanted = new Map<string, { want: Wanted; parts: Set<Part> }>();
    for (const submission of batch) {
      for (const want of wantedBy(submission)) {
        const name = nameOf(want);
        const { parts } = wanted.get(name) ?? { parts: new Set() };
        if (want === submission.target)
          for (const part of partsOf(needsOf(submission.command))) parts.add(part);
        wanted.set(name, { want, parts });
      }
    }
    const pools = [...this.#pools.values()];
    await Promise.all([
      this.#readStates([...wanted.values()]),
      pools.length > 0 &&
        this.#transaction.freeRuns(pools).then((freeRuns) => {
          this.#freeRuns = freeRuns;
        }),
    ]);
  }

  /** Locks parents and roots for the whole batch in one statement. */
  async lockRelated(all: ReadonlyMap<Submission, readonly Found[]>): Promise<void> {
    const related = new Map<string, AgentKey>();
    for (const [submission, matches] of all) {
      for (const match of matches) {
        for (const id of relatedTo(submission, match)) {
          if (!this.#keys.has(id)) related.set(id, { tenant: match.tenant, id });
        }
      }
    }
    if (related.size === 0) return;
    const found = await this.#transaction.lock([...related.values()].map((key) => ({ key })));
    for (const { tenant, id, locked } of found) if (locked) this.#lockedLater({ tenant, id });
  }

  /** What was read of it before is outdated. */
  #lockedLater(key: AgentKey): void {
    if (this.#keys.has(key.id)) return;
    this.#keys.set(key.id, key);
    this.#read.delete(key.id);
    this.#moment = null;
  }

  /** Notes what a command needs loaded. False: another node holds something of it. */
  async prepare(submission: Submission, matches: readonly Found[]): Promise<boolean> {
    const needs = needsOf(submission.command);
    for (const match of matches) {
      const { tenant, id, root, parent } = match;
      if (!match.locked || relatedTo(submission, match).some((other) => !this.#keys.has(other))) return false;
      this.#need(id, needs);
      if (needs.parent && parent) this.#need(parent, { children: true });
      if (needs.liveDescendants) this.#counted.set(id, { tenant, id, root });
      if (needs.root) this.#counted.set(root, { tenant, id: root, root });
      if (needs.tree && !(await this.#lockDescendants(match, needs))) return false;
    }
    return true;
  }

  async #lockDescendants(match: Found, needs: Needs): Promise<boolean> {
    const descendants = await this.#transaction.lockTree({ tenant: match.tenant, id: match.id }, match.root);
    for (const { key, locked } of descendants) {
      if (!locked) return false;
      this.#lockedLater(key);
      this.#need(key.id, needs);
    }
    return true;
  }

  #need(id: string, needs: Needs): void {
    const needed: Needed = this.#needs.get(id) ?? {
      parts: new Set(),
      followUpIds: new Set(),
      olderRuns: new Set(),
    };
    if (needs.followUpId !== undefined) needed.followUpIds.add(needs.followUpId);
    if (needs.olderRun !== undefined) needed.olderRuns.add(needs.olderRun);
    if (needs.threads) needed.threads = [...(needed.threads ?? []), ...needs.threads];
    for (const part of partsOf(needs)) needed.parts.add(part);
    this.#needs.set(id, needed);
  }

  async #readStates(wanted: readonly WantedState[]): Promise<Moment> {
    const [moment, found] = await Promise.all([
      this.#transaction.moment(),
      wanted.length > 0 ? this.#transaction.agents(wanted) : [],
    ]);
    this.#moment = moment;
    // One agent may be wanted by several names.
    for (const { state, parts } of found) {
      const { id } = state.agent;
      this.#read.set(id, { state, parts: { ...this.#read.get(id)?.parts, ...parts } });
    }
    return moment;
  }

  #wanted(key: AgentKey): WantedState {
    return { want: { key }, parts: this.#needs.get(key.id)?.parts ?? new Set() };
  }

  #isRead(id: string): boolean {
    const { parts } = this.#read.get(id) ?? {};
    return parts !== undefined && [...(this.#needs.get(id)?.parts ?? [])].every((part) => parts[part]);
  }

  /**
   * Reads what is missing, if anything is, in one round trip. The clock is read after the last lock, so that the times of
   * one agent never go back.
   */
  async load(): Promise<{ agents: LoadedAgents; closedTenants: readonly number[] }> {
    const transaction = this.#transaction;
    const keys = [...this.#keys.values()];
    const ifAny = async <K, V>(
      some: K[],
      read: (keys: K[]) => Promise<Map<string, V>>,
    ): Promise<Map<string, V>> => (some.length > 0 ? read(some) : new Map());
    const named = keys.flatMap((key) =>
      [...(this.#needs.get(key.id)?.followUpIds ?? [])].map((followUpId) => ({ ...key, followUpId })),
    );
    const older = keys.flatMap((key) =>
      [...(this.#needs.get(key.id)?.olderRuns ?? [])].map((number) => ({ ...key, number })),
    );
    const reviewed = keys.filter((key) => this.#needs.get(key.id)?.threads);
    const wanted = reviewed.flatMap((key) => this.#needs.get(key.id)?.threads ?? []);
    const unread = keys.filter(({ id }) => !this.#isRead(id));
    const [{ now, closedTenants }, byId, runs, threads, live] = await Promise.all([
      (unread.length === 0 && this.#moment) || this.#readStates(unread.map((key) => this.#wanted(key))),
      ifAny(named, (some) => transaction.followUps(some)),
      ifAny(older, (some) => transaction.runs(some)),
      ifAny(reviewed, (some) => transaction.threads(some, wanted)),
      ifAny([...this.#counted.values()], (some) => transaction.liveDescendants(some)),
    ]);
    const loaded = new LoadedAgents(now);
    for (const { id } of keys) {
      const read = this.#read.get(id);
      if (!read) continue;
      const { state } = read;
      const { queue = [], checklist = [], children, policies, budgets } = read.parts;
      const followUps = [...(byId.get(id) ?? []), ...queue];
      loaded.add({
        ...state,
        followUps: new Map(followUps.map((followUp) => [followUp.id, followUp])),
        checklist,
        threads: threads.get(id),
      });
      if (children) loaded.addChildren(id, children);
      if (policies) loaded.addPolicies(id, policies);
      if (budgets) loaded.addBudgets(id, budgets);
      for (const run of runs.get(id) ?? []) loaded.addOlderRun(id, run);
    }
    for (const [id, count] of live) loaded.addLiveDescendants(id, count);
    for (const pool of this.#freeRuns) loaded.addFreeRuns(pool, pool.freeRuns);
    return { agents: loaded, closedTenants };
  }
}

/** The agent that a command is decided on; for a spawn, the parent, or null for a root. */
export function targetOf(
  loaded: LoadedAgents,
  { target, command }: Submission,
  matches: readonly Found[],
): AgentState | Refusal | null {
  const states = matches.map(({ id }) => loaded.get(id)).filter((state) => state !== undefined);
  if (command.type === 'spawn') return parentOf(loaded, command.identity, states);
  if ('key' in target) return loaded.get(target.key.id) ?? notFound('the agent does not exist');
  const { identity } = target;
  const holder = identity.workspace ? loaded.holder(identity) : undefined;
  return holder ?? pickAgent(states, identity.path);
}

function parentOf(
  loaded: LoadedAgents,
  identity: Extract<Command, { type: 'spawn' }>['identity'],
  states: readonly AgentState[],
): AgentState | Refusal | null {
  if (identity.path.length === 1) return null;
  const parent = { ...identity, path: identity.path.slice(0, -1) };
  const path = parent.path.join('/');
  const found = states.filter(({ agent }) => agent.path.join('/') === path);
  const holder = identity.workspace ? loaded.holder(parent) : undefined;
  if (holder) return holder;
  if (!found[0]) return notFound(`the parent agent ${path} does not exist`);
  return identity.workspace
    ? otherWorkspace(identity.workspace, found[0].agent)
    : pickAgent(found, parent.path);
}
