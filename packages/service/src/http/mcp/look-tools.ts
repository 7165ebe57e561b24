import { type AgentStatus, kinds, limits } from '@muster/sdk/contract';
import { z } from 'zod';
import type { Principal } from '../../control/principal.ts';
import { isRefusal } from '../../control/refusal.ts';
import { agentLine, entryData, phaseOf, shortPhases, statusData, statusText } from './fleet-wording.ts';
import { agentIdOf, agentName, manyAgents, oneAgent } from './named-agent.ts';
import { bodyFor, tool } from './tool.ts';
import { readTranscript, transcriptEntries } from './transcript.ts';
import { waitForAgents } from './wait-for-agents.ts';
import { checklistText, followUpText } from './wording.ts';

const reads = { readOnlyHint: true, openWorldHint: false } as const;

const kind = z
  .string()
  .min(1)
  .describe(`One of ${kinds.join(', ')}.`);
const pageToken = z.string().optional().describe('nextPageToken of the page before.');
const more = (token: string): string => (token ? `\nThere are more: pageToken ${token}` : '');

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
      ...manyAgents(limits.agentsPerWait),
      waitFor: z.enum(['any', 'all']).optional().describe('Default any.'),
      timeoutSeconds: z.number().min(0).max(3600).optional().describe('Default 50, at most 3600.'),
    }),
    annotations: reads,
    run: ({ agents, waitFor, timeoutSeconds = 50, ...whose }, call) =>
      waitForAgents(
        call,
        agents.map((name) => agentIdOf(call.caller, name, whose)),
        { forAll: waitFor === 'all', timeoutMs: timeoutSeconds * 1000 },
      ),
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

  statusTool(
    'list_queue',
    'The messages that wait for an agent, with their ids, in the order in which it gets them.',
    ({ followUps }) => {
      const lines = followUps.map((followUp) => `- ${followUp.followUpId}: ${followUpText(followUp)}`);
      return { text: lines.join('\n') || 'No message waits.', data: { messages: followUps } };
    },
  ),

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
