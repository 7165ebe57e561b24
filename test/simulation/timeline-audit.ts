import { isTerminal, type Phase, type PhaseReason, type RunOutcome } from '@muster/sdk/contract';
import type { Entry } from '../../packages/service/src/domain/agent.ts';

/** An invariant that does not hold, by its name in GUARANTEES.md. */
export class Violation extends Error {
  override readonly name = 'Violation';
  readonly invariant: string;

  constructor(invariant: string, detail: string) {
    super(`${invariant}: ${detail}`);
    this.invariant = invariant;
  }
}

export function holds(condition: boolean, invariant: string, detail: () => string): void {
  if (!condition) throw new Violation(invariant, detail());
}

interface Undelivered {
  state: 'QUEUED' | 'DEFERRED';
  readonly deliverAt: string | null;
}

interface TriedBatch {
  readonly id: number;
  readonly spawn: boolean;
  readonly followUpIds: readonly string[];
}

/** Their batch is kept, unless the agent ends with the run. */
const retried: readonly string[] = ['LOST', 'PARKED', 'HANDED_BACK', 'FAILED'] satisfies RunOutcome[];
const restedByRule: readonly string[] = ['RESTING', 'DEFERRED', 'FINISHED'] satisfies PhaseReason[];

/** A person resolves a thread or opens it again, which an agent that has ended takes, too. */
const isResolving = ({ type, text }: Entry): boolean =>
  type === 'THREADS_CHANGED' && (text === 'resolved' || text === 'open');

/**
 * Replays a timeline, independently of the code under test: which messages were admitted, delivered, cleared or removed,
 * and which run was live. An entry that can't follow those before it violates an invariant; the result must equal the
 * agent's row.
 */
export class TimelineAudit {
  sequence = 0;
  at = '';
  phase: Phase = 'PHASE_UNSPECIFIED';
  reason: PhaseReason = 'STARTING';
  run = 0;
  live = false;
  admitted = 0;
  delivered = 0;
  cleared = 0;
  removed = 0;
  /** Ids of the queued, in the order of delivery. */
  queue: string[] = [];
  readonly undelivered = new Map<string, Undelivered>();
  /** Delivered ids never come back; cleared ones may be used again. */
  readonly settled = new Map<string, 'DELIVERED' | 'CLEARED'>();
  readonly #overrides: (followUpId: string) => boolean;
  #delivering: string[] = [];
  #batch: TriedBatch | null = null;
  #awaiting: TriedBatch | null = null;
  #spawnDue = true;
  #preempting: string | null = null;
  /** It was BLOCKED, or out of budget, since its last run: the next one takes everything that is queued. */
  #wasBlocked = false;
  /** The message that replaces an abandoned batch and must be queued by the same commit. */
  #abandonedFor: string | null = null;
  #ending = false;
  #waitedForChildren = false;

  constructor(overrides: (followUpId: string) => boolean) {
    this.#overrides = overrides;
  }

  take(entry: Entry): void {
    const where = () => `entry ${entry.sequence} ${entry.type} after ${this.sequence}`;
    holds(entry.sequence === this.sequence + 1, 'TimelineOrder', where);
    holds(entry.at >= this.at, 'TimelineOrder', () => `${where()} is older`);
    const mayFollowEnd = entry.type === 'PROCESS_GONE' || isResolving(entry) || this.#isReopening(entry);
    holds(!isTerminal(this.phase) || mayFollowEnd, 'KillIsFinal', () => `${where()} ended`);
    this.sequence = entry.sequence;
    this.at = entry.at;
    switch (entry.type) {
      case 'PHASE_CHANGED':
        return this.#movePhase(entry);
      case 'RUN_STARTED':
        return this.#startRun(entry);
      case 'RUN_ENDED':
        return this.#endRun(entry);
      case 'BATCH_ABANDONED':
        return this.#abandon(entry);
      case 'FOLLOW_UP_DEFERRED':
      case 'FOLLOW_UP_QUEUED':
        return this.#admit(entry);
      case 'FOLLOW_UP_DELIVERED':
        return this.#deliver(entry);
      case 'FOLLOW_UP_CLEARED':
        return this.#clear(entry);
      case 'FOLLOW_UP_REMOVED':
        return this.#remove(entry);
      case 'QUEUE_ORDERED':
        return this.#order(entry);
      default:
        return;
    }
  }

