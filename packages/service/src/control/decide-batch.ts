import { setImmediate as nextTurn } from 'node:timers/promises';
import type { AgentState } from '../domain/agent.ts';
import { missingParent, type SpawnAgent, spawnAgent } from '../domain/commands/spawn-agent.ts';
import { type AgentCommand, decide, type Needs, needsOf } from '../domain/decide.ts';
import type { Decision } from '../domain/decision.ts';
import { type Change, LoadedAgents } from '../domain/loaded-agents.ts';
import { alreadyExists, invalid, isRefusal, notFound, type Refusal } from '../domain/refusal.ts';
import type { AgentKey, AgentTransaction, Found, KeptReply, ReplyKey, Wanted } from '../store/agent-store.ts';
import { pickAgent } from './pick-agent.ts';

/** Under which key the reply of a spawn is kept, so that a retry gets the same. */
export interface KeepReply extends ReplyKey {
  readonly digest: string;
  replyOf(state: AgentState): unknown;
}

export type Work =
  | { readonly type: 'command'; readonly target: Wanted; readonly command: AgentCommand }
  | { readonly type: 'spawn'; readonly command: SpawnAgent; readonly keep: KeepReply | undefined };

interface Submission {
  readonly work: Work;
}

interface Outcome<S> {
  readonly changes: Change[];
  readonly replies: Map<S, unknown>;
  /** What another node holds right now. */
  readonly held: S[];
}

/** After deciding for so long, the node serves others before it goes on. */
const mostTurnMs = 20;

/** Locks and loads what a batch needs, decides its work in order, and saves what follows. */
export async function decideBatch<S extends Submission>(
  transaction: AgentTransaction,
  batch: readonly S[],
): Promise<Outcome<S>> {
  const scene = new Scene(transaction);
  const wanted = batch.flatMap((s) => wantedBy(s.work).map((want) => ({ submission: s, want })));
  const found = await scene.lock(wanted.map((w) => w.want));
  const matches = new Map<S, Found[]>(batch.map((s) => [s, []]));
  for (const f of found) matches.get((wanted[f.wanted] as (typeof wanted)[number]).submission)?.push(f);

  const outcome: Outcome<S> = { changes: [], replies: new Map(), held: [] };
  const ready: S[] = [];
  await scene.lockBeside(batch.map((s) => ({ work: s.work, matches: matches.get(s) ?? [] })));
  const rivals = await scene.lockReplies(batch.map((s) => s.work));
  for (const submission of batch) {
    const isFree = !rivals.has(submission.work);
    if (isFree && (await scene.prepare(submission.work, matches.get(submission) ?? [])))
      ready.push(submission);
    else outcome.held.push(submission);
  }
  const [kept] = await Promise.all([scene.keptReplies(ready.map((s) => s.work)), scene.load()]);
  const loaded = scene.loaded;
  const newReplies: KeptReply[] = [];

  let turnStartMs = Date.now();
  for (const submission of ready) {
    if (Date.now() - turnStartMs >= mostTurnMs) {
      await nextTurn();
      turnStartMs = Date.now();
    }
    const { work } = submission;
    if (work.type === 'spawn' && work.keep) {
      const earlier = kept.get(replyId(work.keep));
      if (earlier) {
        outcome.replies.set(submission, repeated(earlier, work.keep));
        continue;
      }
    }
    const decision = decideOne(loaded, scene, work, matches.get(submission) ?? []);
    if (isRefusal(decision)) {
      outcome.replies.set(submission, decision);
      continue;
    }
    loaded.apply(decision.changes);
    outcome.changes.push(...decision.changes);
    outcome.replies.set(submission, decision.reply);
    if (work.type === 'spawn' && work.keep) {
      const { replyOf, ...key } = work.keep;
      const reply: KeptReply = { ...key, reply: replyOf(decision.reply as AgentState) };
      newReplies.push(reply);
      kept.set(replyId(key), reply);
    }
  }
  if (outcome.changes.length > 0) transaction.save(outcome.changes, newReplies, loaded.now);
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

function decideOne(
  loaded: LoadedAgents,
  scene: Scene,
  work: Work,
  matches: readonly Found[],
): Decision<unknown> {
  if (work.type === 'spawn') return spawnAgent(loaded, work.command, scene.parentOf(work.command, matches));
  const target = scene.target(work.target, matches);
  if (!isRefusal(target)) return decide(loaded, work.command, target);
  return work.command.type === 'queue' ? (work.command.invalid ?? target) : target;
}

/** The agents that have to be locked beside the one the work is about. */
function besideOf(work: Work, match: Found): string[] {
  if (work.type === 'spawn') return [match.root];
  const needs = needsOf(work.command);
  const needsRoot = needs.root || needs.tree;
  return [needs.parent ? match.parent : null, needsRoot ? match.root : null].filter((id) => id !== null);
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
  #loaded = new LoadedAgents('');

  constructor(transaction: AgentTransaction) {
    this.#transaction = transaction;
  }

  get loaded(): LoadedAgents {
    return this.#loaded;
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
        this.#countBelowRoot(match);
        continue;
      }
      const needs = needsOf(work.command);
      this.#need(match.id, needs);
      if (needs.parent && match.parent) this.#need(match.parent, { children: true });
      if (needs.root) this.#countBelowRoot(match);
      if (needs.tree && !(await this.#lockBelow(match, needs))) return false;
    }
    return true;
  }

  #countBelowRoot({ tenant, root }: Found): void {
    this.#counted.set(root, { tenant, id: root, root });
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

    const loaded = new LoadedAgents(now);
    this.#loaded = loaded;
    for (const state of states) {
      const { id } = state.agent;
      const followUps = [...(byId.get(id) ?? []), ...(queues.get(id) ?? [])];
      loaded.add({
        ...state,
        followUps: new Map(followUps.map((f) => [f.id, f])),
        checklist: checklists.get(id) ?? state.checklist,
      });
      if (this.#needs.get(id)?.children) loaded.addChildren(id, children.get(id) ?? []);
    }
    for (const [id, count] of live) loaded.addLiveDescendants(id, count);
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
      return this.loaded.get(wanted.key.id) ?? notFound('the agent does not exist');
    }
    const { identity } = wanted;
    const fresh = this.loaded.holder(identity);
    if (identity.workspace && fresh) return fresh;
    const states = matches.map((m) => this.loaded.get(m.id)).filter((s) => s !== undefined);
    return pickAgent(states, identity);
  }

  /** The parent a spawn means, or why there is none; null for a root. */
  parentOf({ identity }: SpawnAgent, matches: readonly Found[]): AgentState | Refusal | null {
    if (identity.path.length === 1) return null;
    const parentPath = identity.path.slice(0, -1).join('/');
    const states = matches
      .map((m) => this.loaded.get(m.id))
      .filter((s) => s !== undefined)
      .filter((s) => s.agent.path.join('/') === parentPath);
    const same = { ...identity, path: identity.path.slice(0, -1) };
    if (identity.workspace) {
      const here = this.loaded.holder(same);
      if (here) return here;
      return states[0]
        ? invalid('agentId.workspace', `the parent is in workspace "${states[0].agent.workspace}"`)
        : missingParent(identity.path);
    }
    return states.length === 0 ? missingParent(identity.path) : pickAgent(states, same);
  }
}
