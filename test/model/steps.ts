import { deepStrictEqual, strictEqual } from 'node:assert';
import fc from 'fast-check';
import { type Declaration, type Ending, type Message, ModelAgent, type ModelTask } from './agent-model.ts';
import { type HeldRun, type ModelTenant, statusOf } from './model-tenant.ts';

/** What the model expects of every agent, and the runs that its runners hold. */
export interface Expected {
  readonly agents: Map<string, ModelAgent>;
  readonly held: Map<ModelAgent, HeldRun>;
  count: number;
}

const paths = ['a', 'b', 'a/c', 'a/c/g'] as const;
type Path = (typeof paths)[number];

/** Every step is possible in every state: where it does not apply, it must be refused and change nothing. */
abstract class Step implements fc.AsyncCommand<Expected, ModelTenant> {
  readonly name: string;
  readonly path: Path;

  constructor(name: string, path: Path) {
    this.name = name;
    this.path = path;
  }

  check(): boolean {
    return true;
  }

  toString(): string {
    return `${this.name} ${this.path}`;
  }

  abstract act(expected: Expected, real: ModelTenant): Promise<void>;

  async run(expected: Expected, real: ModelTenant): Promise<void> {
    await this.act(expected, real);
    await compare(expected, real);
  }
}

/** A step on one agent; if the agent does not exist yet, the step spawns it instead. */
function step(
  name: string,
  act: (agent: ModelAgent, real: ModelTenant, expected: Expected) => Promise<void>,
): (path: Path) => Step {
  return (path) =>
    new (class extends Step {
      async act(expected: Expected, real: ModelTenant): Promise<void> {
        const agent = expected.agents.get(path);
        if (agent) return act(agent, real, expected);
        return spawn(expected, real, path);
      }
    })(name, path);
}

const newTask = (expected: Expected, isEphemeral: boolean): ModelTask => {
  expected.count += 1;
  return { id: `t${expected.count}`, status: 'PENDING', isEphemeral };
};

async function spawn(expected: Expected, real: ModelTenant, path: Path): Promise<void> {
  const parentPath = path.split('/').slice(0, -1).join('/');
  const parent = expected.agents.get(parentPath) ?? null;
  const holder = expected.agents.get(path);
  const task = newTask(expected, true);
  const request = {
    agentId: real.agentId(path),
    description: 'begin',
    ...(expected.count % 4 === 0 && { tasks: [{ id: task.id, subject: 'once', ephemeral: true }] }),
  };
  const reply = statusOf(await real.control.spawns.spawn(real.caller, request, ''));
  const isHeld = holder && [holder, ...holder.descendants].some((agent) => !agent.hasEnded);
  if (parentPath && !parent) return strictEqual(reply, 'NOT_FOUND');
  if (parent?.hasEnded) return strictEqual(reply, 'FAILED_PRECONDITION');
  if (isHeld) return strictEqual(reply, 'ALREADY_EXISTS');
  strictEqual(reply, 'OK');
  expected.agents.set(path, new ModelAgent(path, parent, request.tasks ? [task] : []));
}

interface MessageKind {
  readonly sets?: boolean;
  readonly preempt?: boolean;
  readonly isDeferred?: boolean;
  readonly task?: 'kept' | 'ephemeral';
}

