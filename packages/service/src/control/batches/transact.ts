import { setImmediate as nextTurn } from 'node:timers/promises';
import { type AgentState, isLive } from '../../domain/agent.ts';
import { type Command, decide } from '../../domain/decide.ts';
import { type Effect, effectsOf } from '../../domain/decision.ts';
import type { AgentChange } from '../../domain/loaded-agents.ts';
import { alreadyExists, exhausted, isRefusal, type Refusal, tenantClosed } from '../../domain/refusal.ts';
import { isRolledBack, isTimeout, isUnavailable } from '../../lib/errors.ts';
import { heapBytesOf } from '../../lib/json.ts';
import {
  type AgentStore,
  IdentityTakenError,
  OverdrawnError,
  type StoredReply,
  type Wanted,
} from '../../store/agent-store.ts';
import {
  type LoadedBatch,
  loadBatch,
  nameOf,
  type ReplyOptions,
  replyId,
  type Submission,
  targetOf,
} from './load-batch.ts';
import { FairShare } from './tenant-limits.ts';

/**
 * Group commit. Every command on an agent passes through here.
 *
 * Commands that arrive while a batch is in flight form the next batch. One transaction locks all their agents and loads
 * what they need (`load-batch.ts`), decides each in order of arrival (a refusal is a reply, not an abort), writes table
 * by table and commits once. Effects are performed after the commit, never before.
 *
 * The next batch starts when the one before has ended, because large batches take less time per command. It starts earlier,
 * on another connection, beside a batch that is slow, or if it is as large and this node has nothing else to do. Commands
 * for an agent that a batch has named wait until that batch has ended, so that they are decided in order.
 *
 * Locks are taken without waiting. A command whose agent another batch or node holds goes into the next batch, so one
 * busy row never stalls the others and no two nodes can deadlock over agents that exist. After some tries that batch
 * starts when no other one of this node is in flight: otherwise a kill might never find its whole tree free.
 *
 * A batch that fails is tried again one command at a time, so that only the faulty command gets the error. If the
 * database is unavailable, all commands get the error immediately: one at a time, each would wait for the database.
 */
export interface Transact {
  /** Without `reply`, the reply is what was decided. */
  command<R>(target: Wanted, command: Command, reply?: ReplyOptions): Promise<R | Refusal>;
  /** Resolves when nothing is in flight. */
  idle(): Promise<void>;
}

interface Waiting extends Submission {
  /** Names its target, to keep the commands for one agent in order. */
  readonly agent: string;
  readonly bytes: number;
  readonly submittedMs: number;
  /** How many batches have found its agent locked. */
  tries: number;
  readonly resolve: (reply: unknown) => void;
  readonly reject: (error: unknown) => void;
}

export interface TransactOptions {
  readonly store: AgentStore;
  /** Called once per commit with what followed from it. */
  readonly perform: (effects: readonly Effect[]) => void;
  readonly onBatch?: ((size: number) => void) | undefined;
  /** Called with what a commit has changed. */
  readonly onCommit?: (changes: readonly AgentChange[]) => void;
  readonly onTransaction?: (outcome: 'committed' | 'failed', seconds: number) => void;
  /** After this time the next batch starts beside a batch, however small it is. */
  readonly slowBatchMs?: number;
  readonly maxBatch?: number;
  /** How many commands of callers, and how many of runners, may wait or be under way; tenants share them. */
  readonly maxWaiting?: number;
  /** The same in bytes of memory. */
  readonly maxWaitingBytes?: number;
  /** How long a command may wait for an agent that another node has locked. */
  readonly lockTimeoutMs?: number;
}

export class AgentLockedError extends Error {
  override readonly name = 'AgentLockedError';
}

const mebibyte = 1024 * 1024;

/** The size at which a batch takes no more commands. They are in memory several times while the batch is saved. */
const maxBatchBytes = 16 * mebibyte;

/** How many callers are answered in one turn of the event loop. */
const repliesPerTurn = 32;

/** A third one at the same time gains nothing. */
const maxInFlight = 2;

/** After this many tries, a command whose agent is locked goes into a batch that is in flight alone. */
const triesTogether = 3;

/** How long a batch is decided before the node serves other callers in between. */
const maxTurnMs = 20;

export function transact(options: TransactOptions): Transact {
  const commits = new GroupCommit(options);
  return {
    command: <R>(target: Wanted, command: Command, reply?: ReplyOptions) =>
      commits.submit({ target, command, reply }) as Promise<R | Refusal>,
    idle: () => commits.idle(),
  };
}

class GroupCommit {
  readonly #store: AgentStore;
  readonly #options: TransactOptions;
  readonly #shares;
  readonly #slowMs: number;
  #waiting: Waiting[] = [];
  /** The agents that the batches in flight have named. */
  readonly #named = new Set<string>();
  /** Batches in flight, and pauses before the next try. */
  readonly #running = new Set<Promise<void>>();
  #inFlight = 0;
  /** The batch that started last. */
  #newest = { size: 0, startMs: 0 };
  #isStarting = false;
  /** How many commands have arrived. */
  #arrived = 0;
  /** The next batch has a command that has found its agent locked again and again. */
  #isAlone = false;

