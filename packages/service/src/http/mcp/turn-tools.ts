import { errorLength, limits } from '@muster/sdk/contract';
import { z } from 'zod';
import { isRefusal } from '../../control/refusal.ts';
import { ownStatus, selfId } from './own-agent.ts';
import { bodyFor, tool } from './tool.ts';
import { isOpen, ownText, queueText, taskText } from './wording.ts';

/** The agent's own turn: its status, and the ways to end it with something to say. */
export const turnTools = [
  tool({
    name: 'ask',
    description:
      'Asks the people you work for a question that you need answered before you can go on. End your turn right after; the answer comes as your next message.',
    input: z.object({ question: z.string().min(1).max(limits.reportedTextLength) }),
    run: async ({ question }, { context, caller }) => {
      const body = bodyFor(caller, 'ask', { agentId: selfId(caller), question });
      const reply = await context.control.ownRuns.ask(caller, body);
      if (isRefusal(reply)) return reply;
      return {
        text: 'Your question is noted. End your turn now, without further tool calls: the answer comes as your next message.',
      };
    },
  }),

  tool({
    name: 'finish',
    description:
      'Declares all your work done and ends you for good, once your turn is over. Complete or delete your open tasks first. Do not call it if you expect more work.',
    input: z.object({
      summary: z.string().max(limits.reportedTextLength).optional().describe('What came of your work.'),
    }),
    run: async ({ summary }, call) => {
      const { context, caller } = call;
      const body = bodyFor(caller, 'finish', { agentId: selfId(caller), text: summary });
      const reply = await context.control.ownRuns.finish(caller, body);
      if (isRefusal(reply)) return reply;
      const status = await ownStatus(call);
      const open = isRefusal(status) ? [] : status.tasks.filter((task) => isOpen(task) && !task.activation);
      if (open.length === 0) return { text: 'Noted. End your turn now, without further tool calls.' };
      return {
        text: `Noted, but you are not finished while these tasks are open. Complete or delete them, then end your turn:\n${open.map(taskText).join('\n')}`,
      };
    },
  }),

  tool({
    name: 'fail',
    description:
      "Declares that your work can't be done and ends you for good, as failed, once your turn is over. If a person could help, use ask instead.",
    input: z.object({ reason: z.string().min(1).max(errorLength).describe("Why it can't be done.") }),
    run: async ({ reason }, { context, caller }) => {
      const body = bodyFor(caller, 'fail', { agentId: selfId(caller), message: reason });
      const reply = await context.control.ownRuns.fail(caller, body);
      if (isRefusal(reply)) return reply;
      return { text: 'Noted. End your turn now, without further tool calls.' };
    },
  }),

  tool({
    name: 'read_queue',
    description:
      'The messages that wait for you. They come by themselves when your turn ends; read them early if you like.',
    input: z.object({}),
    run: async (_args, call) => {
      const status = await ownStatus(call);
      return isRefusal(status) ? status : { text: queueText(status.followUps) };
    },
  }),

  tool({
    name: 'my_status',
    description:
      'Who you are and how you stand: path, run, model, branch, open tasks, waiting messages, children, cost.',
    input: z.object({}),
    run: async (_args, call) => {
      const status = await ownStatus(call);
      return isRefusal(status) ? status : { text: ownText(status) };
    },
  }),
];
