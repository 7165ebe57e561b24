import { limits, type Task, type TaskStatus } from '@muster/sdk/contract';
import { z } from 'zod';
import { invalid, isRefusal, type Refusal } from '../../control/refusal.ts';
import { ownStatus, selfId } from './own-agent.ts';
import { bodyFor, type Said, type ToolCall, tool } from './tool.ts';
import { checklistText, isOpen, taskText } from './wording.ts';

const statuses: Record<'pending' | 'in_progress' | 'completed' | 'deleted', TaskStatus> = {
  pending: 'TASK_STATUS_PENDING',
  in_progress: 'TASK_STATUS_IN_PROGRESS',
  completed: 'TASK_STATUS_COMPLETED',
  deleted: 'TASK_STATUS_DELETED',
};

const id = z.string().max(limits.idLength);
const subject = z.string().max(limits.taskSubjectLength);
const description = z.string().max(limits.taskDescriptionLength);

export const newTask = z.object({
  id: id.optional().describe('Only if other tasks of this call are to name it; made for you otherwise.'),
  subject: subject.min(1).describe('What is to be done, in one line.'),
  description: description.optional().describe('Details.'),
  blockedBy: z.array(id).optional().describe('Ids of tasks that have to be completed first.'),
});

/** What of a task may be changed, in the words of a model, and as the interface says it. */
export const taskChange = {
  fields: {
    id: id.min(1).describe('As list_tasks shows it.'),
    status: z.enum(['pending', 'in_progress', 'completed', 'deleted']).optional(),
    subject: subject.min(1).optional(),
    description: description.optional(),
  },
  of: <T extends { status?: keyof typeof statuses | undefined }>({ status, ...fields }: T) => ({
    ...fields,
    status: status && statuses[status],
  }),
} as const;

/** The checklist of the agent itself. */
export const taskTools = [
  tool({
    name: 'list_tasks',
    description: 'Your checklist: ids, subjects, what is done and what is open.',
    input: z.object({}),
    run: async (_args, call) => {
      const status = await ownStatus(call);
      return isRefusal(status) ? status : saidOf(status.tasks);
    },
  }),

  tool({
    name: 'create_tasks',
    description:
      'Adds tasks to your checklist. Your work counts as done only when every task is completed or deleted.',
    input: z.object({ tasks: z.array(newTask).min(1).max(limits.tasksPerAgent) }),
    run: async ({ tasks }, { context, caller }) => {
      const body = bodyFor(caller, 'createTasks', { agentId: selfId(caller), tasks });
      const reply = await context.control.createTasks(caller, body);
      return isRefusal(reply) ? reply : saidOf(reply.tasks, 'Added. ');
    },
  }),

  tool({
    name: 'update_task',
    description:
      'Changes one task of your checklist: its status, subject or description. What you leave out stays.',
    input: z.object(taskChange.fields),
    run: (fields, call) => update(call, taskChange.of(fields)),
  }),

  tool({
    name: 'complete_task',
    description: 'Marks one task of your checklist as completed. Give its id or its subject.',
    input: z.object({ id: id.optional(), subject: subject.optional() }),
    run: async ({ id: byId = '', subject: bySubject = '' }, call) => {
      const status = await ownStatus(call);
      if (isRefusal(status)) return status;
      const found = find(status.tasks, byId, bySubject);
      if (!found) {
        const named = byId || bySubject;
        return invalid(byId ? 'id' : 'subject', named ? `no task is called "${named}"` : 'name the task');
      }
      return update(call, { id: found.id, status: 'TASK_STATUS_COMPLETED' });
    },
  }),
];

async function update(
  { context, caller }: ToolCall,
  fields: {
    id: string;
    status?: TaskStatus | undefined;
    subject?: string | undefined;
    description?: string | undefined;
  },
): Promise<Said | Refusal> {
  const body = bodyFor(caller, 'updateTask', { agentId: selfId(caller), ...fields });
  const reply = await context.control.updateTask(caller, body);
  return isRefusal(reply) ? reply : { text: taskText(reply.task) };
}

const saidOf = (tasks: readonly Task[], before = ''): Said => ({
  text: `${before}${checklistText(tasks)}`,
  data: { tasks },
});

/** By id, else by subject, an open one first: a model may well put the one where the other is asked for. */
function find(tasks: readonly Task[], id: string, subject: string): Task | undefined {
  const present = tasks.filter(({ status }) => status !== 'TASK_STATUS_DELETED');
  const named = (text: string) => present.filter((task) => task.subject === text);
  const candidates = [...named(subject), ...named(id)];
  return (
    present.find((task) => task.id === id || task.id === subject) ?? candidates.find(isOpen) ?? candidates[0]
  );
}
