import { type AgentIdInput, type AgentStatus, kinds, limits } from '@muster/sdk/contract';
import { z } from 'zod';
import type { Principal } from '../../control/principal.ts';
import { invalid, isRefusal, type Refusal } from '../../control/refusal.ts';
import {
  agentLine,
  entryData,
  messageText,
  phaseOf,
  runText,
  shortPhases,
  statusData,
  statusText,
} from './fleet-wording.ts';
import { agentIdOf, agentName, oneAgent, someAgents } from './named-agent.ts';
import { bodyFor, type Said, type ToolCall, tool } from './tool.ts';
import { readTranscript, transcriptEntries } from './transcript.ts';
import { waitBelow, waitForAgents, waitForAnswer } from './wait-for-agents.ts';
import { checklistText, followUpText } from './wording.ts';

const reads = { readOnlyHint: true, openWorldHint: false } as const;

const kind = z
  .string()
  .min(1)
  .describe(`One of ${kinds.join(', ')}.`);
const defaultWaitSeconds = 50;
const pageToken = z.string().optional().describe('nextPageToken of the page before.');
const more = (token: string): string => (token ? `\nThere are more: pageToken ${token}` : '');

const timeoutSeconds = z
  .number()
  .min(0)
  .max(limits.waitSeconds)
  .optional()
  .describe(`Default ${defaultWaitSeconds}, at most ${limits.waitSeconds}.`);
const runId = z.number().int().min(1);

/** A tool that shows a part of how one agent stands. */
const statusTool = (
  name: string,
  description: string,
  show: (status: AgentStatus, caller: Principal) => { text: string; data: Record<string, unknown> },
) =>
  tool({
    name,
    description,
    input: z.object(oneAgent),
    annotations: reads,
    run: async ({ agent, ...whose }, { context, caller }) => {
      const { agentId } = bodyFor(caller, 'status', { agentId: agentIdOf(caller, agent, whose) });
      const status = await context.control.status(caller, agentId);
      return isRefusal(status) ? status : show(status, caller);
    },
  });