const queue = (name: string, { sets = false, preempt = false, isDeferred = false, task }: MessageKind) =>
  step(name, async (agent, real, expected) => {
    expected.count += 1;
    const id = `${sets ? 'set-' : ''}m${expected.count}`;
    const carried = task ? newTask(expected, task === 'ephemeral') : null;
    const message: Message = { id, sets, task: carried };
    const request = {
      agentId: real.agentId(agent.path),
      followUpId: id,
      description: id,
      preempt,
      ...(sets && settingOf(expected)),
      ...(isDeferred && {
        deliverAt: new Date(Date.now() + 3_600_000 + expected.count * 1000).toISOString(),
      }),
      ...(carried && { tasks: [{ id: carried.id, subject: 'do', ephemeral: carried.isEphemeral }] }),
    };
    const reply = statusOf(await real.control.operations.queue(real.caller, request));
    if (agent.hasEnded) return strictEqual(reply, 'NOT_FOUND');
    strictEqual(reply, 'OK');
    if (isDeferred) agent.defer(message);
    else agent.add(message, preempt);
    // A retry of the same request is answered in the same way and repeats nothing.
    strictEqual(statusOf(await real.control.operations.queue(real.caller, request)), 'OK');
    const other = statusOf(
      await real.control.operations.queue(real.caller, { ...request, description: 'other' }),
    );
    strictEqual(other, 'ALREADY_EXISTS');
  });

const remove = (name: string, which: 'first' | 'last') =>
  step(name, async (agent, real) => {
    const ids = [...agent.queue, ...agent.deferred].map((m) => m.id);
    const id = (which === 'first' ? ids[0] : ids.at(-1)) ?? 'none';
    const reply = await real.control.operations.removeFollowUp(real.caller, {
      agentId: real.agentId(agent.path),
      followUpId: id,
    });
    deepStrictEqual(reply, { removed: agent.remove(id) });
  });

/** The request names what is queued; with `isOld`, one message less. */
const order = (name: string, isOld: boolean) =>
  step(name, async (agent, real) => {
    const ids = agent.queue.map(({ id }) => id).reverse();
    const followUpIds = isOld ? ids.slice(1) : ids;
    if (followUpIds.length === 0) return;
    const request = { agentId: real.agentId(agent.path), followUpIds };
    const reply = await real.control.operations.orderQueue(real.caller, request);
    if (isOld) return strictEqual(statusOf(reply), 'FAILED_PRECONDITION');
    deepStrictEqual(reply, { followUpIds });
    agent.order(followUpIds);
  });

/** A new value: one that is already in force would not start a batch. */
const settingOf = ({ count }: Expected) => ({ outputSchema: JSON.stringify({ title: `${count}` }) });

/** New content under the id of a message that is not delivered yet. */
const replace = (name: string, isDeferred: boolean) =>
  step(name, async (agent, real, expected) => {
    const [known] = [...agent.queue, ...agent.deferred];
    if (!known) return;
    expected.count += 1;
    const request = {
      agentId: real.agentId(agent.path),
      followUpId: known.id,
      description: `replaced ${expected.count}`,
      replace: true,
      ...(known.sets && settingOf(expected)),
      ...(isDeferred && {
        deliverAt: new Date(Date.now() + 3_600_000 + expected.count * 1000).toISOString(),
      }),
    };
    strictEqual(statusOf(await real.control.operations.queue(real.caller, request)), 'OK');
    agent.replace({ ...known, task: null }, isDeferred);
    strictEqual(statusOf(await real.control.operations.queue(real.caller, request)), 'OK');
  });

const clear = step('clear', async (agent, real) => {
  const reply = await real.control.operations.clearFollowUps(real.caller, {
    agentId: real.agentId(agent.path),
  });
  deepStrictEqual(reply, { cleared: agent.clear() });
});

const stop = (name: string, kind: 'INTERRUPT' | 'KILL', staleBy = 0) =>
  step(name, async (agent, real) => {
    const runId = agent.runCount - staleBy;
    const reply = await real.control.operations.stopTurn(real.caller, {
      agentId: real.agentId(agent.path),
      runId,
      mode: `STOP_TURN_MODE_${kind}`,
    });
    if (!agent.isLive || staleBy !== 0) return strictEqual(statusOf(reply), 'INVALID_ARGUMENT');
    strictEqual(statusOf(reply), 'OK');
    if (kind === 'KILL') agent.killTurn();
    else agent.interrupt();
  });

