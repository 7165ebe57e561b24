/**
 * The rules of an agent, written independently of the code under test: what is queued, what a run is given, and the
 * phase after a run has ended. It has no clock and creates no ids; the suite applies each step to it and compares its
 * state with what the service shows.
 */
export interface Message {
  readonly id: string;
  /** It changes a setting, so it starts a new batch. */
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
/** Final; retried by the service; blocks the agent until a person acts. */
type Failure = 'FAILED' | 'TEMPORARY_ERROR' | 'BLOCKING_ERROR';
export type Declaration = 'ask' | 'finish' | 'fail';

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
  unpushed: { readonly commits: number; readonly files: number; readonly isSaved: boolean } | null = null;
  isCheckpointed = false;
  batch: Batch | null = null;
  /** The exit of a killed turn's process is not confirmed yet. */
  mayStillRun = false;
  isLimited = false;
  /** The delay before the next retry has not passed. */
  isDelayed = false;
  /** The code of the error in its status. */
  error = '';
  #isBlocked = false;
  /** Its batch has failed temporarily: at all, and for a day. */
  #isFailing = false;
  #isFailingForADay = false;
  #spawnDue = true;
  #wokenByChildren = false;
  #waitedForChildren = false;
  #settledChildren = new Set<ModelAgent>();
  #lostInARow = 0;
  #preemptedBy = '';
  #interrupted = false;
  #question = false;
  #finished = false;
  /** It finished in an earlier run, and only its children have woken it since. */
  #wasFinished = false;
  /** What the live run has declared so far. */
  #declared = new Set<Declaration>();

  constructor(path: string, parent: ModelAgent | null, tasks: ModelTask[]) {
    this.path = path;
    this.parent = parent;
    this.tasks = tasks;
    parent?.children.push(this);
  }

