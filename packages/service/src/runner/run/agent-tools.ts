import { randomUUID } from 'node:crypto';
import { MusterClient } from '@muster/sdk';
import { type Claim, isOpenTask, isRehearsalModel, type Task } from '@muster/sdk/contract';
import type { AgentTools } from '../../harness/harness.ts';
import { mintTaskId } from '../../lib/ids.ts';
import { nodeFetch } from '../../lib/node-fetch.ts';
import { inOrder } from '../../lib/task-graph.ts';
import type { ValueMask } from '../../lib/value-mask.ts';
import { retryTransient } from '../retry.ts';

export interface AgentToolsOptions {
  readonly url: string;
  readonly claim: Claim;
  /** Aborts when the run may no longer act. */
  readonly signal: AbortSignal;
  /** Where the run is in its trace. */
  readonly traceparent?: string | undefined;
  readonly mask: ValueMask;
  /** The active tasks, from the last reply of the service. */
  readonly activeTaskIds: () => readonly string[];
  /** Called before the checklist is changed, or a child is spawned. */
  readonly beforeChange: () => Promise<void>;
}

const callTimeoutMs = 10_000;

/** The tools of a rehearsed agent. They use the public API with the key of its run. */
export function agentTools(options: AgentToolsOptions): AgentTools {
  const { claim, signal, mask, traceparent } = options;
  const { agentId } = claim;
  const client = new MusterClient({ url: options.url, apiKey: claim.token, fetch: nodeFetch });
  const traced = traceparent === undefined ? {} : { traceparent };
  const callOptions = { signal, timeoutMs: callTimeoutMs, headers: traced };

  const list = async (): Promise<Task[]> => {
    const reply = await client.call('tasks', { agentId }, callOptions);
    if (!Array.isArray(reply.tasks)) throw new Error('the service sent an invalid checklist');
    return reply.tasks;
  };

  const change = async <T>(work: () => Promise<T>): Promise<T> => {
    await options.beforeChange();
    return retryTransient(signal, work);
  };

  const move = async (idOrSubject: string, status: Task['status'], note?: string): Promise<void> => {
    const found = await change(async () => {
      const task = find(await list(), idOrSubject);
      if (task && task.status !== status) {
        const body = { agentId, id: task.id, status, ...(note !== undefined && { note: mask.text(note) }) };
        await client.call('updateTask', body, callOptions);
      }
      return task;
    });
    if (!found) throw new Error(`no task has the id or subject "${idOrSubject}"`);
  };

  return {
    addTask: (subject) => {
      const id = mintTaskId();
      let attempts = 0;
      return change(async () => {
        attempts += 1;
        // An earlier attempt whose reply was lost may have added it.
        if (attempts > 1 && (await list()).some((task) => task.id === id)) return;
        const body = { agentId, tasks: [{ id, subject: mask.text(subject) }] };
        await client.call('createTasks', body, callOptions);
      });
    },
    startTask: (idOrSubject) => move(idOrSubject, 'TASK_STATUS_IN_PROGRESS'),
    completeTask: (idOrSubject) => move(idOrSubject, 'TASK_STATUS_COMPLETED'),
    declineTask: (id, reason) => move(id, 'TASK_STATUS_DELETED', reason),
    openTasks: async () => openTasks(await retryTransient(signal, list), options.activeTaskIds()),
    spawnChild: (name, description) => {
      const headers = { ...traced, 'idempotency-key': randomUUID() };
      const body = {
        agentId: { ...agentId, agent: [...agentId.agent, mask.text(name)] },
        description: mask.text(description),
        // No model is behind a rehearsed agent, nor behind its children.
        ...(isRehearsalModel(claim.model) && { model: claim.model }),
      };
      return change(async () => {
        await client.call('spawn', body, { ...callOptions, headers });
      });
    },
  };
}

/** Active, unfinished tasks, each after its blockers; without those that are blocked by an inactive task. */
export function openTasks(tasks: readonly Task[], activeTaskIds: readonly string[]): Task[] {
  const active = new Set(activeTaskIds);
  const isInactive = (task: Task) => task.activation !== null && !active.has(task.id);
  // A task that blocks itself is left out, and so is everything after it.
  const open = tasks.filter(isOpenTask).map((task) => ({
    id: task.id,
    blockedBy: isInactive(task) ? [task.id] : task.blockedBy,
    task,
  }));
  return inOrder(open).map(({ task }) => task);
}

/** By id, else by subject; unfinished ones first. */
function find(tasks: readonly Task[], idOrSubject: string): Task | undefined {
  const present = tasks.filter((task) => task.status !== 'TASK_STATUS_DELETED');
  const named = present.filter((task) => task.subject === idOrSubject);
  return present.find((task) => task.id === idOrSubject) ?? named.find(isOpenTask) ?? named[0];
}
