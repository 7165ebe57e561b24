import { limits } from '@muster/sdk/contract';
import { z } from 'zod';
import { invalid, isRefusal } from '../../control/refusal.ts';
import { labelsText } from './fleet-wording.ts';
import { agentIdOf, nameOfAgent, oneAgent } from './named-agent.ts';
import { outputSchema, schemaText, spawnOnce } from './spawn-once.ts';
import { newTask, taskChange } from './task-tools.ts';
import { bodyFor, tool } from './tool.ts';
import { checklistText, taskText } from './wording.ts';

const changes = { readOnlyHint: false, destructiveHint: false, openWorldHint: false } as const;
const destroys = { readOnlyHint: false, destructiveHint: true, openWorldHint: false } as const;

const labels = z.record(z.string(), z.string());

/** What a user may do who may do more than read. */
export const commandTools = [
  tool({
    name: 'spawn_agent',
    description:
      'Spawns a coding agent that works on its own in a workspace. It knows only what you tell it here. Follow it with wait_for_agents or agent_status.',
    input: z.object({
      description: z.string().min(1).describe('The whole task, with everything the agent has to know.'),
      agent: oneAgent.agent
        .optional()
        .describe(
          'Its name, such as "fix-login"; "fix-login/tests" makes a child of fix-login. Made for you otherwise.',
        ),
      workspace: z
        .string()
        .optional()
        .describe(
          'Where it works: list_resources of kind workspace shows them. Default "default"; a child is where its parent is.',
        ),
      account: oneAgent.account.describe('Whose agent it shall be. Default: yours.'),
      tasks: z.array(newTask).max(limits.tasksPerAgent).optional().describe('Its checklist.'),
      persona: z.string().optional().describe('list_resources of kind persona shows them.'),
      model: z.string().optional(),
      reasoningEffort: z.string().optional(),
      expectedOutput: z.string().optional().describe('What it should hand back.'),
      outputSchema: outputSchema.optional(),
      labels: labels.optional().describe('To find the agent by: list_agents takes them.'),
    }),
    annotations: changes,
    run: async ({ agent = '', workspace, account, outputSchema: schema, ...fields }, call) => {
      const { context, caller } = call;
      const agentId = agentIdOf(caller, agent, { workspace, account });
      const body = bodyFor(caller, 'spawn', { ...fields, agentId, outputSchema: schemaText(schema) });
      const reply =
        agentId.agent?.length === 0
          ? await context.control.spawn(caller, body, '')
          : await spawnOnce(call, body);
      if (isRefusal(reply)) {
        if (reply.status !== 'ALREADY_EXISTS') return reply;
        const message = `${agent} has not ended. Give it more work with send_message, or choose another name.`;
        return { ...reply, message };
      }
      const name = nameOfAgent(reply.agentId);
      return {
        text: [
          `${name} is spawned and works on its own. Dashboard: ${reply.dashboardUrl}`,
          ...(reply.warning ? [reply.warning] : []),
        ].join('\n'),
        data: {
          agent: reply.agentId.agent.join('/'),
          workspace: reply.agentId.workspace,
          phase: reply.phase,
          dashboardUrl: reply.dashboardUrl,
        },
      };
    },
  }),

  tool({
    name: 'send_message',
    description:
      'Gives an agent a message: an answer, or more work. One at rest starts at once; one at work gets it after its turn, or at once with preempt, which cuts its turn and drops the messages that wait. Give a time to have it delivered later.',
    input: z.object({
      ...oneAgent,
      text: z.string().min(1),
      preempt: z.boolean().optional().describe('Default false.'),
      deliverAt: z
        .string()
        .optional()
        .describe('A date-time such as 2026-01-31T09:00:00Z. Not together with preempt.'),
      delaySeconds: z
        .number()
        .min(0)
        .max(limits.deferDays * 86_400)
        .optional()
        .describe('Instead of deliverAt, from now.'),
      model: z.string().optional().describe('The model from this message on.'),
    }),
    annotations: changes,
    run: async (
      { agent, workspace, account, text, delaySeconds, deliverAt, ...fields },
      { context, caller },
    ) => {
      if (delaySeconds !== undefined && deliverAt !== undefined)
        return invalid('delaySeconds', 'may not be combined with deliverAt');
      const later =
        delaySeconds === undefined ? deliverAt : new Date(Date.now() + delaySeconds * 1000).toISOString();
      const body = bodyFor(caller, 'queue', {
        ...fields,
        agentId: agentIdOf(caller, agent, { workspace, account }),
        description: text,
        deliverAt: later,
      });
      const reply = await context.control.queue(caller, body);
      if (isRefusal(reply)) return reply;
      const when = later === undefined ? '' : ` at ${later}`;
      return {
        text: `${agent} will get your message${when}. Its id: ${reply.followUpId}`,
        data: { id: reply.followUpId, deliverAt: later ?? null },
      };
    },
  }),

  tool({
    name: 'stop_turn',
    description:
      'Interrupts the turn that an agent is in. The agent lives on, keeps its work, and rests until it gets a message.',
    input: z.object({
      ...oneAgent,
      force: z.boolean().optional().describe('Kills its process instead of asking it to stop.'),
    }),
    annotations: changes,
    run: async ({ agent, force, ...whose }, { context, caller }) => {
      const { control } = context;
      const { agentId } = bodyFor(caller, 'stopTurn', { agentId: agentIdOf(caller, agent, whose) });
      const status = await control.status(caller, agentId);
      if (isRefusal(status)) return status;
      const run = Number(status.runCount);
      const reply = await control.stopTurn(caller, agentId, run, force ? 'KILL' : 'INTERRUPT');
      return isRefusal(reply) ? reply : { text: `The turn of ${agent} is told to stop.` };
    },
  }),

  tool({
    name: 'retry_agent',
    description:
      'Runs the messages of a blocked agent again, once what blocked it is fixed: agent_status says what that is. One that waits to be retried starts immediately.',
    input: z.object(oneAgent),
    annotations: changes,
    run: async ({ agent, ...whose }, { context, caller }) => {
      const { agentId } = bodyFor(caller, 'retry', { agentId: agentIdOf(caller, agent, whose) });
      const reply = await context.control.retry(caller, agentId);
      return isRefusal(reply) ? reply : { text: `${agent} runs its messages again.` };
    },
  }),

  tool({
    name: 'reopen_agent',
    description:
      'Reopens an agent that finished or failed, with its session, checklist and branch. Then give it work with send_message. A killed agent stays ended.',
    input: z.object(oneAgent),
    annotations: changes,
    run: async ({ agent, ...whose }, { context, caller }) => {
      const { agentId } = bodyFor(caller, 'reopen', { agentId: agentIdOf(caller, agent, whose) });
      const reply = await context.control.reopen(caller, agentId);
      return isRefusal(reply) ? reply : { text: `${agent} is open again. Send it a message.` };
    },
  }),

  tool({
    name: 'kill_agent',
    description: 'Ends an agent and every agent below it, for good. To only interrupt it, use stop_turn.',
    input: z.object(oneAgent),
    annotations: destroys,
    run: async ({ agent, ...whose }, { context, caller }) => {
      const { agentId } = bodyFor(caller, 'kill', { agentId: agentIdOf(caller, agent, whose) });
      const reply = await context.control.kill(caller, agentId);
      return isRefusal(reply) ? reply : { text: `${agent} and everything below it has ended.` };
    },
  }),

  tool({
    name: 'label_agent',
    description:
      'Sets labels of an agent, which list_agents can filter by. Labels that you leave out stay; an empty value removes a label.',
    input: z.object({ ...oneAgent, labels: labels.describe('Key and value of each.') }),
    annotations: changes,
    run: async ({ agent, labels: change, ...whose }, { context, caller }) => {
      const agentId = agentIdOf(caller, agent, whose);
      const reply = await context.control.label(
        caller,
        bodyFor(caller, 'labels', { agentId, labels: change }),
      );
      if (isRefusal(reply)) return reply;
      return { text: labelsText(reply.labels) || `${agent} has no labels.`, data: { labels: reply.labels } };
    },
  }),

  tool({
    name: 'create_tasks',
    description:
      'Adds tasks to the checklist of an agent. It is not finished before each is completed or deleted.',
    input: z.object({ ...oneAgent, tasks: z.array(newTask).min(1).max(limits.tasksPerAgent) }),
    annotations: changes,
    run: async ({ agent, tasks, ...whose }, { context, caller }) => {
      const body = bodyFor(caller, 'createTasks', { agentId: agentIdOf(caller, agent, whose), tasks });
      const reply = await context.control.createTasks(caller, body);
      if (isRefusal(reply)) return reply;
      return { text: `Added. ${checklistText(reply.tasks)}`, data: { tasks: reply.tasks } };
    },
  }),

  tool({
    name: 'update_task',
    description:
      'Changes one task of the checklist of an agent: its status, subject or description. What you leave out stays.',
    input: z.object({ ...oneAgent, ...taskChange.fields }),
    annotations: changes,
    run: async ({ agent, workspace, account, ...fields }, { context, caller }) => {
      const agentId = agentIdOf(caller, agent, { workspace, account });
      const body = bodyFor(caller, 'updateTask', { agentId, ...taskChange.of(fields) });
      const reply = await context.control.updateTask(caller, body);
      return isRefusal(reply) ? reply : { text: taskText(reply.task), data: { task: reply.task } };
    },
  }),

  tool({
    name: 'remove_message',
    description: 'Takes back one message that an agent has not got yet.',
    input: z.object({ ...oneAgent, id: z.string().min(1).describe('As list_queue shows it.') }),
    annotations: destroys,
    run: async ({ agent, id, ...whose }, { context, caller }) => {
      const fields = { agentId: agentIdOf(caller, agent, whose), followUpId: id };
      const { agentId, followUpId } = bodyFor(caller, 'removeFollowUp', fields);
      const reply = await context.control.removeFollowUp(caller, agentId, followUpId);
      if (isRefusal(reply)) return reply;
      return { text: reply.removed ? 'Removed.' : 'It was no longer waiting.', data: { ...reply } };
    },
  }),

  tool({
    name: 'clear_queue',
    description:
      'Takes back every message that waits for the end of the turn. Those for a later time stay: remove_message takes them back one by one.',
    input: z.object(oneAgent),
    annotations: destroys,
    run: async ({ agent, ...whose }, { context, caller }) => {
      const { agentId } = bodyFor(caller, 'clearFollowUps', { agentId: agentIdOf(caller, agent, whose) });
      const reply = await context.control.clearFollowUps(caller, agentId);
      return isRefusal(reply)
        ? reply
        : { text: `Messages taken back: ${reply.cleared}.`, data: { ...reply } };
    },
  }),
];