const kill = step('kill', async (agent, real) => {
  strictEqual(
    statusOf(await real.control.operations.kill(real.caller, { agentId: real.agentId(agent.path) })),
    'OK',
  );
  agent.kill();
});

/** Whoever has waited longest is claimed; the model only knows who may be. */
const claim = step('claim', async (_agent, real, expected) => {
  const claimable = [...expected.agents.values()].filter((agent) => agent.isClaimable);
  const claimed = await real.claim();
  if (!claimed) return deepStrictEqual(claimable, []);
  const path = claimed.claim.agentId.agent.join('/');
  const agent = claimable.find((a) => a.path === path);
  if (!agent) throw new Error(`${path} was claimed and has no work`);
  const batch = agent.claim();
  expected.held.set(agent, claimed.held);
  strictEqual(claimed.claim.runId, agent.runCount);
  deepStrictEqual(
    claimed.claim.messages.map((m) => m.followUpId),
    [...(batch.hasSpawn ? [''] : []), ...batch.ids],
  );
});

const withRun = (
  name: string,
  act: (agent: ModelAgent, held: HeldRun, real: ModelTenant, expected: Expected) => Promise<void>,
): ((path: Path) => Step) =>
  step(name, async (agent, real, expected) => {
    const held = expected.held.get(agent);
    if (held) await act(agent, held, real, expected);
  });

const started = withRun('started', async (agent, held, real) => {
  const reply = await real.report(held, { started: true });
  strictEqual(reply, agent.isLive ? 'OK' : 'ABORTED');
  if (agent.isLive) agent.started();
});

/** What no remote has, by the count of all steps that had one. */
const reportWork = (name: string, isSaved: boolean) =>
  withRun(name, async (agent, held, real, expected) => {
    expected.count += 1;
    const unpushed = { commits: expected.count, files: expected.count % 3 };
    const reply = await real.report(held, { unpushed: { ...unpushed, isSaved } });
    strictEqual(reply, agent.isLive ? 'OK' : 'ABORTED');
    if (!agent.isLive) return;
    agent.unpushed = { ...unpushed, isSaved };
    agent.isCheckpointed ||= isSaved;
  });

const failure = (code: string) => ({ outcome: 'FAILED', error: { code, message: 'no' } });

const ends: Record<Exclude<Ending, 'LOST'>, () => object> = {
  COMPLETED: () => ({ outcome: 'COMPLETED' }),
  QUESTION: () => ({ outcome: 'COMPLETED', question: 'which?' }),
  FINISHED: () => ({ outcome: 'COMPLETED', finished: true }),
  FAILED: () => failure('REHEARSED_FAILURE'),
  TEMPORARY_ERROR: () => failure('GIT_UNREACHABLE'),
  BLOCKING_ERROR: () => failure('PROVIDER_KEY_REFUSED'),
  PARKED: () => ({ outcome: 'PARKED', limitUntil: new Date(Date.now() + 3_600_000).toISOString() }),
  HANDED_BACK: () => ({ outcome: 'HANDED_BACK' }),
};

const end = (ending: Exclude<Ending, 'LOST'>) =>
  withRun(`end ${ending}`, async (agent, held, real) => {
    const fields = { end: ends[ending]() } as Parameters<ModelTenant['report']>[1];
    const reply = await real.report(held, fields);
    strictEqual(reply, agent.isLive ? 'OK' : 'ABORTED');
    if (agent.isLive) agent.end(ending);
  });

const declare = (declaration: Declaration) =>
  withRun(declaration, async (agent, held, real) => {
    const reply = await real.declare(held, agent.path, declaration);
    strictEqual(reply, agent.isLive ? 'OK' : 'ABORTED');
    if (agent.isLive) agent.declare(declaration);
  });

const staleReport = withRun('stale report', async (_agent, held, real) => {
  const stale = { ...held, runId: held.runId + 1, reports: 100 };
  strictEqual(await real.report(stale, { started: true, end: { outcome: 'COMPLETED' } }), 'ABORTED');
});

