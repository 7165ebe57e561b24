import { limits, nameExpected, namePattern } from '@muster/sdk/contract';
import { z } from 'zod';
import { isRefusal } from '../../control/refusal.ts';
import { childId, childStatus, nameOfChild, selfId } from './own-agent.ts';
import { outputSchema, schemaText, spawnOnce } from './spawn-once.ts';
import { newTask } from './task-tools.ts';
import { bodyFor, tool } from './tool.ts';
import { waitForChildren } from './wait-for-children.ts';
import { childData, childLine, childText } from './wording.ts';

const child = z
  .string()
  .min(1)
  .describe('The name of your child, or a path such as "api/tests" for a child of your child.');

/** The agents below the agent. */
export const childTools = [
  tool({
    name: 'spawn_child',
    description:
      'Spawns an agent below you that works on its own, beside you, on a branch of its own that starts from yours. It knows only what you tell it here. You hear of its end by wait_for_children, or in your next message.',
    input: z.object({
      name: z.string().regex(new RegExp(namePattern), nameExpected).describe('Short and telling.'),
      description: z.string().min(1).describe('The whole task, with everything it has to know.'),
      tasks: z.array(newTask).max(limits.tasksPerAgent).optional().describe('Its checklist.'),
      persona: z.string().optional(),
      model: z.string().optional(),
      expectedOutput: z.string().optional().describe('What it should hand back.'),
      outputSchema: outputSchema.optional(),
    }),
    run: async ({ name, outputSchema: schema, ...fields }, call) => {
      const { caller } = call;
      const agentId = childId(caller, name);
      const body = bodyFor(caller, 'spawn', { ...fields, agentId, outputSchema: schemaText(schema) });
      const reply = await spawnOnce(call, body);
      if (!isRefusal(reply)) return { text: `${name} is spawned and works on its own.` };
      if (reply.status !== 'ALREADY_EXISTS') return reply;
      const message = `you have a child "${name}" that has not ended. Give it more work with message_child, or choose another name.`;
      return { ...reply, message };
    },
  }),

  tool({
    name: 'list_children',
    description: 'Your children, oldest first, and how each stands.',
    input: z.object({ includeEnded: z.boolean().optional().describe('Default true.') }),
    run: async ({ includeEnded = true }, { context, caller }) => {
      const body = bodyFor(caller, 'list', { parentId: selfId(caller), includeTerminal: includeEnded });
      const page = await context.control.lists.page(caller, body);
      if (isRefusal(page)) return page;
      const children = page.entries
        .toReversed()
        .map((entry) => ({ name: nameOfChild(caller, entry.agentId.agent), entry }));
      if (children.length === 0) return { text: 'You have no children.', data: { children: [] } };
      return {
        text: children.map(({ name, entry }) => childLine(name, entry)).join('\n'),
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

  tool({
    name: 'child_status',
    description:
      'How one child stands: its phase, question, last words, structured output, error, branch, open tasks.',
    input: z.object({ child }),
    run: async ({ child: name }, call) => {
      const status = await childStatus(call, name);
      if (isRefusal(status)) return status;
      const shown = nameOfChild(call.caller, status.agentId.agent);
      return { text: childText(shown, status), data: childData(shown, status) };
    },
  }),

  tool({
    name: 'wait_for_children',
    description:
      'Waits until a child finishes, fails, asks or rests, and says how. Returns at once if one did that you have not looked at yet, or if none works any more. Call it again to wait for the others.',
    input: z.object({
      children: z.array(child).min(1).max(limits.agentsPerWait).optional().describe('Default: all of them.'),
      timeoutSeconds: z.number().min(0).max(3600).optional().describe('Default 50, at most 3600.'),
    }),
    run: ({ children, timeoutSeconds = 50 }, call) => waitForChildren(call, children, timeoutSeconds * 1000),
  }),

  tool({
    name: 'message_child',
    description:
      'Gives a child a message: an answer, or more work. A child at rest starts at once; one at work gets it after its turn, or at once with preempt, which cuts its turn and drops the messages that wait.',
    input: z.object({ child, text: z.string().min(1), preempt: z.boolean().optional() }),
    run: async ({ child: name, text, preempt }, { context, caller }) => {
      const fields = { agentId: childId(caller, name), description: text, preempt };
      const reply = await context.control.queue(caller, bodyFor(caller, 'queue', fields));
      return isRefusal(reply) ? reply : { text: `${name} will get your message.` };
    },
  }),

  tool({
    name: 'stop_child_turn',
    description: 'Interrupts the turn that a child is in. The child lives on and rests until you message it.',
    input: z.object({ child }),
    run: async ({ child: name }, call) => {
      const { context, caller } = call;
      const status = await childStatus(call, name);
      if (isRefusal(status)) return status;
      const fields = { agentId: childId(caller, name), runId: status.runCount };
      const { agentId } = bodyFor(caller, 'stopTurn', fields);
      const reply = await context.control.stopTurn(caller, agentId, Number(status.runCount), 'INTERRUPT');
      return isRefusal(reply) ? reply : { text: `The turn of ${name} is told to stop.` };
    },
  }),

  tool({
    name: 'retry_child',
    description:
      'Runs the messages of a blocked child again, once what blocked it is fixed: child_status says what that is. One that waits to be retried starts immediately.',
    input: z.object({ child }),
    run: async ({ child: name }, { context, caller }) => {
      const { agentId } = bodyFor(caller, 'retry', { agentId: childId(caller, name) });
      const reply = await context.control.retry(caller, agentId);
      return isRefusal(reply) ? reply : { text: `${name} runs its messages again.` };
    },
  }),

  tool({
    name: 'reopen_child',
    description:
      'Reopens a child that finished or failed, with its session, checklist and branch. Then give it work with message_child. A killed child stays ended.',
    input: z.object({ child }),
    run: async ({ child: name }, { context, caller }) => {
      const { agentId } = bodyFor(caller, 'reopen', { agentId: childId(caller, name) });
      const reply = await context.control.reopen(caller, agentId);
      return isRefusal(reply) ? reply : { text: `${name} is open again. Send it a message.` };
    },
  }),

  tool({
    name: 'kill_child',
    description: 'Ends a child and everything below it, for good.',
    input: z.object({ child }),
    run: async ({ child: name }, call) => {
      const { context, caller } = call;
      const { agentId } = bodyFor(caller, 'kill', { agentId: childId(caller, name) });
      const reply = await context.control.kill(caller, agentId);
      if (isRefusal(reply)) return reply;
      // Who has killed it need not be told that it ended.
      await childStatus(call, name);
      return { text: `${name} and everything below it has ended.` };
    },
  }),
];
