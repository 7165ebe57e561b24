import type { AgentState } from '../domain/agent.ts';
import { type Command, type Needs, needsOf } from '../domain/decide.ts';
import { LoadedAgents, type PoolKey, poolId } from '../domain/loaded-agents.ts';
import { invalid, notFound, type Refusal } from '../domain/refusal.ts';
import type {
  AgentKey,
  AgentTransaction,
  Found,
  ReplyKey,
  StoredReply,
  Wanted,
} from '../store/agent-store.ts';
import { pickAgent } from './identify.ts';

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

export const replyId = (key: ReplyKey): string => `${key.tenant}\n${key.keyId}\n${key.key}`;

/** Locks and loads what the commands of a batch need. Nobody waits for a lock. */
export async function loadBatch<S extends Submission>(
  transaction: AgentTransaction,
  batch: readonly S[],
): Promise<LoadedBatch<S>> {
  const loader = new BatchLoader(transaction);
  const [matches, taken, claiming] = await Promise.all([
    loader.lockTargets(batch),
    lockReplyKeys(transaction, batch),
    loader.lockPools(batch),
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
  const [loaded, replies] = await Promise.all([loader.load(), readReplies(transaction, ready)]);
  return {
    ...loaded,
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

type Part = 'queue' | 'checklist' | 'children';
type NeededParts = Record<Part, boolean> & {
  readonly followUpIds: Set<string>;
  /** Those whose texts are needed; undefined: no thread is needed. */
  threads?: readonly string[];
};

class BatchLoader {
  readonly #transaction: AgentTransaction;
  readonly #keys = new Map<string, AgentKey>();
  readonly #needs = new Map<string, NeededParts>();
  /** The pools in which runs are claimed. */
  readonly #pools = new Map<string, PoolKey>();
  /** The agents whose live descendants are counted. */
  readonly #counted = new Map<string, AgentKey & { root: string }>();

  constructor(transaction: AgentTransaction) {
    this.#transaction = transaction;
  }

  async lockTargets<S extends Submission>(batch: readonly S[]): Promise<Map<S, Found[]>> {
    const wanted = batch.flatMap((submission) => wantedBy(submission).map((want) => ({ submission, want })));
    const matches = new Map<S, Found[]>(batch.map((submission) => [submission, []]));
    for (const found of await this.#lock(wanted.map(({ want }) => want))) {
      const { submission } = wanted[found.wanted] as (typeof wanted)[number];
      matches.get(submission)?.push(found);
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
    if (related.size > 0) await this.#lock([...related.values()].map((key) => ({ key })));
  }

  async #lock(wanted: readonly Wanted[]): Promise<Found[]> {
    const found = await this.#transaction.lock(wanted);
    for (const { tenant, id, locked } of found) if (locked) this.#keys.set(id, { tenant, id });
    return found;
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
      this.#keys.set(key.id, key);
      this.#need(key.id, needs);
    }
    return true;
  }

  #need(id: string, needs: Needs): void {
    const parts = this.#needs.get(id) ?? {
      followUpIds: new Set(),
      queue: false,
      checklist: false,
      children: false,
    };
    if (needs.followUpId !== undefined) parts.followUpIds.add(needs.followUpId);
    if (needs.threads) parts.threads = [...(parts.threads ?? []), ...needs.threads];
    for (const part of ['queue', 'checklist', 'children'] as const) parts[part] ||= needs[part] ?? false;
    this.#needs.set(id, parts);
  }

  /**
   * Loads everything that was locked in one round trip, and only the parts that are needed. The clock is read after
   * the last lock, so that the times of one agent never go back.
   */
  async load(): Promise<{ agents: LoadedAgents; closedTenants: readonly number[] }> {
    const transaction = this.#transaction;
    const keys = [...this.#keys.values()];
    const needing = (part: Part) => keys.filter((key) => this.#needs.get(key.id)?.[part]);
    const ifAny = async <K, V>(
      some: K[],
      read: (keys: K[]) => Promise<Map<string, V>>,
    ): Promise<Map<string, V>> => (some.length > 0 ? read(some) : new Map());
    const named = keys.flatMap((key) =>
      [...(this.#needs.get(key.id)?.followUpIds ?? [])].map((followUpId) => ({ ...key, followUpId })),
    );
    const reviewed = keys.filter((key) => this.#needs.get(key.id)?.threads);
    const wanted = reviewed.flatMap((key) => this.#needs.get(key.id)?.threads ?? []);
    const pools = [...this.#pools.values()];
    const [{ now, closedTenants }, states, byId, queues, checklists, threads, children, live, freeRuns] =
      await Promise.all([
        transaction.moment(),
        transaction.agents(keys),
        ifAny(named, (some) => transaction.followUps(some)),
        ifAny(needing('queue'), (some) => transaction.queues(some)),
        ifAny(needing('checklist'), (some) => transaction.checklists(some)),
        ifAny(reviewed, (some) => transaction.threads(some, wanted)),
        ifAny(needing('children'), (some) => transaction.children(some)),
        ifAny([...this.#counted.values()], (some) => transaction.liveDescendants(some)),
        pools.length > 0 ? transaction.freeRuns(pools) : [],
      ]);
    const loaded = new LoadedAgents(now);
    for (const state of states) {
      const { id } = state.agent;
      const followUps = [...(byId.get(id) ?? []), ...(queues.get(id) ?? [])];
      loaded.add({
        ...state,
        followUps: new Map(followUps.map((followUp) => [followUp.id, followUp])),
        checklist: checklists.get(id) ?? state.checklist,
        threads: threads.get(id),
      });
      if (this.#needs.get(id)?.children) loaded.addChildren(id, children.get(id) ?? []);
    }
    for (const [id, count] of live) loaded.addLiveDescendants(id, count);
    for (const pool of freeRuns) loaded.addFreeRuns(pool, pool.freeRuns);
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
    ? invalid('agentId.workspace', `the parent is in workspace "${found[0].agent.workspace}"`)
    : pickAgent(found, parent.path);
}
