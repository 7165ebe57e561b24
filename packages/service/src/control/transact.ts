import { isTerminal } from '@muster/sdk/contract';
import type { AgentState, Identity } from '../domain/agent.ts';
import { missingParent, type SpawnAgent, spawnAgent } from '../domain/commands/spawn-agent.ts';
import { type AgentCommand, decide, type Needs, needsOf } from '../domain/decide.ts';
import type { Decision } from '../domain/decision.ts';
import { type Effect, effectsOf } from '../domain/effects.ts';
import { alreadyExists, exhausted, invalid, isRefusal, notFound, type Refusal } from '../domain/refusal.ts';
import { type Change, World } from '../domain/world.ts';
import {
  type AgentKey,
  type AgentStore,
  type AgentTransaction,
  CommitUnknownError,
  type Found,
  IdentityTakenError,
  type KeptReply,
  type ReplyKey,
  type Wanted,
} from '../store/agent-store.ts';
import { FairShare } from './fair-share.ts';

/**
 * Group commit. Every command on an agent passes through here.
 *
 * Commands that arrive while a batch is in flight form the next batch. One transaction locks all their agents, loads
 * what they need, decides each in the order of arrival (a refusal is a reply, not an abort), writes set by set and
 * commits once. Effects are performed after the commit, never before.
 *
 * Locks are taken without waiting: an agent that another node holds right now puts its command into the next batch,
 * so one busy row never stalls the others and no two nodes can deadlock. Beside the agent itself a command that may
 * settle it locks its parent, a spawn locks the root of the tree and the parent, a kill the root and all below.
 *
 * A batch that aborts is tried again one command at a time: only the culprit sees its error.
 */
export interface Transact {
  command<R>(target: Wanted, command: AgentCommand): Promise<R | Refusal>;
  spawn(command: SpawnAgent, kept?: KeepReply): Promise<AgentState | Refusal | KeptReply>;
  /** Resolves when nothing is in flight. */
  idle(): Promise<void>;
}

/** Under which key the reply of a spawn is kept, so that a retry gets the same. */
export interface KeepReply extends ReplyKey {
  readonly digest: string;
  replyOf(state: AgentState): unknown;
}

type Work =
  | { readonly type: 'command'; readonly target: Wanted; readonly command: AgentCommand }
  | { readonly type: 'spawn'; readonly command: SpawnAgent; readonly keep: KeepReply | undefined };

interface Submission {
  readonly work: Work;
  readonly submittedMs: number;
  readonly resolve: (reply: unknown) => void;
  readonly reject: (error: unknown) => void;
}

export interface TransactOptions {
  readonly store: AgentStore;
  /** Called once per commit with what followed from it. */
  readonly perform: (effects: readonly Effect[]) => void;
  readonly onBatch?: (size: number) => void;
  readonly maxBatch?: number;
  /** How many commands of callers, and how many of runners, may wait or be under way; tenants share them. */
  readonly maxWaiting?: number;
  /** How long a command may keep finding its agent held by another node. */
  readonly patienceMs?: number;
}

export class HeldElsewhereError extends Error {
  override readonly name = 'HeldElsewhereError';
}