const gone = withRun('gone', async (agent, held, real) => {
  if (agent.isLive) return;
  strictEqual(await real.report(held, { gone: true }), 'OK');
  agent.gone();
});

const expireLease = withRun('the lease of its runner expires', async (agent, held, real) => {
  await real.expireLease(held);
  if (agent.isLive) agent.end('LOST');
  agent.gone();
});

const makeDue = step('its messages become due', async (agent, real) => {
  await real.makeDue(agent.path);
  agent.makeDue();
});

const limitEnds = step('its limit ends', async (agent, real) => {
  await real.endLimit(agent.path);
  agent.limitEnds();
});

const delayEnds = step('its delay ends', async (agent, real) => {
  await real.endDelay(agent.path);
  agent.delayEnds();
});

const failsForADay = step('its batch fails for a day', async (agent, real) => {
  await real.failForADay(agent.path);
  agent.failsForADay();
});

const retry = step('retry', async (agent, real) => {
  const reply = statusOf(
    await real.control.operations.retry(real.caller, { agentId: real.agentId(agent.path) }),
  );
  strictEqual(reply, agent.retry() ? 'OK' : 'FAILED_PRECONDITION');
});

const reopen = step('reopen', async (agent, real) => {
  const reply = statusOf(
    await real.control.operations.reopen(real.caller, { agentId: real.agentId(agent.path) }),
  );
  strictEqual(reply, agent.reopen() ? 'OK' : 'FAILED_PRECONDITION');
});

const createTask = step('create a task', async (agent, real, expected) => {
  const task = newTask(expected, false);
  const request = { agentId: real.agentId(agent.path), tasks: [{ id: task.id, subject: 'do' }] };
  const reply = statusOf(await real.control.operations.createTasks(real.caller, request));
  strictEqual(reply, agent.hasEnded ? 'FAILED_PRECONDITION' : 'OK');
  if (!agent.hasEnded) agent.setTask(task);
});

const updateTask = (name: string, status: 'COMPLETED' | 'DELETED') =>
  step(name, async (agent, real) => {
    const task = agent.tasks.find((t) => t.status !== 'DELETED');
    const request = { agentId: real.agentId(agent.path), id: task?.id ?? 'none' };
    const reply = await real.control.operations.updateTask(real.caller, {
      ...request,
      status: `TASK_STATUS_${status}`,
    });
    if (!task) return strictEqual(statusOf(reply), 'NOT_FOUND');
    if (agent.hasEnded) return strictEqual(statusOf(reply), 'FAILED_PRECONDITION');
    strictEqual(statusOf(reply), 'OK');
    agent.setTask({ ...task, status });
  });

/** A label is set or removed, in any phase; the comparison shows that nothing else changes. */
const label = (name: string, value: string) =>
  step(name, async (agent, real, expected) => {
    expected.count += 1;
    const team = value && `${value}-${expected.count}`;
    const request = { agentId: real.agentId(agent.path), labels: { team } };
    agent.labels = team ? { team } : {};
    deepStrictEqual(await real.control.operations.labels(real.caller, request), { labels: agent.labels });
  });

