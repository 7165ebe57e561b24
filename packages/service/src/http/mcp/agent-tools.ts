import {
  budgetUsdIn,
  errorLength,
  isOpenTask,
  isTerminal,
  limits,
  nameExpected,
  namePattern,
  type SpawnRequest,
  type Task,
  type TaskStatus,
  taskIn,
} from '@muster/sdk/contract';
import type { Principal } from '../../control/access/principal.ts';
import type { Spawned } from '../../control/agents/spawn.ts';
import { isRefusal } from '../../control/refusal.ts';
import { digestOf } from '../../lib/token.ts';
import { HttpError, invalidField, throwRefusal } from '../errors.ts';
import { openChangeRequestTool } from './change-request-tools.ts';
import {
  budgetLine,
  checklistText,
  childId,
  nameOfChild,
  ownId,
  ownStatusText,
  queueLines,
  section,
  statusLine,
  summaryData,
  summaryText,
  taskText,
} from './text.ts';
import {
  type AgentCall,
  agentTool,
  callRoute,
  checkedBody,
  routeTool,
  string,
  type ToolCall,
  type ToolReply,
  text,
  tool,
} from './tool.ts';
import { waitForChildren, waitTimeout } from './wait.ts';

/** The tools of an agent, which it calls with the key of its run; and what users' tools share with them. */

const { id, subject, description, blockedBy } = taskIn.properties;

const newTasks = {
  type: 'array',
  minItems: 1,
  maxItems: limits.tasksPerAgent,
  items: {
    type: 'object',
    properties: {
      id: { ...id, description: 'Only needed if other tasks of this call refer to it.' },
      subject: { ...subject, minLength: 1, description: 'What to do, in one line.' },
      description: { ...description, description: 'Details.' },
      blockedBy: { ...blockedBy, description: 'Ids of tasks that must be completed first.' },
    },
    required: ['subject'],
  },
} as const;

const note = string(
  'For the task of a review comment: what you did about it, or why you decided against it.',
  { maxLength: limits.taskNoteLength },
);

const taskStatuses = ['pending', 'in_progress', 'completed', 'deleted'] as const;

export const spawnInput = {
  tasks: { ...newTasks, minItems: 0, description: 'The checklist of the agent.' },
  persona: { type: 'string' },
  model: { type: 'string' },
  expectedOutput: string('What the agent should return.'),
  outputSchema: {
    anyOf: [{ type: 'string' }, { type: 'object' }],
    description: "A JSON Schema that the agent's result must match, as an object or as text.",
  },
  budgetUsd: {
    ...budgetUsdIn,
    description: 'The most that it and all agents below it may spend, in USD. At most what is left above it.',
  },
} as const;

/**
 * Spawns an agent. A model repeats a call if it is unsure whether it worked, so the same arguments return the same
 * agent, unless that agent has ended.
 */
export async function spawn(
  { context: { control }, caller, traceparent }: ToolCall,
  { outputSchema, ...fields }: Omit<SpawnRequest, 'outputSchema'> & { outputSchema?: unknown },
  alreadyExists: string,
): Promise<Spawned> {
  const body = checkedBody(caller, 'spawn', {
    ...fields,
    outputSchema: typeof outputSchema === 'object' ? JSON.stringify(outputSchema) : (outputSchema as string),
  });
  let idempotencyKey = '';
  if (body.agentId?.agent?.length) {
    const holder = await control.targets.find(caller, body.agentId);
    const ended = !isRefusal(holder) && isTerminal(holder.phase) ? holder.id : '';
    idempotencyKey = digestOf([body, ended]);
  }
  const spawned = await control.spawns.spawn(caller, body, idempotencyKey, { traceparent });
  if (!isRefusal(spawned)) return spawned;
  if (spawned.status === 'ALREADY_EXISTS') throw new HttpError('ALREADY_EXISTS', alreadyExists);
  return throwRefusal(spawned);
}