export function transact(options: TransactOptions): Transact {
  const { store, perform, onBatch, maxBatch = 256, maxWaiting = 20_000, patienceMs = 10_000 } = options;
  const places = { caller: new FairShare(maxWaiting), runner: new FairShare(maxWaiting) };
  let waiting: Submission[] = [];
  let running: Promise<void> | null = null;

  const enqueue = (work: Work): Promise<unknown> =>
    new Promise((resolve, reject) => {
      waiting.push({ work, submittedMs: Date.now(), resolve, reject });
      running ??= drain();
    });

  async function submit(work: Work): Promise<unknown> {
    const kind = placeOf(work);
    if (!kind) return enqueue(work);
    const tenant = tenantOf(work);
    if (!places[kind].take(tenant))
      return exhausted('too many commands of this tenant are waiting; try again');
    try {
      return await enqueue(work);
    } finally {
      places[kind].release(tenant);
    }
  }

  async function drain(): Promise<void> {
    // Commands of the same turn of the event loop share the first batch.
    await Promise.resolve();
    while (waiting.length > 0) {
      const batch = waiting.slice(0, maxBatch);
      waiting = waiting.slice(maxBatch);
      const held = await runBatch(batch);
      if (held.length === 0) continue;
      if (held.length === batch.length && waiting.length === 0) await new Promise((r) => setTimeout(r, 5));
      waiting = [...held.filter((s) => !givesUp(s)), ...waiting];
    }
    // In the same breath as the last look at `waiting`: who comes next starts anew.
    running = null;
  }

  function givesUp(submission: Submission): boolean {
    if (Date.now() - submission.submittedMs < patienceMs) return false;
    submission.reject(new HeldElsewhereError('the agent is held by another node'));
    return true;
  }

  /** Runs one batch and returns what has to wait for the next. */
  async function runBatch(batch: readonly Submission[]): Promise<Submission[]> {
    onBatch?.(batch.length);
    try {
      const outcome = await store.transaction((transaction) => decideBatch(transaction, batch));
      perform(effectsOf(outcome.changes));
      // The next batch goes out first; the store works while these are answered.
      setImmediate(() => {
        for (const [submission, reply] of outcome.replies) submission.resolve(reply);
      });
      return outcome.held;
    } catch (error) {
      if (batch.length > 1 && !(error instanceof CommitUnknownError)) {
        const held: Submission[] = [];
        for (const one of batch) held.push(...(await runBatch([one])));
        return held;
      }
      // Who took it may be an earlier try of the same request: the next look finds it.
      if (error instanceof IdentityTakenError) return [...batch];
      for (const submission of batch) submission.reject(error);
      return [];
    }
  }

  return {
    command: <R>(target: Wanted, command: AgentCommand) =>
      submit({ type: 'command', target, command }) as Promise<R | Refusal>,
    spawn: (command, keep) =>
      submit({ type: 'spawn', command, keep }) as Promise<AgentState | Refusal | KeptReply>,
    async idle() {
      while (running) await running;
    },
  };
}

/** Whose places a command takes; null for what the service does by itself, which is never refused. */
function placeOf(work: Work): 'caller' | 'runner' | null {
  if (work.type === 'spawn') return 'caller';
  switch (work.command.type) {
    case 'due':
    case 'lose':
    case 'learn':
      return null;
    case 'claim':
    case 'report':
      return 'runner';
    default:
      return 'caller';
  }
}

function tenantOf(work: Work): number {
  if (work.type === 'spawn') return work.command.identity.tenant;
  return 'key' in work.target ? work.target.key.tenant : work.target.identity.tenant;
}

interface Outcome {
  readonly changes: Change[];
  readonly replies: Map<Submission, unknown>;
  readonly held: Submission[];
}

async function decideBatch(transaction: AgentTransaction, batch: readonly Submission[]): Promise<Outcome> {
  const scene = new Scene(transaction);
  const wanted = batch.flatMap((s) => wantedBy(s.work).map((want) => ({ submission: s, want })));
  const found = await scene.lock(wanted.map((w) => w.want));
  const matches = new Map<Submission, Found[]>(batch.map((s) => [s, []]));
  for (const f of found) matches.get((wanted[f.wanted] as (typeof wanted)[number]).submission)?.push(f);

  const outcome: Outcome = { changes: [], replies: new Map(), held: [] };
  const ready: Submission[] = [];
  await scene.lockBeside(batch.map((s) => ({ work: s.work, matches: matches.get(s) ?? [] })));
  const rivals = await scene.lockReplies(batch.map((s) => s.work));
  for (const submission of batch) {
    const isFree = !rivals.has(submission.work);
    if (isFree && (await scene.prepare(submission.work, matches.get(submission) ?? [])))
      ready.push(submission);
    else outcome.held.push(submission);
  }
  const [kept] = await Promise.all([scene.keptReplies(ready.map((s) => s.work)), scene.load()]);
  const world = scene.world;
  const newReplies: KeptReply[] = [];

  for (const submission of ready) {
    const { work } = submission;
    if (work.type === 'spawn' && work.keep) {
      const earlier = kept.get(replyId(work.keep));
      if (earlier) {
        outcome.replies.set(submission, repeated(earlier, work.keep));
        continue;
      }
    }
    const decision = decideOne(world, scene, work, matches.get(submission) ?? []);
    if (isRefusal(decision)) {
      outcome.replies.set(submission, decision);
      continue;
    }
    world.apply(decision.changes);
    outcome.changes.push(...decision.changes);
    outcome.replies.set(submission, decision.reply);
    if (work.type === 'spawn' && work.keep) {
      const { replyOf, ...key } = work.keep;
      const reply: KeptReply = { ...key, reply: replyOf(decision.reply as AgentState) };
      newReplies.push(reply);
      kept.set(replyId(key), reply);
    }
  }
  if (outcome.changes.length > 0) transaction.save(outcome.changes, newReplies, world.now);
  return outcome;
}

const replyId = (key: ReplyKey): string => `${key.tenant}\n${key.keyId}\n${key.key}`;

