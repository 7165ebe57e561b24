import { setImmediate as nextTurn } from 'node:timers/promises';
import type { AgentState } from '../domain/agent.ts';
import type { SpawnAgent } from '../domain/commands/spawn-agent.ts';
import type { AgentCommand } from '../domain/decide.ts';
import { type Effect, effectsOf } from '../domain/effects.ts';
import { exhausted, type Refusal } from '../domain/refusal.ts';
import { heapBytesOf } from '../lib/json.ts';
import {
  type AgentStore,
  CommitUnknownError,
  IdentityTakenError,
  type KeptReply,
  type Wanted,
} from '../store/agent-store.ts';
import { decideBatch, type KeepReply, type Work } from './decide-batch.ts';
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

interface Submission {
  readonly work: Work;
  readonly bytes: number;
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
  /** The same in bytes of memory. */
  readonly maxWaitingBytes?: number;
  /** How long a command may keep finding its agent held by another node. */
  readonly patienceMs?: number;
}

export class AgentLockedError extends Error {
  override readonly name = 'AgentLockedError';
}

const mebibyte = 1024 * 1024;

/** A batch takes no more commands when it has so many bytes: they are in memory several times while it is saved. */
const maxBatchBytes = 16 * mebibyte;

/** How many callers are answered in one turn of the event loop. */
const repliesPerTurn = 32;

export function transact(options: TransactOptions): Transact {
  const { store, perform, onBatch, maxBatch = 256, patienceMs = 10_000 } = options;
  const { maxWaiting = 20_000, maxWaitingBytes = 128 * mebibyte } = options;
  const shares = () => ({ places: new FairShare(maxWaiting), bytes: new FairShare(maxWaitingBytes) });
  const sharesOf = { caller: shares(), runner: shares() };
  let waiting: Submission[] = [];
  let running: Promise<void> | null = null;

  const enqueue = (work: Work, bytes: number): Promise<unknown> =>
    new Promise((resolve, reject) => {
      waiting.push({ work, bytes, submittedMs: Date.now(), resolve, reject });
      running ??= drain();
    });

  async function submit(work: Work): Promise<unknown> {
    const kind = placeOf(work);
    if (!kind) return enqueue(work, 0);
    const tenant = tenantOf(work);
    const size = heapBytesOf(work.command);
    const { places, bytes } = sharesOf[kind];
    if (!places.take(tenant)) return exhausted('too many commands of this tenant are waiting; try again');
    try {
      if (!bytes.take(tenant, size))
        return exhausted('the commands of this tenant that are waiting are too large together; try again');
      try {
        return await enqueue(work, size);
      } finally {
        bytes.release(tenant, size);
      }
    } finally {
      places.release(tenant);
    }
  }

  /** The next batch: at least one command. */
  function takeBatch(): Submission[] {
    let count = 0;
    let bytes = 0;
    do bytes += waiting[count++]?.bytes ?? 0;
    while (count < maxBatch && count < waiting.length && bytes < maxBatchBytes);
    const batch = waiting.slice(0, count);
    waiting = waiting.slice(count);
    return batch;
  }

  async function drain(): Promise<void> {
    // Commands of the same turn of the event loop share the first batch.
    await Promise.resolve();
    while (waiting.length > 0) {
      const batch = takeBatch();
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
    submission.reject(new AgentLockedError('the agent is held by another node'));
    return true;
  }

  /** Runs one batch and returns what has to wait for the next. */
  async function runBatch(batch: readonly Submission[]): Promise<Submission[]> {
    onBatch?.(batch.length);
    try {
      const outcome = await store.transaction((transaction) => decideBatch(transaction, batch));
      perform(effectsOf(outcome.changes));
      void answer(outcome.replies);
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

  /** The next batch goes out first; the store works while these are answered. */
  async function answer(replies: ReadonlyMap<Submission, unknown>): Promise<void> {
    let count = 0;
    for (const [submission, reply] of replies) {
      if (count++ % repliesPerTurn === 0) await nextTurn();
      submission.resolve(reply);
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
    case 'acknowledgeChild':
    case 'block':
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