  constructor(options: TransactOptions) {
    const { store, maxWaiting = 20_000, maxWaitingBytes = 128 * mebibyte, slowBatchMs = 20 } = options;
    const shares = () => ({ places: new FairShare(maxWaiting), bytes: new FairShare(maxWaitingBytes) });
    this.#store = store;
    this.#slowMs = slowBatchMs;
    this.#options = options;
    this.#shares = { caller: shares(), runner: shares() };
  }

  async submit(submission: Submission): Promise<unknown> {
    const { target, command } = submission;
    const sender = senderOf(command);
    if (!sender) return this.#enqueue(submission, 0);
    const tenant = tenantOf(target);
    const size = heapBytesOf(command);
    const { places, bytes } = this.#shares[sender];
    if (!places.take(tenant)) return exhausted('too many commands of this tenant are waiting; try again');
    if (!bytes.take(tenant, size)) {
      places.release(tenant);
      return exhausted('the commands of this tenant that are waiting are too large together; try again');
    }
    return this.#enqueue(submission, size).finally(() => {
      bytes.release(tenant, size);
      places.release(tenant);
    });
  }

  async idle(): Promise<void> {
    while (this.#running.size > 0 || this.#waiting.length > 0)
      await Promise.all([...this.#running, nextTurn()]);
  }

  #enqueue({ target, command, reply }: Submission, bytes: number): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const agent = nameOf(target);
      const submittedMs = Date.now();
      this.#startSoon();
      this.#arrived += 1;
      this.#waiting.push({ agent, target, command, reply, bytes, submittedMs, tries: 0, resolve, reject });
    });
  }

  #startSoon(): void {
    if (this.#isStarting) return;
    this.#isStarting = true;
    this.#startWhenQuiet(0);
  }

  /**
   * Commands of the same turn of the event loop share a batch. While a batch is in flight, the next one takes the commands
   * of all turns until one brings none: then this node has nothing else to do.
   */
  #startWhenQuiet(arrivedBefore: number): void {
    setImmediate(() => {
      const isQuiet = this.#arrived === arrivedBefore;
      if (this.#inFlight > 0 && !isQuiet) return this.#startWhenQuiet(this.#arrived);
      this.#isStarting = false;
      const { size, startMs } = this.#newest;
      const isSlow = Date.now() - startMs >= this.#slowMs;
      if (this.#inFlight === 0 || isSlow || this.#waiting.length >= size) this.#startNext();
    });
  }

  /** Starts a batch, unless one must end first: what arrives meanwhile shares the next. */
  #startNext(): void {
    if (this.#inFlight >= (this.#isAlone ? 1 : maxInFlight)) return;
    const batch = this.#takeBatch();
    if (batch.length === 0) return;
    this.#isAlone = false;
    this.#newest = { size: batch.length, startMs: Date.now() };
    const run = this.#complete(batch).finally(() => {
      this.#running.delete(run);
      if (this.#inFlight > 0) this.#startSoon();
      else this.#startNext();
    });
    this.#running.add(run);
  }

  /** The next batch; empty when all that waits is for agents of a batch in flight. */
  #takeBatch(): Waiting[] {
    const { maxBatch = 256 } = this.#options;
    const batch: Waiting[] = [];
    const rest: Waiting[] = [];
    let bytes = 0;
    for (const submission of this.#waiting) {
      if (batch.length === maxBatch || bytes >= maxBatchBytes || this.#named.has(submission.agent)) {
        rest.push(submission);
      } else {
        batch.push(submission);
        bytes += submission.bytes;
      }
    }
    this.#waiting = rest;
    return batch;
  }

  /** Commits a batch. What found its agent locked waits for the next one. */
  async #complete(batch: readonly Waiting[]): Promise<void> {
    for (const { agent } of batch) this.#named.add(agent);
    this.#inFlight += 1;
    const slow = setTimeout(() => this.#startNext(), this.#slowMs);
    const locked = (await this.#commit(batch)).filter((submission) => !this.#rejectIfLate(submission));
    clearTimeout(slow);
    this.#inFlight -= 1;
    for (const { agent } of batch) this.#named.delete(agent);
    if (locked.length === 0) return;
    const isIdle = this.#inFlight === 0 && this.#waiting.length === 0 && locked.length === batch.length;
    this.#waiting = [...locked, ...this.#waiting];
    for (const submission of locked) submission.tries += 1;
    this.#isAlone ||= locked.some(({ tries }) => tries >= triesTogether);
    if (isIdle) await new Promise((resolve) => setTimeout(resolve, 5));
  }

  #rejectIfLate({ submittedMs, reject }: Waiting): boolean {
    const { lockTimeoutMs = 10_000 } = this.#options;
    if (Date.now() - submittedMs < lockTimeoutMs) return false;
    reject(new AgentLockedError('the agent is locked by another node'));
    return true;
  }

  /** Commits a batch, answers its callers and returns what has to wait for the next one. */
  async #commit(batch: readonly Waiting[]): Promise<readonly Waiting[]> {
    this.#options.onBatch?.(batch.length);
    const startMs = performance.now();
    const end = (outcome: 'committed' | 'failed') =>
      this.#options.onTransaction?.(outcome, (performance.now() - startMs) / 1_000);
    try {
      const locked = await this.#decideAndSave(batch);
      end('committed');
      return locked;
    } catch (error) {
      end('failed');
      return await this.#commitAgain(batch, error);
    }
  }

  async #decideAndSave(batch: readonly Waiting[]): Promise<readonly Waiting[]> {
    const outcome = await this.#store.transaction(async (transaction) => {
      const loaded = await loadBatch(transaction, batch);
      const decided = await decideBatch(loaded);
      if (decided.changes.length > 0)
        transaction.save(decided.changes, decided.newReplies, loaded.agents.now);
      return { ...decided, locked: loaded.locked };
    });
    this.#options.perform(effectsOf(outcome.changes));
    this.#options.onCommit?.(outcome.changes);
    void answer(outcome.replies);
    return outcome.locked;
  }

  /** After an error: the commands one by one, or the error for all of them. */
  async #commitAgain(batch: readonly Waiting[], error: unknown): Promise<readonly Waiting[]> {
    if (batch.length > 1 && !isWithoutDatabase(error)) {
      const locked: Waiting[] = [];
      for (const one of batch) locked.push(...(await this.#commit([one])));
      return locked;
    }
    // An earlier try of the same request may have taken the identity: the next batch finds its stored reply. What another
    // transaction took of a budget is missing in the next decision.
    if (error instanceof IdentityTakenError || error instanceof OverdrawnError || isRolledBack(error))
      return batch;
    for (const submission of batch) submission.reject(error);
    return [];
  }
}