const repeated = (earlier: KeptReply, keep: KeepReply): KeptReply | Refusal =>
  earlier.digest === keep.digest
    ? earlier
    : alreadyExists(`Idempotency-Key: "${keep.key}" was used with another body`);

/** What to find and lock for a piece of work before anything is known about it. */
function wantedBy(work: Work): Wanted[] {
  if (work.type === 'command') return [work.target];
  const { identity } = work.command;
  if (identity.path.length === 1) return [{ identity }];
  // A parent in another workspace is looked for too, to tell "wrong workspace" from "no such parent".
  return [{ identity }, { identity: { ...identity, workspace: '', path: identity.path.slice(0, -1) } }];
}

function decideOne(world: World, scene: Scene, work: Work, matches: readonly Found[]): Decision<unknown> {
  if (work.type === 'spawn') return spawnAgent(world, work.command, scene.parentOf(work.command, matches));
  const target = scene.target(work.target, matches);
  if (!isRefusal(target)) return decide(world, work.command, target);
  return work.command.type === 'queue' ? (work.command.invalid ?? target) : target;
}

/** The agents that have to be locked beside the one the work is about. */
function besideOf(work: Work, match: Found): string[] {
  if (work.type === 'spawn') return [match.root];
  const needs = needsOf(work.command);
  return [needs.parent ? match.parent : null, needs.tree ? match.root : null].filter((id) => id !== null);
}

/** What one batch has locked and loaded. */
class Scene {
  readonly #transaction: AgentTransaction;
  readonly #keys = new Map<string, AgentKey>();
  readonly #needs = new Map<
    string,
    { followUpIds: Set<string>; queue: boolean; checklist: boolean; children: boolean }
  >();
  readonly #counted = new Map<string, AgentKey & { root: string }>();
  #world = new World('');

  constructor(transaction: AgentTransaction) {
    this.#transaction = transaction;
  }

  get world(): World {
    return this.#world;
  }

  async lock(wanted: readonly Wanted[]): Promise<Found[]> {
    const found = await this.#transaction.lock(wanted);
    for (const f of found) if (f.locked) this.#keys.set(f.id, { tenant: f.tenant, id: f.id });
    return found;
  }