  /** Only a kill is final. */
  #isReopening({ type, data }: Entry): boolean {
    const comesBack = data.to === 'PHASE_WAITING_FOR_INPUT' && data.reason === 'RESTING';
    return type === 'PHASE_CHANGED' && this.phase !== 'PHASE_CANCELED' && comesBack;
  }

  /** Called at the end of a commit: changes of several entries must be complete. */
  atCommit(): void {
    holds(
      this.#abandonedFor === null,
      'BlockedKeeps',
      () => `a batch was given up for ${this.#abandonedFor}, which is not queued`,
    );
    holds(this.#preempting === null, 'PreemptAtomic', () => `${this.#preempting} cleared, but is not queued`);
    holds(!this.#ending, 'NoStrandedQueue', () => 'messages were cleared for an end that did not come');
    const known = this.undelivered.size + this.delivered + this.cleared + this.removed;
    holds(this.admitted === known, 'NeverLost', () => `${this.admitted} admitted, ${known} known`);
  }

  #movePhase({ data }: Entry): void {
    const to = data.to as Phase;
    const reason = data.reason as PhaseReason;
    holds(
      data.from === this.phase && data.fromReason === this.reason,
      'TimelineOrder',
      () => `from ${data.from}/${data.fromReason}, was ${this.phase}/${this.reason}`,
    );
    holds(
      this.reason !== 'BLOCKED' || !this.#awaiting || to === 'PHASE_PENDING' || to === 'PHASE_CANCELED',
      'BlockedKeeps',
      () => `batch ${this.#awaiting?.id} was kept, and the agent went from BLOCKED to ${to}`,
    );
    if (reason === 'BLOCKED' || reason === 'BUDGET') this.#wasBlocked = true;
    if (isTerminal(to)) {
      this.#awaiting = null;
      this.#spawnDue = false;
      this.#wasBlocked = false;
    }
    if (reason === 'CHILDREN') this.#waitedForChildren = true;
    if (reason === 'TASKS_UNFINISHED') this.#waitedForChildren = false;
    holds(
      !(this.#waitedForChildren && restedByRule.includes(reason)),
      'ChildrenWake',
      () => `waited for its children and came to ${reason} without a run that learned of them`,
    );
    if (this.#ending) holds(isTerminal(to), 'NoStrandedQueue', () => `cleared for an end, but went to ${to}`);
    this.#ending = false;
    this.phase = to;
    this.reason = reason;
  }

  #startRun({ runId, data }: Entry): void {
    const followUpIds = data.followUpIds as string[];
    holds(!this.live, 'OneLiveRun', () => `run ${runId} started during run ${this.run}`);
    holds(runId === this.run + 1, 'RunNumbersRise', () => `run ${runId} after ${this.run}`);
    const batch = Number(data.batch);
    const again = data.attempt !== 1;
    if (again) {
      const expected = [...(this.#awaiting?.followUpIds ?? []), ...this.#delivering];
      const same = this.#awaiting?.id === batch && expected.join() === followUpIds.join();
      holds(same, 'SameBatch', () => `run ${runId} tries batch ${batch}, not ${this.#awaiting?.id}`);
      holds(
        this.#delivering.length === 0 || this.#wasBlocked,
        'SameBatch',
        () => `run ${runId} was given more: ${this.#delivering}`,
      );
      this.#batch = this.#awaiting && { ...this.#awaiting, followUpIds };
    } else {
      holds(this.#awaiting === null, 'SameBatch', () => `batch ${this.#awaiting?.id} was forgotten`);
      holds(batch === runId, 'SameBatch', () => `run ${runId} began batch ${batch}`);
      holds(
        followUpIds.join() === this.#delivering.join(),
        'DeliveredAtMostOnce',
        () => `run ${runId} has ${followUpIds}, delivered were ${this.#delivering}`,
      );
      const next = this.queue[0];
      holds(
        next === undefined || this.#overrides(next),
        'WholeBatch',
        () => `run ${runId} left ${next} behind, which sets nothing`,
      );
      this.#batch = { id: batch, spawn: this.#spawnDue, followUpIds };
      this.#spawnDue = false;
    }
    holds(
      !this.#wasBlocked || this.queue.length === 0,
      'BlockedKeeps',
      () => `run ${runId} follows BLOCKED and left ${this.queue} behind`,
    );
    this.#wasBlocked = false;
    this.#awaiting = null;
    this.#delivering = [];
    this.#waitedForChildren = false;
    this.run = runId;
    this.live = true;
  }

  #endRun({ runId, data }: Entry): void {
    holds(this.live && runId === this.run, 'FencedWrites', () => `run ${runId} ended, live was ${this.run}`);
    this.live = false;
    this.#awaiting = retried.includes(String(data.outcome)) ? this.#batch : null;
    this.#batch = null;
  }

  #abandon({ data, followUpId }: Entry): void {
    if (!this.queue.includes(followUpId)) this.#abandonedFor = followUpId;
    const awaiting = this.#awaiting;
    holds(
      awaiting !== null && awaiting.id === Number(data.batch),
      'SameBatch',
      () => `batch ${data.batch} abandoned, ${awaiting?.id} waited`,
    );
    this.#spawnDue ||= awaiting?.spawn ?? false;
    this.#awaiting = null;
  }

  #admit({ type, at, data, followUpId }: Entry): void {
    const state = type === 'FOLLOW_UP_QUEUED' ? 'QUEUED' : 'DEFERRED';
    const known = this.undelivered.get(followUpId);
    if (data.from === 'DEFERRED') {
      const due = known?.deliverAt ?? null;
      holds(known?.state === 'DEFERRED', 'NeverLost', () => `${followUpId} was not deferred`);
      holds(due !== null && due <= at, 'NotBefore', () => `${followUpId} is due ${due}, came ${at}`);
    } else {
      const isDelivered = this.settled.get(followUpId) === 'DELIVERED';
      holds(!known && !isDelivered, 'Replay', () => `${followUpId} was admitted twice`);
      this.settled.delete(followUpId);
      this.admitted += 1;
    }
    const deliverAt = (data.deliverAt as string | undefined) ?? known?.deliverAt ?? null;
    this.undelivered.set(followUpId, { state, deliverAt });
    if (state === 'QUEUED') this.queue.push(followUpId);
    if (this.#preempting === followUpId) this.#preempting = null;
    if (this.#abandonedFor === followUpId) this.#abandonedFor = null;
  }

  #deliver({ followUpId, runId, data }: Entry): void {
    if (data.steer === true) return this.#steer(followUpId, runId);
    const known = this.undelivered.get(followUpId);
    holds(!this.settled.has(followUpId), 'DeliveredAtMostOnce', () => `${followUpId} came again`);
    holds(known?.state === 'QUEUED', 'NotBefore', () => `${followUpId} was ${known?.state}`);
    holds(this.queue[0] === followUpId, 'InOrder', () => `${followUpId} came before ${this.queue[0]}`);
    holds(!this.live && runId === this.run + 1, 'DeliveredAtMostOnce', () => `${followUpId} to run ${runId}`);
    const isFirst = this.#delivering.length === 0 && !this.#spawnDue;
    holds(
      isFirst || this.#wasBlocked || !this.#overrides(followUpId),
      'WholeBatch',
      () => `${followUpId} sets, but is not first`,
    );
    this.queue.shift();
    this.undelivered.delete(followUpId);
    this.settled.set(followUpId, 'DELIVERED');
    this.#delivering.push(followUpId);
    this.delivered += 1;
  }

  /** A message that the running turn took: it may overtake, and it joins the batch of the run. */
  #steer(followUpId: string, runId: number): void {
    const known = this.undelivered.get(followUpId);
    holds(!this.settled.has(followUpId), 'DeliveredAtMostOnce', () => `${followUpId} came again`);
    holds(known?.state === 'QUEUED', 'NotBefore', () => `${followUpId} was ${known?.state}`);
    holds(
      this.live && runId === this.run,
      'FencedWrites',
      () => `${followUpId} to run ${runId}, not ${this.run}`,
    );
    holds(!this.#overrides(followUpId), 'WholeBatch', () => `${followUpId} sets, and was steered`);
    this.queue.splice(this.queue.indexOf(followUpId), 1);
    this.undelivered.delete(followUpId);
    this.settled.set(followUpId, 'DELIVERED');
    if (this.#batch) this.#batch = { ...this.#batch, followUpIds: [...this.#batch.followUpIds, followUpId] };
    this.delivered += 1;
  }

  #clear({ followUpId, data }: Entry): void {
    const state = this.#forget(followUpId, String(data.from));
    const isAsked = data.reason === 'CLEARED' || data.reason === 'PREEMPTED';
    holds(!isAsked || state === 'QUEUED', 'ClearSparesDeferred', () => `${followUpId} was deferred`);
    if (data.reason === 'PREEMPTED') this.#preempting = String(data.by);
    if (!isAsked) this.#ending = true;
    this.settled.set(followUpId, 'CLEARED');
    this.cleared += 1;
  }

  #remove({ followUpId, data }: Entry): void {
    this.#forget(followUpId, String(data.from));
    this.removed += 1;
  }

  #order({ data }: Entry): void {
    const order = data.followUpIds as string[];
    const isSame = order.toSorted().join() === this.queue.toSorted().join();
    holds(isSame, 'NeverLost', () => `${this.queue} became ${order}`);
    this.queue = [...order];
  }

  #forget(followUpId: string, from: string): string {
    const state = this.undelivered.get(followUpId)?.state ?? '';
    holds(state !== '' && state === from, 'NeverLost', () => `${followUpId} left ${from}, was "${state}"`);
    this.undelivered.delete(followUpId);
    const place = this.queue.indexOf(followUpId);
    if (place >= 0) this.queue.splice(place, 1);
    return state;
  }
}