/** The service shows of every agent what the model expects. */
async function compare(expected: Expected, real: ModelTenant): Promise<void> {
  await Promise.all(
    [...expected.agents.values()].map(async (agent) => {
      const status = await real.status(agent.path);
      const waitsForRunner = ['NO_RUNNER', 'POOL_FULL'].includes(status.phaseReason);
      const deferred = status.followUps.filter((f) => f.state === 'DEFERRED').map((f) => f.followUpId);
      const shown = {
        path: status.agentId.agent.join('/'),
        phase: status.phase,
        reason: waitsForRunner ? 'STARTING' : status.phaseReason,
        queue: status.followUps.filter((f) => f.state === 'QUEUED').map((f) => f.followUpId),
        deferred: deferred.sort(),
        tasks: status.tasks.map((t) => `${t.id} ${t.status}`).sort(),
        runCount: status.runCount,
        run: status.run ? `${status.run.runId} ${status.run.state} ${status.run.outcome}` : '',
        needs: status.phaseReason === 'BLOCKED' ? status.needsInput !== '' : status.needsInput,
        error: status.error?.code ?? '',
        labels: status.labels,
        unpushed: status.unpushed,
        isCheckpointed: status.checkpointAt !== null,
      };
      deepStrictEqual(shown, {
        path: agent.path,
        phase: `PHASE_${agent.phase}`,
        reason: agent.reason,
        queue: agent.queue.map((m) => m.id),
        deferred: agent.deferred.map((m) => m.id).sort(),
        tasks: agent.tasks.map((t) => `${t.id} TASK_STATUS_${t.status}`).sort(),
        runCount: String(agent.runCount),
        run: agent.runState ? `${agent.runCount} ${agent.runState} ${agent.runOutcome}` : '',
        needs: agent.reason === 'BLOCKED' || (agent.reason === 'QUESTION' ? 'which?' : ''),
        error: agent.error,
        labels: agent.labels,
        unpushed: agent.unpushed,
        isCheckpointed: agent.isCheckpointed,
      });
    }),
  );
}

const spawnStep = step('spawn', (agent, real, expected) => spawn(expected, real, agent.path as Path));

/** How often a step is taken, in parts of all. */
const weighted: readonly (readonly [number, (path: Path) => Step])[] = [
  [3, spawnStep],
  [6, queue('queue', {})],
  [4, queue('preempt', { preempt: true })],
  [3, queue('defer', { isDeferred: true })],
  [3, queue('queue with a setting', { sets: true })],
  [2, queue('queue with a task', { task: 'kept' })],
  [2, queue('queue with an ephemeral task', { task: 'ephemeral' })],
  [2, remove('remove the first', 'first')],
  [2, remove('remove the last', 'last')],
  [2, replace('replace the first', false)],
  [2, replace('replace the first by a deferred one', true)],
  [2, order('reverse the queue', false)],
  [1, order('order an older queue', true)],
  [3, clear],
  [3, stop('interrupt', 'INTERRUPT')],
  [3, stop('stop-kill', 'KILL')],
  [1, stop('stale interrupt', 'INTERRUPT', 1)],
  [1, stop('stale stop-kill', 'KILL', 1)],
  [1, stop('early stop-kill', 'KILL', -1)],
  [1, kill],
  [14, claim],
  [8, started],
  [2, reportWork('report unpushed work', false)],
  [2, reportWork('report saved work', true)],
  [6, end('COMPLETED')],
  [3, end('QUESTION')],
  [3, end('FINISHED')],
  [2, declare('ask')],
  [2, declare('finish')],
  [1, declare('fail')],
  [2, end('FAILED')],
  [3, end('TEMPORARY_ERROR')],
  [4, end('BLOCKING_ERROR')],
  [3, retry],
  [3, reopen],
  [2, delayEnds],
  [2, failsForADay],
  [3, end('PARKED')],
  [2, end('HANDED_BACK')],
  [1, staleReport],
  [4, gone],
  [4, expireLease],
  [3, makeDue],
  [3, limitEnds],
  [2, createTask],
  [3, updateTask('complete a task', 'COMPLETED')],
  [2, updateTask('delete a task', 'DELETED')],
  [2, label('label', 'web')],
  [1, label('remove the label', '')],
];

/** One arbitrary for all steps, weighted towards the tree of `a`. */
const path = fc.constantFrom<Path[]>('a', 'a', 'a', 'a/c', 'a/c', 'a/c', 'b', 'a/c/g');
export const anyStep = fc.oneof(
  ...weighted.map(([weight, make]) => ({ weight, arbitrary: path.map((where) => make(where)) })),
);