  /** Locks parents and roots for the whole batch at once. */
  async lockBeside(all: readonly { work: Work; matches: readonly Found[] }[]): Promise<void> {
    const beside = new Map<string, AgentKey>();
    for (const { work, matches } of all) {
      for (const match of matches) {
        for (const id of besideOf(work, match)) {
          if (!this.#keys.has(id)) beside.set(id, { tenant: match.tenant, id });
        }
      }
    }
    if (beside.size > 0) await this.lock([...beside.values()].map((key) => ({ key })));
  }

  /** Notes what the work needs loaded. False: something is held elsewhere, so not now. */
  async prepare(work: Work, matches: readonly Found[]): Promise<boolean> {
    for (const match of matches) {
      if (!match.locked || besideOf(work, match).some((id) => !this.#keys.has(id))) return false;
      if (work.type === 'spawn') {
        this.#counted.set(match.id, match);
        this.#counted.set(match.root, { tenant: match.tenant, id: match.root, root: match.root });
        continue;
      }
      const needs = needsOf(work.command);
      this.#need(match.id, needs);
      if (needs.parent && match.parent) this.#need(match.parent, { children: true });
      if (needs.tree && !(await this.#lockBelow(match, needs))) return false;
    }
    return true;
  }

  async #lockBelow(match: Found, needs: Needs): Promise<boolean> {
    const below = await this.#transaction.lockTree({ tenant: match.tenant, id: match.id }, match.root);
    for (const { key, locked } of below) {
      if (!locked) return false;
      this.#keys.set(key.id, key);
      this.#need(key.id, needs);
    }
    return true;
  }

  #need(id: string, needs: Needs): void {
    const known = this.#needs.get(id) ?? {
      followUpIds: new Set(),
      queue: false,
      checklist: false,
      children: false,
    };
    if (needs.followUpId !== undefined) known.followUpIds.add(needs.followUpId);
    known.queue ||= needs.queue ?? false;
    known.checklist ||= needs.checklist ?? false;
    known.children ||= needs.children ?? false;
    this.#needs.set(id, known);
  }

  /**
   * Loads everything that was locked, in one flight, and only the parts that are needed. The clock is read after the
   * last lock, so that times on one agent never go back.
   */
  async load(): Promise<void> {
    const transaction = this.#transaction;
    const keys = [...this.#keys.values()];
    const needing = (part: 'queue' | 'checklist' | 'children') =>
      keys.filter((k) => this.#needs.get(k.id)?.[part]);
    const ifAny = async <K, V>(
      some: K[],
      read: (keys: K[]) => Promise<Map<string, V>>,
    ): Promise<Map<string, V>> => (some.length > 0 ? read(some) : new Map());
    const named = keys.flatMap((k) =>
      [...(this.#needs.get(k.id)?.followUpIds ?? [])].map((followUpId) => ({ ...k, followUpId })),
    );
    const [now, states, byId, queues, checklists, children, live] = await Promise.all([
      transaction.now(),
      transaction.agents(keys),
      ifAny(named, (some) => transaction.followUps(some)),
      ifAny(needing('queue'), (some) => transaction.queues(some)),
      ifAny(needing('checklist'), (some) => transaction.checklists(some)),
      ifAny(needing('children'), (some) => transaction.children(some)),
      ifAny([...this.#counted.values()], (some) => transaction.liveDescendants(some)),
    ]);

    const world = new World(now);
    this.#world = world;
    for (const state of states) {
      const { id } = state.agent;
      const followUps = [...(byId.get(id) ?? []), ...(queues.get(id) ?? [])];
      world.add({
        ...state,
        followUps: new Map(followUps.map((f) => [f.id, f])),
        checklist: checklists.get(id) ?? state.checklist,
      });
      if (this.#needs.get(id)?.children) world.addChildren(id, children.get(id) ?? []);
    }
    for (const [id, count] of live) world.addLiveDescendants(id, count);
  }

  /** Spawns whose key another node is using right now. */
  async lockReplies(works: readonly Work[]): Promise<Set<Work>> {
    const keeping = works.filter((w) => w.type === 'spawn' && w.keep !== undefined);
    if (keeping.length === 0) return new Set();
    const locked = await this.#transaction.lockReplies(
      keeping.flatMap((w) => (w.type === 'spawn' && w.keep ? [w.keep] : [])),
    );
    return new Set(keeping.filter((_, i) => !locked[i]));
  }

  async keptReplies(works: readonly Work[]): Promise<Map<string, KeptReply>> {
    const keys = works.flatMap((w) => (w.type === 'spawn' && w.keep ? [w.keep] : []));
    const replies = keys.length > 0 ? await this.#transaction.replies(keys) : [];
    return new Map(replies.map((reply) => [replyId(reply), reply]));
  }

  /** The agent that a command means: the live one, else the newest. */
  target(wanted: Wanted, matches: readonly Found[]): AgentState | Refusal {
    if ('key' in wanted) {
      return this.world.get(wanted.key.id) ?? notFound('the agent does not exist');
    }
    const { identity } = wanted;
    const fresh = this.world.holder(identity);
    if (identity.workspace && fresh) return fresh;
    const states = matches.map((m) => this.world.get(m.id)).filter((s) => s !== undefined);
    return pickAgent(states, identity);
  }

  /** The parent a spawn means, or why there is none; null for a root. */
  parentOf({ identity }: SpawnAgent, matches: readonly Found[]): AgentState | Refusal | null {
    if (identity.path.length === 1) return null;
    const parentPath = identity.path.slice(0, -1).join('/');
    const states = matches
      .map((m) => this.world.get(m.id))
      .filter((s) => s !== undefined)
      .filter((s) => s.agent.path.join('/') === parentPath);
    const same = { ...identity, path: identity.path.slice(0, -1) };
    if (identity.workspace) {
      const here = this.world.holder(same);
      if (here) return here;
      return states[0]
        ? invalid('agentId.workspace', `the parent is in workspace "${states[0].agent.workspace}"`)
        : missingParent(identity.path);
    }
    return states.length === 0 ? missingParent(identity.path) : pickAgent(states, same);
  }
}

/** Of the holders of one path in several workspaces: the one that is live, else the newest. */
export function pickAgent<S extends { agent: Pick<AgentState['agent'], 'id' | 'phase' | 'workspace'> }>(
  states: readonly S[],
  identity: Identity,
): S | Refusal {
  if (states.length === 1 && states[0]) return states[0];
  const path = identity.path.join('/');
  const live = states.filter((s) => !isTerminal(s.agent.phase));
  if (live.length > 1) {
    const workspaces = live.map((s) => s.agent.workspace).sort();
    return invalid(
      'agentId.workspace',
      `${path} is in several workspaces: ${workspaces.join(', ')}; name one`,
    );
  }
  const newest = [...states].sort((a, b) => (a.agent.id < b.agent.id ? 1 : -1))[0];
  return live[0] ?? newest ?? notFound(`the agent ${path} does not exist`);
}
