import * as tasks from '../task.ts';
import { agentId, type Operations } from './operation.ts';

export const taskOperations = {
  tasks: {
    summary: 'Lists the tasks.',
    access: 'read',
    body: tasks.listTasksRequest,
    reply: tasks.tasksReply,
    example: { agentId },
  },
  createTasks: {
    summary: 'Adds tasks to the checklist.',
    access: 'command',
    body: tasks.createTasksRequest,
    reply: tasks.tasksReply,
    example: { agentId, tasks: [{ id: 'docs', subject: 'Write it down' }] },
  },
  updateTask: {
    summary: 'Changes one task.',
    access: 'command',
    body: tasks.updateTaskRequest,
    reply: tasks.taskReply,
    example: { agentId, id: 'docs', status: 'TASK_STATUS_COMPLETED' },
  },
} as const satisfies Operations;