/** What a user may look at, whatever its role. */
export const lookTools = [
  tool({
    name: 'list_agents',
    description:
      'The agents you have, newest first, and how each stands: root agents, the children of one agent, or agents at every depth. Ended ones are left out unless you ask for them.',
    input: z.object({
      parent: agentName.optional().describe('List the children of this agent instead of root agents.'),
      allDepths: z
        .boolean()
        .optional()
        .describe('Every agent, or everything below the parent, instead of one level. Default false.'),
      workspace: z.string().optional().describe('Only those of one workspace.'),
      account: z
        .string()
        .optional()
        .describe('Whose: "name", "provider_name/name", or "*" for everybody. Default: your own.'),
      phases: z.array(z.enum(shortPhases)).optional().describe('Only those in one of these phases.'),
      text: z.string().optional().describe('Only those whose path or description holds this.'),
      labels: z.record(z.string(), z.string()).optional().describe('Only those that have all of these.'),
      includeEnded: z.boolean().optional().describe('Default false.'),
      limit: z.number().int().min(1).max(limits.pageSize).optional().describe('Default 50.'),
      pageToken,
    }),
    annotations: reads,
    run: async ({ parent, phases, includeEnded, limit = 50, ...filter }, { context, caller }) => {
      const { workspace, account } = filter;
      const owner = account === '*' ? undefined : account;
      const body = bodyFor(caller, 'list', {
        ...filter,
        parentId: parent === undefined ? undefined : agentIdOf(caller, parent, { workspace, account: owner }),
        phases: phases?.map(phaseOf),
        includeTerminal: includeEnded ?? phases?.some((phase) => ended.includes(phase)),
        pageSize: limit,
      });
      const page = await context.control.lists.page(caller, body);
      if (isRefusal(page)) return page;
      const { entries, nextPageToken } = page;
      const lines = entries.map((entry) => agentLine(caller, entry));
      return {
        text: lines.length > 0 ? `${lines.join('\n')}${more(nextPageToken)}` : 'There are none.',
        data: { agents: entries.map((entry) => entryData(caller, entry)), nextPageToken },
      };
    },
  }),

  statusTool(
    'agent_status',
    'Everything about how one agent stands: its phase and why, its question, last words, structured output, error, branch, open tasks, waiting messages, children, cost.',
    (status, caller) => ({ text: statusText(status), data: statusData(caller, status) }),
  ),

  tool({
    name: 'wait_for_agents',
    description:
      'Waits until one of these agents needs attention (it finished, failed, asks, or rests), or all of them do, and says how each stands. Returns at once if that is so already. When the time is over it says who still works: call it again.',
    input: z.object({
      ...someAgents(limits.agentsPerWait),
      below: agentName
        .optional()
        .describe('Instead of agents: all agents below this one, at every depth, also those spawned later.'),
      waitFor: z.enum(['any', 'all']).optional().describe('Default any.'),
      timeoutSeconds,
    }),
    annotations: reads,
    run: async (
      { agents, below, waitFor, timeoutSeconds: seconds = defaultWaitSeconds, workspace, account },
      call,
    ) => {
      if ((agents === undefined) === (below === undefined)) return invalid('agents', 'give agents or below');
      const idOf = (name: string) => agentIdOf(call.caller, name, { workspace, account });
      const options = { forAll: waitFor === 'all', timeoutMs: seconds * 1000 };
      return below === undefined
        ? waitForAgents(call, (agents ?? []).map(idOf), options)
        : waitBelow(call, idOf(below), options);
    },
  }),

  tool({
    name: 'wait_for_answer',
    description:
      'Waits until an agent has answered one message, or until one of its runs has ended, and shows the answer. Returns at once if that is so already, or if the message will never be delivered. When the time is over it says so: call it again.',
    input: z.object({
      ...oneAgent,
      id: z.string().min(1).optional().describe('The message: the id that send_message returned.'),
      run: runId.optional().describe('Instead of a message: the number of the run.'),
      timeoutSeconds,
    }),
    annotations: reads,
    run: async ({ agent, id, run, timeoutSeconds: seconds = defaultWaitSeconds, ...whose }, call) => {
      if ((id === undefined) === (run === undefined)) return invalid('id', 'give id or run');
      const agentId = agentIdOf(call.caller, agent, whose);
      const isOver = await waitForAnswer(call, { agentId, followUpId: id, runId: run }, seconds * 1000);
      if (isRefusal(isOver)) return isOver;
      const said =
        id === undefined ? await oneRun(call, agentId, run ?? 0) : await oneMessage(call, agentId, id);
      if (isRefusal(said) || isOver) return said;
      return { text: `The time is over.\n\n${said.text}`, data: { ...said.data, timedOut: true } };
    },
  }),

  tool({
    name: 'read_transcript',
    description:
      'What an agent was told, said and did, oldest first: the newest entries, or those before one.',
    input: z.object({
      ...oneAgent,
      entries: z
        .number()
        .int()
        .min(1)
        .max(1000)
        .optional()
        .describe(`How many. Default ${transcriptEntries}.`),
      before: z.string().optional().describe('Only entries before this number; the transcript shows them.'),
    }),
    annotations: reads,
    run: async ({ agent, entries = transcriptEntries, before, ...whose }, call) => {
      const text = await readTranscript(call, agentIdOf(call.caller, agent, whose), entries, before);
      return isRefusal(text) ? text : { text };
    },
  }),

  statusTool(
    'list_tasks',
    'The checklist of an agent: ids, subjects, what is done and what is open.',
    ({ tasks }) => ({ text: checklistText(tasks), data: { tasks } }),
  ),

  tool({
    name: 'list_queue',
    description: 'The messages that wait for an agent, with their ids, in the order in which it gets them.',
    input: z.object({
      ...oneAgent,
      limit: z.number().int().min(1).max(limits.pageSize).optional().describe('Default 50.'),
      pageToken,
    }),
    annotations: reads,
    run: async ({ agent, limit = 50, pageToken: token, ...whose }, { context, caller }) => {
      const page = { pageSize: limit, pageToken: token };
      const body = bodyFor(caller, 'listFollowUps', { agentId: agentIdOf(caller, agent, whose), ...page });
      const reply = await context.control.listFollowUps(caller, body);
      if (isRefusal(reply)) return reply;
      const { followUps, nextPageToken } = reply;
      const lines = followUps.map((followUp) => `- ${followUp.followUpId}: ${followUpText(followUp)}`);
      return {
        text: lines.length > 0 ? `${lines.join('\n')}${more(nextPageToken)}` : 'No message waits.',
        data: { messages: followUps, nextPageToken },
      };
    },
  }),

  tool({
    name: 'read_message',
    description:
      'One message to an agent, whether it waits or was delivered: its whole text, its state, the run that got it, and the answer.',
    input: z.object({ ...oneAgent, id: z.string().min(1).describe('The id that send_message returned.') }),
    annotations: reads,
    run: ({ agent, id, ...whose }, call) => oneMessage(call, agentIdOf(call.caller, agent, whose), id),
  }),

  tool({
    name: 'list_runs',
    description:
      'The runs of an agent, newest first: how each ended, what it answered, and its cost. Long answers are cut: name a run to read its whole answer.',
    input: z.object({
      ...oneAgent,
      run: runId.optional().describe('Only this run, with its whole answer.'),
      before: runId.optional().describe('Only runs before this one.'),
      limit: z.number().int().min(1).max(1000).optional().describe('Default 10.'),
    }),
    annotations: reads,
    run: async ({ agent, run, before, limit = 10, ...whose }, call) => {
      const { context, caller } = call;
      const agentId = agentIdOf(caller, agent, whose);
      if (run !== undefined) return oneRun(call, agentId, run);
      const body = bodyFor(caller, 'runs', { agentId, beforeRunId: before, limit });
      const found = await context.control.find(caller, body.agentId);
      if (isRefusal(found)) return found;
      const { runs } = await context.control.reads.runs(found, Math.min(before ?? lastRun, lastRun), limit);
      return { text: runs.map(runText).join('\n\n') || 'The agent has not run yet.', data: { runs } };
    },
  }),

  tool({
    name: 'list_resources',
    description:
      'The names of what the catalog has of one kind: workspaces and personas to spawn with, environments, pools, keys (without their secrets) and so on.',
    input: z.object({
      kind,
      limit: z.number().int().min(1).max(limits.pageSize).optional().describe('Default 200.'),
      pageToken,
    }),
    annotations: reads,
    run: async ({ kind: of, limit = 200, pageToken: token = '' }, { context, caller }) => {
      const page = await context.control.catalog.list(caller, undefined, of, limit, token);
      if (isRefusal(page)) return page;
      const resources = page.entries.map(({ name, generation, builtin }) => ({ name, generation, builtin }));
      const lines = resources.map(({ name, builtin }) => `- ${name}${builtin ? ' (built in)' : ''}`);
      return {
        text: lines.length > 0 ? `${lines.join('\n')}${more(page.nextPageToken)}` : 'There are none.',
        data: { resources, nextPageToken: page.nextPageToken },
      };
    },
  }),

  tool({
    name: 'read_resource',
    description: 'One document of the catalog, as JSON, with its generation.',
    input: z.object({ kind, name: z.string().min(1) }),
    annotations: reads,
    run: async (ref, { context, caller }) => {
      const resource = await context.control.catalog.read(caller, undefined, ref);
      if (isRefusal(resource)) return resource;
      const document: unknown = JSON.parse(Buffer.from(resource.payload, 'base64').toString());
      return {
        text: `${resource.kind} ${ref.name}, generation ${resource.generation}:\n${JSON.stringify(document, null, 2)}`,
        data: { kind: resource.kind, name: ref.name, generation: resource.generation, document },
      };
    },
  }),
];

const ended: readonly string[] = ['completed', 'failed', 'canceled'] satisfies (typeof shortPhases)[number][];

/** The largest number that the store has for a run. */
const lastRun = 2 ** 31 - 1;

async function oneMessage(
  { context, caller }: ToolCall,
  agentId: AgentIdInput,
  id: string,
): Promise<Said | Refusal> {
  const body = bodyFor(caller, 'followUp', { agentId, followUpId: id });
  const agent = await context.control.find(caller, body.agentId);
  if (isRefusal(agent)) return agent;
  const message = await context.control.reads.followUp(agent, id);
  return isRefusal(message) ? message : { text: messageText(message), data: { message } };
}

async function oneRun(
  { context, caller }: ToolCall,
  agentId: AgentIdInput,
  run: number,
): Promise<Said | Refusal> {
  const body = bodyFor(caller, 'runs', { agentId, runId: run });
  const agent = await context.control.find(caller, body.agentId);
  if (isRefusal(agent)) return agent;
  const read = await context.control.reads.run(agent, Math.min(run, lastRun));
  return isRefusal(read) ? read : { text: runText(read), data: { runs: [read] } };
}
