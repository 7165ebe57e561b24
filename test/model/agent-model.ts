/**
 * The rules of an agent's life, written independently of the code under test: what is queued, what a run is given, and
 * the phase after a run has ended. It has no clock and creates no ids; the suite tells it what happened and compares
 * what it expects with what the service shows.
 */
export interface Message {
  readonly id: string;
  /** It changes a setting, so it begins a batch of its own. */
  readonly sets: boolean;
  readonly task: ModelTask | null;
}

export interface ModelTask {
  readonly id: string;
  readonly status: 'PENDING' | 'COMPLETED' | 'DELETED';
  readonly isEphemeral: boolean;
}

export interface Batch {
  readonly hasSpawn: boolean;
  readonly ids: readonly string[];
  readonly ephemeral: readonly string[];
}

export type Ending = 'COMPLETED' | 'QUESTION' | 'FINISHED' | Failure | 'PARKED' | 'HANDED_BACK' | 'LOST';
/** For good; a fault that passes; a fault that a person has to fix. */
type Failure = 'FAILED' | 'STUMBLED' | 'FAULTY';
export type Word = 'ask' | 'finish' | 'fail';

/** A batch that stumbles again after so many tries waits for a person. */
const mostStumbles = 5;
type Terminal = 'COMPLETED' | 'FAILED' | 'CANCELED';

export class ModelAgent {
  readonly path: string;
  readonly parent: ModelAgent | null;
  readonly children: ModelAgent[] = [];
  phase: 'PENDING' | 'RUNNING' | 'WAITING_FOR_INPUT' | Terminal = 'PENDING';
  reason = 'STARTING';
  runCount = 0;
  runState: '' | 'STARTING' | 'RUNNING' | 'STOPPING' | 'ENDED' = '';
  runOutcome = '';
  queue: Message[] = [];
  deferred: Message[] = [];
  tasks: ModelTask[];
  labels: Readonly<Record<string, string>> = {};
  unpushed: { readonly commits: number; readonly files: number } | null = null;
  isCheckpointed = false;
  batch: Batch | null = null;
  /** A killed turn's process has not been seen to die. */
  mayLive = false;
  isLimited = false;
  /** A batch that stumbled is not tried again yet. */
  isDelayed = false;
  /** The code of the error that it shows. */
  error = '';
  #isBlocked = false;
  #stumbles = 0;
  #spawnDue = true;
  #wokenByChildren = false;
  #waitedForChildren = false;
  #childNews = new Set<ModelAgent>();
  #lostInARow = 0;
  #preemptedBy = '';
  #interrupted = false;
  #question = false;
  #finished = false;
  /** What the live run has said of itself so far. */
  #said = new Set<Word>();

  constructor(path: string, parent: ModelAgent | null, tasks: ModelTask[]) {
    this.path = path;
    this.parent = parent;
    this.tasks = tasks;
    parent?.children.push(this);
  }

  get isOver(): boolean {
    return this.phase === 'COMPLETED' || this.phase === 'FAILED' || this.phase === 'CANCELED';
  }

  get isLive(): boolean {
    return this.phase === 'RUNNING';
  }

  get works(): boolean {
    return this.phase === 'PENDING' || this.phase === 'RUNNING';
  }

  get isClaimable(): boolean {
    const isRetried = this.reason === 'RETRYING' && !this.isDelayed;
    return this.phase === 'PENDING' && (this.reason === 'STARTING' || isRetried);
  }

  get descendants(): ModelAgent[] {
    return this.children.flatMap((child) => [child, ...child.descendants]);
  }

  knows(id: string): boolean {
    return [...this.queue, ...this.deferred].some((m) => m.id === id);
  }

  add(message: Message, preempt: boolean): void {
    if (preempt) this.#preempt(message.id);
    this.queue.push(message);
    this.#wake();
  }

  defer(message: Message): void {
    this.deferred.push(message);
    if (this.reason === 'RESTING') this.reason = 'DEFERRED';
  }

  fallDue(): void {
    if (this.deferred.length === 0) return;
    this.queue.push(...this.deferred);
    this.deferred = [];
    this.#wake();
  }