/** Interrupts the current turn, or kills its process. */
export async function stopTurn(call: AgentCall, force = false): Promise<string> {
  const { agentId } = call;
  const { runCount } = await callRoute(call, 'status', { agentId });
  const mode = force ? 'STOP_TURN_MODE_KILL' : 'STOP_TURN_MODE_INTERRUPT';
  await callRoute(call, 'stopTurn', { agentId, runId: runCount, mode });
  return `The turn of ${call.name} is being stopped.`;
}

const childName = text('The name of your child, or a path such as "api/tests" for a child of your child.');

const itself = { input: {}, required: [], agentId: ownId } as const;
const forItself = routeTool(itself);
const child = {
  input: { child: childName },
  required: ['child'],
  agentId: (caller: Principal, args: { child: string }) => childId(caller, args.child),
} as const;
const forChild = routeTool(child);

/** Tools for the checklist of the agent itself, or of a user's agent. */
export const checklistTools = (define: typeof forItself, whose: string) =>
  [
    define({
      name: 'list_tasks',
      description: `Lists ${whose} checklist: the id, subject and status of each task.`,
      route: 'tasks',
      reply: ({ tasks }) => ({ text: checklistText(tasks), data: { tasks } }),
    }),
    define({
      name: 'create_tasks',
      description: `Adds tasks to ${whose} checklist. An agent is finished only when every task is completed or deleted.`,
      route: 'createTasks',
      input: { tasks: newTasks },
      required: ['tasks'],
      reply: ({ tasks }) => ({ text: `Added. ${checklistText(tasks)}`, data: { tasks } }),
    }),
    define({
      name: 'update_task',
      description: `Changes one task of ${whose} checklist. Fields that you leave out stay unchanged.`,
      route: 'updateTask',
      input: {
        id: { ...id, minLength: 1, description: 'The id that list_tasks shows.' },
        status: { type: 'string', enum: taskStatuses },
        subject: { ...subject, minLength: 1 },
        description,
        note,
      },
      required: ['id'],
      body: ({ status, ...fields }) => ({
        ...fields,
        status: status && (`TASK_STATUS_${status.toUpperCase()}` as TaskStatus),
      }),
      reply: ({ task }) => ({ text: taskText(task), data: { task } }),
    }),
  ] as const;

/** Tools for a child of the agent, or for a user's agent. */
export const lifecycleTools = (define: typeof forChild, noun: 'agent' | 'child', sendTool: string) => [
  define({
    name: `retry_${noun}`,
    description: `Runs the messages of a blocked ${noun} again. Fix what blocks it first: ${noun}_status shows it. One that waits for a retry or for the end of a rate limit starts immediately.`,
    route: 'retry',
    reply: (_, { name }) => `${name} runs its messages again.`,
  }),
  define({
    name: `reopen_${noun}`,
    description: `Reopens a finished or failed ${noun}, with its session, checklist and branch. Then give it work with ${sendTool}. After a kill it stays ended.`,
    route: 'reopen',
    reply: (_, { name }) => `${name} is open again. Send it a message.`,
  }),
  define({
    name: `kill_${noun}`,
    description: `Ends this ${noun} and every agent below it, for good. To only interrupt it, stop its turn.`,
    route: 'kill',
    reply: async (_, call) => {
      // An agent that has read the status of its child gets no message about the end of the child.
      await callRoute(call, 'status', { agentId: call.agentId });
      return `${call.name} and every agent below it has ended.`;
    },
  }),
];

const endTurn = 'End your turn now, without further tool calls';