/** Answers after the next batch was sent: the database works meanwhile. */
async function answer(replies: ReadonlyMap<Waiting, unknown>): Promise<void> {
  let count = 0;
  for (const [submission, reply] of replies) {
    if (count++ % repliesPerTurn === 0) await nextTurn();
    submission.resolve(reply);
  }
}

/** Decides the commands of a batch in order. A later one works on what an earlier one has decided. */
async function decideBatch<S extends Submission>(batch: LoadedBatch<S>) {
  const { agents, closedTenants, replies: stored, ready } = batch;
  const changes: AgentChange[] = [];
  const replies = new Map<S, unknown>();
  const newReplies: StoredReply[] = [];
  let turnStartMs = Date.now();
  for (const { submission, matches } of ready) {
    if (Date.now() - turnStartMs >= maxTurnMs) {
      await nextTurn();
      turnStartMs = Date.now();
    }
    const { command, reply } = submission;
    const earlier = reply?.key && stored.get(replyId(reply.key));
    if (reply?.key && earlier) {
      replies.set(submission, repeatedReply(earlier, reply.key));
      continue;
    }
    const target = targetOf(agents, submission, matches);
    const isClosed = closedTenants.includes(tenantOf(submission.target)) && !mayFinish(command, target);
    const decision = isClosed ? tenantClosed() : decide(agents, command, target);
    if (isRefusal(decision)) {
      replies.set(submission, decision);
      continue;
    }
    agents.apply(decision.changes);
    changes.push(...decision.changes);
    const value = reply ? reply.of(decision.reply as AgentState) : decision.reply;
    replies.set(submission, value);
    if (reply?.key) {
      const newReply: StoredReply = { ...reply.key, reply: value };
      newReplies.push(newReply);
      stored.set(replyId(newReply), newReply);
    }
  }
  return { changes, replies, newReplies };
}

const tenantOf = (target: Wanted): number => ('key' in target ? target.key : target.identity).tenant;

/** In a closed tenant, runs that are live may end, with all that they do until then. */
const mayFinish = (command: Command, target: AgentState | Refusal | null): boolean =>
  command.type === 'report' ||
  senderOf(command) === null ||
  (target !== null && !isRefusal(target) && isLive(target.run));

/** A statement that took too long is the fault of a command, and what was rolled back is tried again. */
export const isWithoutDatabase = (error: unknown): boolean =>
  isUnavailable(error) && !isTimeout(error) && !isRolledBack(error);

const repeatedReply = (earlier: StoredReply, { key, digest }: { key: string; digest: string }): unknown =>
  earlier.digest === digest
    ? earlier.reply
    : alreadyExists(`Idempotency-Key: "${key}" was used with another body`);

/** Whose share a command takes; null for what the service does by itself, which is never refused. */
function senderOf({ type }: Command): 'caller' | 'runner' | null {
  switch (type) {
    case 'due':
    case 'lose':
    case 'acknowledgeChild':
    case 'block':
    case 'endBudgetWait':
      return null;
    case 'claim':
    case 'credit':
    case 'report':
      return 'runner';
    default:
      return 'caller';
  }
}