  #wake(): void {
    if (this.phase === 'WAITING_FOR_INPUT' || this.reason === 'CHILDREN') this.#pend('STARTING');
  }

  #preempt(by: string): void {
    this.queue = [];
    if (!this.isLive) {
      this.#abandon();
      if (this.reason === 'RETRYING') this.reason = 'STARTING';
      this.isDelayed = false;
      return;
    }
    this.#preemptedBy = by;
    if (this.runState === 'RUNNING') this.interrupt();
  }

  #abandon(): void {
    if (!this.batch) return;
    this.#spawnDue ||= this.batch.hasSpawn;
    this.#dropEphemeral();
    this.batch = null;
    this.#stumbles = 0;
    this.isDelayed = false;
  }

  #dropEphemeral(): void {
    this.tasks = this.tasks.filter((task) => !this.batch?.ephemeral.includes(task.id));
  }

  remove(id: string): boolean {
    if (!this.knows(id)) return false;
    this.queue = this.queue.filter((m) => m.id !== id);
    this.deferred = this.deferred.filter((m) => m.id !== id);
    if (this.#preemptedBy === id) this.#preemptedBy = '';
    this.#settleAnew();
    return true;
  }

  replace(message: Message, isDeferred: boolean): void {
    this.queue = this.queue.filter((m) => m.id !== message.id);
    this.deferred = this.deferred.filter((m) => m.id !== message.id);
    if (this.#preemptedBy === message.id) this.#preemptedBy = '';
    (isDeferred ? this.deferred : this.queue).push(message);
    this.#settleAnew();
    if (!isDeferred) this.#wake();
  }

  /** Whether it may be retried. */
  retry(): boolean {
    if (this.reason === 'BLOCKED') this.#pend('STARTING');
    else if (this.reason === 'RETRYING') this.isDelayed = false;
    else return false;
    return true;
  }

  /** Whether it may be reopened; one that lives stays as it is. */
  reopen(): boolean {
    if (!this.isOver) return true;
    if (this.phase === 'CANCELED' || this.parent?.isOver) return false;
    this.#rest('RESTING');
    this.error = '';
    this.#finished = false;
    this.#interrupted = false;
    this.#question = false;
    return true;
  }

  clear(): number {
    const cleared = this.queue.length;
    this.queue = [];
    if (cleared > 0) this.#preemptedBy = '';
    if (cleared > 0) this.#settleAnew();
    return cleared;
  }

  setTask(task: ModelTask): void {
    const place = this.tasks.findIndex((t) => t.id === task.id);
    if (place < 0) this.tasks.push(task);
    else this.tasks[place] = task;
    this.#settleAnew();
  }

  /** Something that kept it from resting has gone, or come. */
  #settleAnew(): void {
    if (this.isLive || this.isOver || this.reason === 'BLOCKED') return;
    if (this.phase === 'PENDING' && this.reason !== 'CHILDREN' && this.#hasWork()) return;
    this.#changing(() => this.#settle());
  }

  /** The next run and what it is given. */
  claim(): Batch {
    this.batch = this.batch && !this.#isBlocked ? this.batch : this.#nextBatch();
    this.#isBlocked = false;
    this.isDelayed = false;
    this.error = '';
    this.#spawnDue = false;
    this.#wokenByChildren = false;
    this.#waitedForChildren = false;
    this.#childNews.clear();
    this.#preemptedBy = '';
    this.#interrupted = false;
    this.#question = false;
    this.#finished = false;
    this.#said.clear();
    this.isLimited = false;
    this.runCount += 1;
    this.runState = 'STARTING';
    this.runOutcome = '';
    this.phase = 'RUNNING';
    this.reason = 'STARTING';
    return this.batch;
  }

  /** After BLOCKED the batch that was kept and everything that is queued. */
  #nextBatch(): Batch {
    const kept = this.batch;
    const given: Message[] = [];
    while (this.queue[0]) {
      const isFirst = given.length === 0 && !this.#spawnDue;
      if (this.queue[0].sets && !isFirst && !this.#isBlocked) break;
      given.push(this.queue.shift() as Message);
    }
    for (const { task } of given) if (task) this.tasks.push(task);
    const ephemeral = this.tasks.filter((t) => t.isEphemeral).map((t) => t.id);
    return {
      hasSpawn: this.#spawnDue || (kept?.hasSpawn ?? false),
      ids: [...(kept?.ids ?? []), ...given.map((m) => m.id)],
      ephemeral,
    };
  }

  started(): void {
    if (this.runState !== 'STARTING') return;
    this.runState = 'RUNNING';
    this.reason = 'WORKING';
  }

  say(word: Word): void {
    this.#said.add(word);
  }

  interrupt(): void {
    this.runState = 'STOPPING';
    this.reason = 'STOPPING';
  }

  killTurn(): void {
    this.mayLive = true;
    this.#changing(() => this.#end('KILLED'));
  }

  end(ending: Ending): void {
    const isTold = this.runState === 'STOPPING';
    const isOwnEnd = ending === 'COMPLETED' || ending === 'QUESTION' || ending === 'FINISHED';
    const hasFailed = isOwnEnd && this.#said.has('fail');
    this.#changing(() => this.#end(isTold ? 'INTERRUPTED' : hasFailed ? 'FAILED' : ending, hasFailed));
  }

  #end(ending: Ending | 'INTERRUPTED' | 'KILLED', hasSaidSo = false): void {
    const preemptedBy = this.#preemptedBy;
    this.#preemptedBy = '';
    this.runState = 'ENDED';
    const isFailure = ending === 'STUMBLED' || ending === 'FAULTY';
    const isSaying = ending === 'QUESTION' || ending === 'FINISHED';
    this.runOutcome = isSaying ? 'COMPLETED' : isFailure ? 'FAILED' : ending;
    this.error = '';
    this.#interrupted = ending === 'INTERRUPTED' || ending === 'KILLED';
    const isOwnEnd = this.runOutcome === 'COMPLETED';
    this.#question = isOwnEnd && (ending === 'QUESTION' || this.#said.has('ask'));
    this.#finished = isOwnEnd && (ending === 'FINISHED' || this.#said.has('finish'));
    this.#lostInARow = ending === 'LOST' ? this.#lostInARow + 1 : 0;
    if (ending === 'LOST' && this.#lostInARow === 3) return this.#block('RUNNER_LOST');
    if (ending === 'FAULTY') return this.#block('PROVIDER_KEY_REFUSED');
    if (ending === 'STUMBLED' && this.#stumbles === mostStumbles) return this.#block('GIT_UNREACHABLE');
    if (ending === 'STUMBLED') {
      this.#stumbles += 1;
      this.error = 'GIT_UNREACHABLE';
    }
    if (ending === 'LOST' || ending === 'HANDED_BACK' || ending === 'PARKED' || ending === 'STUMBLED') {
      this.isLimited = ending === 'PARKED';
      this.isDelayed = ending === 'STUMBLED';
      if (preemptedBy === '' || this.queue.length === 0) return this.#pend('RETRYING');
      this.#abandon();
      return this.#settle();
    }
    this.#dropEphemeral();
    this.batch = null;
    this.#stumbles = 0;
    if (ending === 'FAILED') {
      this.error = hasSaidSo ? 'AGENT_FAILED' : 'REHEARSED_FAILURE';
      return this.#finish('FAILED', 'ERROR');
    }
    this.#settle();
  }

  #block(error: string): void {
    this.error = error;
    this.#isBlocked = true;
    this.#lostInARow = 0;
    this.#stumbles = 0;
    this.#rest('BLOCKED');
  }

  /** The process of a killed turn is dead. */
  gone(): void {
    this.mayLive = false;
    if (this.phase === 'PENDING' && this.reason === 'STOPPING') this.#pend('STARTING');
  }

  delayEnds(): void {
    this.isDelayed = false;
  }

  limitEnds(): void {
    this.isLimited = false;
    if (this.reason === 'PROVIDER_LIMIT') this.reason = 'STARTING';
  }

  kill(): void {
    const doomed = [this, ...this.descendants].filter((agent) => !agent.isOver);
    for (const agent of doomed) {
      if (agent.isLive) {
        agent.mayLive = true;
        agent.runState = 'ENDED';
        agent.runOutcome = 'KILLED';
      }
      agent.#dropEphemeral();
    }
    this.#changing(() => {
      for (const agent of doomed) agent.#finish('CANCELED', agent === this ? 'KILLED' : 'PARENT_KILLED');
    });
  }

  #hasWork(): boolean {
    const hasNews = this.#childNews.size > 0 && !this.#interrupted && !this.#question;
    return this.queue.length > 0 || this.batch !== null || this.#spawnDue || this.#wokenByChildren || hasNews;
  }

  #settle(): void {
    if (this.#hasWork()) return this.#pend('STARTING');
    if (this.#isBlocked) return this.#rest('BLOCKED');
    if (this.#interrupted) return this.#rest('INTERRUPTED');
    if (this.#question) return this.#rest('QUESTION');
    if (this.tasks.some((task) => task.status === 'PENDING')) return this.#rest('TASKS_UNFINISHED');
    if (this.children.some((child) => child.works)) {
      this.phase = 'PENDING';
      this.reason = 'CHILDREN';
      this.#waitedForChildren = true;
      return;
    }
    if (this.#finished && this.deferred.length === 0) return this.#finish('COMPLETED', 'FINISHED');
    this.#rest(this.deferred.length > 0 ? 'DEFERRED' : 'RESTING');
  }

  #rest(reason: string): void {
    this.phase = 'WAITING_FOR_INPUT';
    this.reason = reason;
  }

  #pend(reason: string): void {
    this.phase = 'PENDING';
    this.reason = this.mayLive ? 'STOPPING' : this.isLimited ? 'PROVIDER_LIMIT' : reason;
  }

  #finish(phase: Terminal, reason: string): void {
    this.phase = phase;
    this.reason = reason;
    this.queue = [];
    this.deferred = [];
    this.batch = null;
    this.#spawnDue = false;
    this.#isBlocked = false;
    this.isDelayed = false;
  }

  /** A parent hears of it when this agent stops working. */
  #changing(change: () => void): void {
    const worked = this.works;
    change();
    if (worked && !this.works) this.parent?.hear(this);
  }

  hear(child: ModelAgent): void {
    if (this.isOver) return;
    if (this.isLive) {
      this.#childNews.add(child);
      return;
    }
    if (this.phase !== 'PENDING' || !this.#waitedForChildren) return;
    const asks = child.#question || child.reason === 'BLOCKED';
    const wakes = asks || child.phase === 'FAILED' || !this.children.some((c) => c.works);
    if (!wakes) return;
    this.#wokenByChildren = true;
    if (this.reason === 'CHILDREN') this.#pend('STARTING');
  }
}