export const agentTools = [
  ...checklistTools(forItself, 'your'),
  agentTool(itself)({
    name: 'complete_task',
    description: 'Marks one task of your checklist as completed. Pass its id or its subject.',
    input: { id, subject, note },
    run: async ({ id: byId = '', subject: bySubject = '', note: said }, call) => {
      const { agentId } = call;
      const { tasks } = await callRoute(call, 'tasks', { agentId });
      const found = findTask(tasks, byId, bySubject);
      if (!found)
        throw invalidField(
          byId ? 'id' : 'subject',
          byId || bySubject ? `task "${byId || bySubject}" not found` : 'name the task',
        );
      const change = { agentId, id: found.id, status: 'TASK_STATUS_COMPLETED', note: said } as const;
      return taskText((await callRoute(call, 'updateTask', change)).task);
    },
  }),
  forItself({
    name: 'reply_to_thread',
    description:
      'Answers a review thread without completing its task, for example to ask back. The people who commented read the answer when your turn has ended; a later one replaces it.',
    route: 'replyToThread',
    input: {
      threadId: text('The id of the thread, which the message with the review shows.'),
      text: text('The answer.', { maxLength: limits.taskNoteLength }),
    },
    required: ['threadId', 'text'],
    body: ({ threadId, text: body }) => ({ threadId, body }),
    reply: () => 'Your answer is recorded.',
  }),
  openChangeRequestTool(forItself, 'you have'),
  forItself({
    name: 'ask',
    description:
      'Asks the people you work for a question that must be answered before you can continue. Then end your turn: the answer is your next message.',
    route: 'ask',
    input: { question: text('What you need to know.', { maxLength: limits.reportedTextLength }) },
    required: ['question'],
    reply: () => `Your question is recorded. ${endTurn}: the answer is your next message.`,
  }),
  forItself({
    name: 'finish',
    description:
      'Declares that all your work is done. You end for good when this turn ends. Complete or delete your open tasks first. Do not call it if you expect more work.',
    route: 'finish',
    input: {
      summary: string('The result of your work.', { maxLength: limits.reportedTextLength }),
    },
    body: ({ summary }) => ({ text: summary }),
    reply: async (_, call) => {
      const { tasks } = await callRoute(call, 'tasks', { agentId: call.agentId });
      const open = tasks.filter((task) => isOpenTask(task) && !task.activation);
      return open.length === 0
        ? `Recorded. ${endTurn}.`
        : section(
            'Recorded, but you are not finished while these tasks are open. Complete or delete them, then end your turn:',
            open.map(taskText),
          );
    },
  }),
  forItself({
    name: 'fail',
    description:
      "Declares that your work can't be done. You end for good, as failed, when this turn ends. If a person could help, use ask instead.",
    route: 'fail',
    input: {
      reason: text("Why the work can't be done.", { maxLength: errorLength }),
    },
    required: ['reason'],
    body: ({ reason }) => ({ message: reason }),
    reply: () => `Recorded. ${endTurn}.`,
  }),
  forItself({
    name: 'read_queue',
    description:
      'Shows the messages that are queued for you. You get them when your turn ends; use this to read them earlier.',
    route: 'status',
    reply: ({ followUps }) =>
      section('You get these messages after this turn:', queueLines(followUps)) ||
      'You have no queued messages.',
  }),
  forItself({
    name: 'my_status',
    description:
      'Shows who you are and your status: path, run, model, branch, open tasks, queued messages, children, cost.',
    route: 'status',
    reply: (status) => ownStatusText(status),
  }),
  forItself({
    name: 'budget',
    description:
      'Shows what you may still spend: your own budget, and every other one that covers you. Children spend from yours.',
    route: 'status',
    reply: ({ budgets }) => ({
      text: budgets.map(budgetLine).join('\n') || 'No budget covers you.',
      data: { budgets },
    }),
  }),
  tool({
    name: 'spawn_child',
    description:
      'Spawns a child agent that works in parallel, on its own branch that starts from yours. It knows only what you write here. wait_for_children or your next message tells you how it ended.',
    input: {
      name: { type: 'string', pattern: namePattern, expected: nameExpected, description: 'A short name.' },
      description: text('The whole task, with everything that the child needs to know.'),
      ...spawnInput,
    },
    required: ['name', 'description'],
    run: async ({ name, ...fields }, call) => {
      const exists = `you have a child "${name}" that has not ended. Give it more work with message_child, or choose another name.`;
      await spawn(call, { ...fields, agentId: childId(call.caller, name) }, exists);
      return `${name} is spawned and works in parallel.`;
    },
  }),
  tool({
    name: 'list_children',
    description: 'Lists your children, oldest first, with the status of each.',
    input: { includeEnded: { type: 'boolean', description: 'Default true.' } },
    run: async ({ includeEnded = true }, call): Promise<ToolReply> => {
      const { caller } = call;
      const request = { parentId: ownId(caller), includeTerminal: includeEnded };
      const { entries } = await callRoute(call, 'list', request);
      const children = entries
        .toReversed()
        .map((entry) => ({ name: nameOfChild(caller, entry.agentId.agent), entry }));
      return {
        text:
          children.map(({ name, entry }) => statusLine(name, entry)).join('\n') || 'You have no children.',
        data: {
          children: children.map(({ name, entry }) => ({
            child: name,
            phase: entry.phase,
            reason: entry.phaseReason,
            question: entry.needsInput,
          })),
        },
      };
    },
  }),
  forChild({
    name: 'child_status',
    description:
      'Shows the status of one child: phase, question, last response, structured output, error, branch, open tasks.',
    route: 'status',
    reply: (status, { caller }) => {
      const name = nameOfChild(caller, status.agentId.agent);
      return { text: summaryText(name, status), data: summaryData({ child: name }, status) };
    },
  }),
  tool({
    name: 'wait_for_children',
    description:
      'Waits until a child finishes, fails, needs input or is idle, and shows its status. Returns immediately if one already did and you have not seen it yet, or if no child is working. Call it again to wait for the others.',
    input: {
      children: {
        type: 'array',
        items: childName,
        minItems: 1,
        maxItems: limits.agentsPerWait,
        description: 'Default: all children.',
      },
      timeoutSeconds: waitTimeout(3600),
    },
    run: ({ children, timeoutSeconds = 50 }, call) => waitForChildren(call, children, timeoutSeconds * 1000),
  }),
  forChild({
    name: 'message_child',
    description:
      'Sends a message to a child: an answer, or more work. An idle child starts immediately. A working child gets it after its turn; during its turn with steer; or immediately with preempt, which ends its turn and drops its queued messages.',
    route: 'queue',
    input: { text: text('The message.'), steer: { type: 'boolean' }, preempt: { type: 'boolean' } },
    required: ['text'],
    body: ({ text, steer, preempt }) => ({ description: text, steer, preempt }),
    reply: (_, { name }) => `${name} will get your message.`,
  }),
  agentTool(child)({
    name: 'stop_child_turn',
    description:
      'Interrupts the current turn of a child. The child stays alive and is idle until you message it.',
    run: (_, call) => stopTurn(call),
  }),
  forChild({
    name: 'set_child_budget',
    description:
      'Sets the most that a child and all agents below it may spend. A child that its budget had stopped continues by itself.',
    route: 'setBudget',
    input: { budgetUsd: spawnInput.budgetUsd },
    required: ['budgetUsd'],
    reply: (_, { name }) => `The budget of ${name} is set.`,
  }),
  ...lifecycleTools(forChild, 'child', 'message_child'),
];

/** By id, else by subject, open tasks first. Models often pass one in place of the other. */
function findTask(tasks: readonly Task[], id: string, subject: string): Task | undefined {
  const present = tasks.filter(({ status }) => status !== 'TASK_STATUS_DELETED');
  const named = (text: string) => present.filter((task) => task.subject === text);
  const candidates = [...named(subject), ...named(id)];
  return (
    present.find((task) => task.id === id || task.id === subject) ??
    candidates.find(isOpenTask) ??
    candidates[0]
  );
}
