import { agentIdIn } from './identity.ts';
import { limits } from './limits.ts';
import { boolean, type Infer, list, reply, request, text, texts } from './schema.ts';

export const taskStatuses = [
  'TASK_STATUS_UNSPECIFIED',
  'TASK_STATUS_PENDING',
  'TASK_STATUS_IN_PROGRESS',
  'TASK_STATUS_COMPLETED',
  'TASK_STATUS_DELETED',
] as const;
export type TaskStatus = (typeof taskStatuses)[number];

const taskStatus = { title: 'TaskStatus', type: 'string', enum: taskStatuses } as const;

const globIn = {
  type: 'string',
  maxLength: limits.patternLength,
  format: 'glob',
  description: 'A glob; empty means any file.',
} as const;

const activationProperties = {
  filesModified: {
    description: 'Activates the task when the current run pushes a change to a matching file.',
    type: ['object', 'null'],
    properties: {
      pattern: globIn,
    },
    required: ['pattern'],
  },
} as const;

export const task = reply('Task', {
  id: text,
  subject: text,
  description: text,
  status: taskStatus,
  blocks: texts,
  blockedBy: texts,
  activation: {
    title: 'TaskActivation',
    description: 'At most one condition; without one the task is always active.',
    type: ['object', 'null'],
    properties: activationProperties,
    required: ['filesModified'],
  } as const,
  persona: text,
  dedupKey: text,
  ephemeral: boolean,
});
export type Task = Infer<typeof task>;

export const isOpenTask = ({ status }: Pick<Task, 'status'>): boolean =>
  status === 'TASK_STATUS_PENDING' || status === 'TASK_STATUS_IN_PROGRESS';

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** The task of a review thread: its key is the id of the thread, and its description quotes what people said. */
export const isThreadTask = ({ ephemeral, dedupKey }: Pick<Task, 'ephemeral' | 'dedupKey'>): boolean =>
  ephemeral && uuid.test(dedupKey);

/** The status of a task in a line of text: `[x]`. */
export const taskMarks: Readonly<Record<TaskStatus, string>> = {
  TASK_STATUS_UNSPECIFIED: ' ',
  TASK_STATUS_PENDING: ' ',
  TASK_STATUS_IN_PROGRESS: '~',
  TASK_STATUS_COMPLETED: 'x',
  TASK_STATUS_DELETED: '-',
};

const taskId = { type: 'string', maxLength: limits.idLength } as const;
const taskIds = { type: 'array', items: taskId, maxItems: limits.tasksPerAgent } as const;

const taskProperties = {
  id: taskId,
  subject: { type: 'string', maxLength: limits.taskSubjectLength },
  description: { type: 'string', maxLength: limits.taskDescriptionLength },
  status: taskStatus,
  blocks: taskIds,
  blockedBy: taskIds,
  activation: {
    type: 'object',
    properties: {
      filesModified: {
        type: 'object',
        properties: { pattern: globIn },
      },
    },
  },
} as const;

export const taskIn = request('TaskInput', {
  ...taskProperties,
  persona: text,
  dedupKey: { type: 'string', maxLength: 1024 },
  ephemeral: boolean,
});
export type TaskInput = Infer<typeof taskIn>;

export const tasksIn = {
  type: 'array',
  items: taskIn,
  maxItems: limits.tasksPerAgent,
  expected: `at most ${limits.tasksPerAgent} tasks`,
} as const;

export const listTasksRequest = request('ListTasksRequest', { agentId: agentIdIn });

export const createTasksRequest = request('CreateTasksRequest', { agentId: agentIdIn, tasks: tasksIn });

export const tasksReply = reply('TasksReply', { tasks: list(task) });

/** Fields that are present replace those of the task with this id. */
export const updateTaskRequest = request('UpdateTaskRequest', {
  agentId: agentIdIn,
  ...taskProperties,
  note: {
    type: 'string',
    maxLength: limits.taskNoteLength,
    description: 'What there is to say about it. For the task of a review thread, the answer to the thread.',
  },
});
export type UpdateTaskRequest = Infer<typeof updateTaskRequest>;

export const taskReply = reply('TaskReply', { task });