  get hasEnded(): boolean {
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

  hasUndelivered(id: string): boolean {
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

  makeDue(): void {
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
      if (this.reason === 'RETRYING' || this.reason === 'PROVIDER_LIMIT') this.reason = 'STARTING';
      this.isDelayed = false;
      this.isLimited = false;
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
    this.#recover();
    this.isDelayed = false;
  }

  #dropEphemeral(): void {
    this.tasks = this.tasks.filter((task) => !this.batch?.ephemeral.includes(task.id));
  }

  remove(id: string): boolean {
    if (!this.hasUndelivered(id)) return false;
    this.queue = this.queue.filter((m) => m.id !== id);
    this.deferred = this.deferred.filter((m) => m.id !== id);
    if (this.#preemptedBy === id) this.#preemptedBy = '';
    this.#settleAgain();
    return true;
  }

  replace(message: Message, isDeferred: boolean): void {
    this.queue = this.queue.filter((m) => m.id !== message.id);
    this.deferred = this.deferred.filter((m) => m.id !== message.id);
    if (this.#preemptedBy === message.id) this.#preemptedBy = '';
    (isDeferred ? this.deferred : this.queue).push(message);
    this.#settleAgain();
    if (!isDeferred) this.#wake();
  }

  order(ids: readonly string[]): void {
    this.queue = ids.flatMap((id) => this.queue.filter((m) => m.id === id));
  }

  /** Whether it may be retried. */
  retry(): boolean {
    if (this.reason === 'BLOCKED') this.#pend('STARTING');
    else if (this.reason === 'RETRYING') this.isDelayed = false;
    else if (this.reason === 'PROVIDER_LIMIT') this.limitEnds();
    else return false;
    return true;
  }

  /** Whether it may be reopened; a live agent is not changed. */
  reopen(): boolean {
    if (!this.hasEnded) return true;
    if (this.phase === 'CANCELED' || this.parent?.hasEnded) return false;
    this.#becomeIdle('RESTING');
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
    if (cleared > 0) this.#settleAgain();
    return cleared;
  }

  setTask(task: ModelTask): void {
    const place = this.tasks.findIndex((t) => t.id === task.id);
    if (place < 0) this.tasks.push(task);
    else this.tasks[place] = task;
    this.#settleAgain();
  }

  /** A message or task that decides whether the agent is idle was added or removed. */
  #settleAgain(): void {
    if (this.isLive || this.hasEnded || this.reason === 'BLOCKED') return;
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
    this.#settledChildren.clear();
    this.#preemptedBy = '';
    this.#interrupted = false;
    this.#question = false;
    this.#wasFinished =
      this.batch.ids.length === 0 && !this.batch.hasSpawn && (this.#finished || this.#wasFinished);
    this.#finished = false;
    this.#declared.clear();
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

  declare(declaration: Declaration): void {
    this.#declared.add(declaration);
  }

  interrupt(): void {
    this.runState = 'STOPPING';
    this.reason = 'STOPPING';
  }

  killTurn(): void {
    this.mayStillRun = true;
    this.#changing(() => this.#end('KILLED'));
  }

  end(ending: Ending): void {
    const isStopping = this.runState === 'STOPPING';
    const isOwnEnd = ending === 'COMPLETED' || ending === 'QUESTION' || ending === 'FINISHED';
    const hasFailed = isOwnEnd && this.#declared.has('fail');
    this.#changing(() => this.#end(isStopping ? 'INTERRUPTED' : hasFailed ? 'FAILED' : ending, hasFailed));
  }

  #end(ending: Ending | 'INTERRUPTED' | 'KILLED', hasDeclared = false): void {
    const preemptedBy = this.#preemptedBy;
    this.#preemptedBy = '';
    this.runState = 'ENDED';
    const isFailure = ending === 'TEMPORARY_ERROR' || ending === 'BLOCKING_ERROR';
    const isDeclared = ending === 'QUESTION' || ending === 'FINISHED';
    this.runOutcome = isDeclared ? 'COMPLETED' : isFailure ? 'FAILED' : ending;
    this.error = '';
    this.#interrupted = ending === 'INTERRUPTED' || ending === 'KILLED';
    const isOwnEnd = this.runOutcome === 'COMPLETED';
    this.#question = isOwnEnd && (ending === 'QUESTION' || this.#declared.has('ask'));
    this.#finished = isOwnEnd && (ending === 'FINISHED' || this.#declared.has('finish') || this.#wasFinished);
    this.#lostInARow = ending === 'LOST' ? this.#lostInARow + 1 : 0;
    if (ending === 'LOST' && this.#lostInARow === 3) return this.#block('RUNNER_LOST');
    if (ending === 'BLOCKING_ERROR') return this.#block('PROVIDER_KEY_REFUSED');
    if (ending === 'TEMPORARY_ERROR' && this.#isFailingForADay) return this.#block('GIT_UNREACHABLE');
    if (ending === 'TEMPORARY_ERROR') {
      this.#isFailing = true;
      this.error = 'GIT_UNREACHABLE';
    }
    if (
      ending === 'LOST' ||
      ending === 'HANDED_BACK' ||
      ending === 'PARKED' ||
      ending === 'TEMPORARY_ERROR'
    ) {
      this.isLimited = ending === 'PARKED';
      this.isDelayed = ending === 'TEMPORARY_ERROR';
      if (preemptedBy === '' || this.queue.length === 0) return this.#pend('RETRYING');
      this.#abandon();
      return this.#settle();
    }
    this.#dropEphemeral();
    this.batch = null;
    this.#recover();
    if (ending === 'FAILED') {
      this.error = hasDeclared ? 'AGENT_FAILED' : 'REHEARSED_FAILURE';
      return this.#finish('FAILED', 'ERROR');
    }
    this.#settle();
  }

  #block(error: string): void {
    this.error = error;
    this.#isBlocked = true;
    this.#lostInARow = 0;
    this.#recover();
    this.#becomeIdle('BLOCKED');
  }

  /** The process of a killed turn has exited. */
  gone(): void {
    this.mayStillRun = false;
    if (this.phase === 'PENDING' && this.reason === 'STOPPING') this.#pend('STARTING');
  }

  failsForADay(): void {
    this.#isFailingForADay = this.#isFailing;
  }

  #recover(): void {
    this.#isFailing = false;
    this.#isFailingForADay = false;
  }

  delayEnds(): void {
    this.isDelayed = false;
  }

  limitEnds(): void {
    this.isLimited = false;
    if (this.reason === 'PROVIDER_LIMIT') this.reason = 'STARTING';
  }

  kill(): void {
    const killed = [this, ...this.descendants].filter((agent) => !agent.hasEnded);
    for (const agent of killed) {
      if (agent.isLive) {
        agent.mayStillRun = true;
        agent.runState = 'ENDED';
        agent.runOutcome = 'KILLED';
      }
      agent.#dropEphemeral();
    }
    this.#changing(() => {
      for (const agent of killed) agent.#finish('CANCELED', agent === this ? 'KILLED' : 'PARENT_KILLED');
    });
  }

  #hasWork(): boolean {
    const hasNews = this.#settledChildren.size > 0 && !this.#interrupted && !this.#question;
    return this.queue.length > 0 || this.batch !== null || this.#spawnDue || this.#wokenByChildren || hasNews;
  }

  #settle(): void {
    if (this.#hasWork()) return this.#pend('STARTING');
    if (this.#isBlocked) return this.#becomeIdle('BLOCKED');
    if (this.#interrupted) return this.#becomeIdle('INTERRUPTED');
    if (this.#question) return this.#becomeIdle('QUESTION');
    if (this.tasks.some((task) => task.status === 'PENDING')) return this.#becomeIdle('TASKS_UNFINISHED');
    if (this.children.some((child) => child.works)) {
      this.phase = 'PENDING';
      this.reason = 'CHILDREN';
      this.#waitedForChildren = true;
      return;
    }
    if (this.#finished && this.deferred.length === 0) return this.#finish('COMPLETED', 'FINISHED');
    this.#becomeIdle(this.deferred.length > 0 ? 'DEFERRED' : 'RESTING');
  }

  #becomeIdle(reason: string): void {
    this.phase = 'WAITING_FOR_INPUT';
    this.reason = reason;
  }

  #pend(reason: string): void {
    this.phase = 'PENDING';
    this.reason = this.mayStillRun ? 'STOPPING' : this.isLimited ? 'PROVIDER_LIMIT' : reason;
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
    this.#wasFinished = false;
    this.#recover();
  }

  /** Tells the parent when this agent stops working. */
  #changing(change: () => void): void {
    const worked = this.works;
    change();
    if (worked && !this.works) this.parent?.childSettled(this);
  }

  childSettled(child: ModelAgent): void {
    if (this.hasEnded) return;
    if (this.isLive) {
      this.#settledChildren.add(child);
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
