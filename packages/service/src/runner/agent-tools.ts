import { randomUUID } from 'node:crypto';
import { MusterClient } from '@muster/sdk';
import { type Claim, isRehearsalModel, type Task } from '@muster/sdk/contract';
import type { AgentTools } from '../harness/harness.ts';
import { mintTaskId } from '../lib/ids.ts';
import { nodeFetch } from '../lib/node-fetch.ts';
import { inOrder } from '../lib/task-graph.ts';
import { callWithin, persevere } from './retry.ts';

export interface AgentToolsOptions {
  readonly url: string;
  readonly claim: Claim;
  /** Aborts when the run may no longer act. */
  readonly signal: AbortSignal;
  /** The tasks that the service last said count in this run. */
  readonly activeTaskIds: () => readonly string[];
  /** The checklist was changed. */
  readonly onChange: () => void;
}

const callMs = 10_000;

/** The agent's own tools, over the same interface that everybody uses, with the key that dies with its run. */
export function agentTools(options: AgentToolsOptions): AgentTools {
  const { claim, signal } = options;
  const { agentId } = claim;
  const client = new MusterClient({ url: options.url, apiKey: claim.token, fetch: nodeFetch });

  const list = async (): Promise<Task[]> => {
    const reply = await callWithin(callMs, signal, (s) => client.call('tasks', { agentId }, { signal: s }));
    if (!Array.isArray(reply.tasks)) throw new Error('the service sent a broken checklist');
    return reply.tasks;
  };

  const change = <T>(work: () => Promise<T>): Promise<T> => {
    options.onChange();
    return persevere(signal, work);
  };

  const move = async (idOrSubject: string, status: Task['status']): Promise<void> => {
    const found = await change(async () => {
      const task = find(await list(), idOrSubject);
      if (task && task.status !== status) {
        const body = { agentId, id: task.id, status };
        await callWithin(callMs, signal, (s) => client.call('updateTask', body, { signal: s }));
      }
      return task;
    });
    if (!found) throw new Error(`no task has the id or the subject "${idOrSubject}"`);
  };

  return {
    addTask: (subject) => {
      const id = mintTaskId();
      let tries = 0;
      return change(async () => {
        tries += 1;
        // A first try whose reply was lost may have added it.
        if (tries > 1 && (await list()).some((task) => task.id === id)) return;
        const body = { agentId, tasks: [{ id, subject }] };
        await callWithin(callMs, signal, (s) => client.call('createTasks', body, { signal: s }));
      });
    },
    startTask: (idOrSubject) => move(idOrSubject, 'TASK_STATUS_IN_PROGRESS'),
    completeTask: (idOrSubject) => move(idOrSubject, 'TASK_STATUS_COMPLETED'),
    openTasks: async () => openTasks(await persevere(signal, list), options.activeTaskIds()),
    spawnChild: (name, description) => {
      const headers = { 'idempotency-key': randomUUID() };
      const body = {
        agentId: { ...agentId, agent: [...agentId.agent, name] },
        description,
        // No model is behind a rehearsed agent, nor behind its children.
        ...(isRehearsalModel(claim.model) && { model: claim.model }),
      };
      return persevere(signal, async () => {
        await callWithin(callMs, signal, (s) => client.call('spawn', body, { headers, signal: s }));
      });
    },
  };
}

const isOpen = (task: Task): boolean =>
  task.status === 'TASK_STATUS_PENDING' || task.status === 'TASK_STATUS_IN_PROGRESS';

/** Active, unfinished tasks, each behind its blockers; one behind a task that is not active is not among them. */
export function openTasks(tasks: readonly Task[], activeTaskIds: readonly string[]): Task[] {
  const active = new Set(activeTaskIds);
  const isInactive = (task: Task) => task.activation !== null && !active.has(task.id);
  // What blocks itself is never in order, and neither is anything behind it.
  const open = tasks.filter(isOpen).map((task) => ({
    id: task.id,
    blockedBy: isInactive(task) ? [task.id] : task.blockedBy,
    task,
  }));
  return inOrder(open).map(({ task }) => task);
}

/** By id, else by subject, an unfinished one first. */
function find(tasks: readonly Task[], idOrSubject: string): Task | undefined {
  const present = tasks.filter((task) => task.status !== 'TASK_STATUS_DELETED');
  const named = present.filter((task) => task.subject === idOrSubject);
  return present.find((task) => task.id === idOrSubject) ?? named.find(isOpen) ?? named[0];
}
