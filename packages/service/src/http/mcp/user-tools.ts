import {
  attachmentIdsIn,
  isTerminal,
  kinds,
  labels,
  limits,
  type Phase,
  pageIn,
  phases,
} from '@muster/sdk/contract';
import type { Principal } from '../../control/access/principal.ts';
import { invalidField } from '../errors.ts';
import { checklistTools, lifecycleTools, spawn, spawnInput, stopTurn } from './agent-tools.ts';
import { listChangeRequests, openChangeRequestTool } from './change-request-tools.ts';
import { diffTool } from './diff-tool.ts';
import {
  entryData,
  entryLine,
  followUpText,
  labelsText,
  messageText,
  namedId,
  nameOfAgent,
  runText,
  statusData,
  statusText,
} from './text.ts';
import { threadCommands, threadReads } from './thread-tools.ts';
import { agentTool, callRoute, routeTool, string, type Tool, type ToolReply, text, tool } from './tool.ts';
import { readTranscript, transcriptEntries } from './transcript.ts';
import { usageTool } from './usage-tool.ts';
import { maxListed, waitBelow, waitForAgents, waitForAnswer, waitTimeout } from './wait.ts';

/** The tools of users, who call them with their own key from a chat client or an editor. */

const flag = (description: string) => ({ type: 'boolean', description }) as const;
const limitUpTo = (maximum: number, standard: number) =>
  ({ type: 'integer', minimum: 1, maximum, description: `Default ${standard}.` }) as const;
const pageToken = { ...pageIn.pageToken, description: 'nextPageToken of the previous page.' } as const;
const runNumber = (description: string) => ({ type: 'integer', minimum: 1, description }) as const;
const kind = text(`One of ${kinds.join(', ')}.`);
const messageId = text('The id that send_message returned.');

const agentName = text('Path from root to leaf, such as "fix-login/tests", or "workspace:fix-login/tests".');
const owner = {
  workspace: string('Only needed if agents in several workspaces have the same path.'),
  account: string('The owner of the agent: "name" or "provider_name/name". Default: you.'),
} as const;
const oneAgent = { agent: agentName, ...owner } as const;
type NamedAgent = { agent: string; workspace?: string | undefined; account?: string | undefined };

const agent = {
  input: oneAgent,
  required: ['agent'],
  agentId: (caller: Principal, args: NamedAgent) => namedId(caller, args.agent, args),
} as const;
const forAgent = routeTool(agent);

const [listTasks, createTasks, updateTask] = checklistTools(forAgent, "an agent's");

/** A page of a list as text. */
const pageText = (lines: readonly string[], nextPageToken: string, none: string): string => {
  if (lines.length === 0) return none;
  return [...lines, ...(nextPageToken ? [`There are more: pageToken ${nextPageToken}`] : [])].join('\n');
};

const shortPhases = ['pending', 'running', 'waiting_for_input', 'completed', 'failed', 'canceled'] as const;
const phaseOf = (short: (typeof shortPhases)[number]): Phase =>
  phases.find((phase) => phase === `PHASE_${short.toUpperCase()}`) ?? 'PHASE_UNSPECIFIED';

const commands: readonly Tool[] = [
  tool({
    name: 'spawn_agent',
    description:
      'Spawns a coding agent that works on its own in a workspace. It knows only what you write here. Use wait_for_agents or agent_status to follow it.',
    input: {
      description: text('The whole task, with everything that the agent needs to know.'),
      agent: text(
        'Its name, such as "fix-login"; "fix-login/tests" is a child of fix-login. Leave out to generate a name.',
      ),
      workspace: string(
        'Where it works; list_resources of kind workspace lists them. Default: "default"; a child has the workspace of its parent.',
      ),
      account: string('The owner of the agent. Default: you.'),
      ...spawnInput,
      persona: string('list_resources of kind persona lists them.'),
      reasoningEffort: { type: 'string' },
      labels: { ...labels, description: 'Labels that list_agents can filter by.' },
    },
    required: ['description'],
    run: async ({ agent = '', workspace, account, ...fields }, call) => {
      const agentId = namedId(call.caller, agent, { workspace, account });
      const exists = `${agent} has not ended. Give it more work with send_message, or choose another name.`;
      const spawned = await spawn(call, { ...fields, agentId }, exists);
      const { phase, dashboardUrl, warning } = spawned;
      const name = nameOfAgent(spawned.agentId);
      return {
        text: `${name} is spawned and works on its own. Dashboard: ${dashboardUrl}${warning ? `\n${warning}` : ''}`,
        data: {
          agent: spawned.agentId.agent.join('/'),
          workspace: spawned.agentId.workspace,
          phase,
          dashboardUrl,
        },
      };
    },
  }),
  agentTool(agent)({
    name: 'send_message',
    description:
      'Sends a message to an agent: an answer, or more work. An idle agent starts immediately. A working agent gets it after its turn; during its turn with steer; or immediately with preempt, which ends its turn and drops its queued messages. Pass a time to deliver it later.',
    input: {
      text: text('The message.'),
      attachmentIds: {
        ...attachmentIdsIn,
        description: 'Images: the ids that POST /v1/agent/attachments returned for this agent.',
      },
      steer: flag('Default false. Not together with the fields below.'),
      preempt: flag('Default false.'),
      deliverAt: string('A date-time such as 2026-01-31T09:00:00Z. Not together with preempt.'),
      delaySeconds: {
        type: 'number',
        minimum: 0,
        maximum: limits.deferDays * 86_400,
        description: 'Deliver after this many seconds, instead of deliverAt.',
      },
      model: string('The model from this message on.'),
    },
    required: ['text'],
    run: async ({ text: description, delaySeconds, ...fields }, call) => {
      if (delaySeconds !== undefined && fields.deliverAt !== undefined)
        throw invalidField('delaySeconds', 'may not be combined with deliverAt');
      const deliverAt =
        delaySeconds === undefined
          ? fields.deliverAt
          : new Date(Date.now() + delaySeconds * 1000).toISOString();
      const { name, agentId } = call;
      const { followUpId } = await callRoute(call, 'queue', { ...fields, agentId, description, deliverAt });
      return {
        text: `${name} will get your message${deliverAt ? ` at ${deliverAt}` : ''}. Its id: ${followUpId}`,
        data: { id: followUpId, deliverAt: deliverAt ?? null },
      };
    },
  }),
  agentTool(agent)({
    name: 'stop_turn',
    description:
      'Interrupts the current turn of an agent. The agent stays alive, keeps its work, and is idle until it gets a message.',
    input: { force: flag('Kills its process instead of asking it to stop.') },
    run: ({ force }, call) => stopTurn(call, force),
  }),
  ...lifecycleTools(forAgent, 'agent', 'send_message'),
  tool({
    name: 'retry_agents',
    description:
      'Does what retry_agent does for many agents, as after an outage: for these, or for all blocked, retrying or rate-limited ones with the labels or in the workspace. Shows what became of each.',
    input: {
      agents: { type: 'array', items: agentName, minItems: 1, maxItems: limits.agentsPerRetry },
      workspace: string('Instead of agents: those in this workspace.'),
      labels: { ...labels, description: 'Instead of agents: those with all of these labels.' },
    },
    run: async ({ agents, ...filter }, call): Promise<ToolReply> => {
      const agentIds = agents?.map((name) => namedId(call.caller, name, {}));
      const { agents: retried, more } = await callRoute(call, 'retryMany', { agentIds, ...filter });
      const lines = retried.map(
        ({ agentId, error }) => `- ${nameOfAgent(agentId)}: ${error?.message ?? 'runs its messages again'}`,
      );
      const text = [...lines, ...(more ? ['There are more: call this again.'] : [])].join('\n');
      return { text: text || 'No agent waits for a retry.', data: { agents: retried, more } };
    },
  }),
  forAgent({
    name: 'label_agent',
    description:
      'Sets labels of an agent, which list_agents can filter by. Labels that you leave out stay unchanged; an empty value removes a label.',
    route: 'labels',
    input: { labels: { ...labels, description: 'The value of each key.' } },
    required: ['labels'],
    reply: (reply, { name }) => ({
      text: labelsText(reply.labels) || `${name} has no labels.`,
      data: { labels: reply.labels },
    }),
  }),
  createTasks,
  updateTask,
  ...threadCommands(forAgent),
  openChangeRequestTool(forAgent, 'the agent has'),
  forAgent({
    name: 'remove_message',
    description: 'Removes one message that the agent has not received yet.',
    route: 'removeFollowUp',
    input: { id: text('The id that list_queue shows.') },
    required: ['id'],
    body: ({ id }) => ({ followUpId: id }),
    reply: (reply) => ({
      text: reply.removed ? 'Removed.' : 'The message was no longer queued.',
      data: { ...reply },
    }),
  }),
  forAgent({
    name: 'order_queue',
    description:
      'Changes the order in which the agent gets its queued messages. Name all that list_queue shows without a time, in their new order.',
    route: 'orderQueue',
    input: {
      ids: {
        type: 'array',
        items: text('An id that list_queue shows.'),
        minItems: 1,
        maxItems: limits.undeliveredFollowUpsPerAgent,
      },
    },
    required: ['ids'],
    body: ({ ids }) => ({ followUpIds: ids }),
    reply: (reply) => ({ text: `The order is: ${reply.followUpIds.join(', ')}.`, data: { ...reply } }),
  }),
  forAgent({
    name: 'clear_queue',
    description:
      'Removes every message that is queued for the end of the turn. Scheduled messages stay; use remove_message to remove them one by one.',
    route: 'clearFollowUps',
    reply: (reply) => ({ text: `Messages removed: ${reply.cleared}.`, data: { ...reply } }),
  }),
];

const reads: readonly Tool[] = [
  tool({
    name: 'list_agents',
    description:
      'Lists your agents, newest first, with the status of each: root agents, the children of one agent, or agents at every depth. Ended agents are left out by default.',
    input: {
      parent: text('List the children of this agent instead of root agents.'),
      allDepths: flag('List every agent, or every agent below the parent, instead of one level.'),
      workspace: string('Only agents in this workspace.'),
      account: string('The owner: "name", "provider_name/name", or "*" for all. Default: you.'),
      phases: {
        type: 'array',
        items: { type: 'string', enum: shortPhases },
        description: 'Only agents in one of these phases.',
      },
      text: string('Only agents whose path or description contains this text.'),
      labels: { ...labels, description: 'Only agents that have all of these labels.' },
      includeEnded: flag('Default false.'),
      limit: limitUpTo(limits.pageSize, 50),
      pageToken,
    },
    run: async ({ parent, phases: short, includeEnded, limit = 50, ...filter }, call): Promise<ToolReply> => {
      const { caller } = call;
      const { workspace, account } = filter;
      const wanted = short?.map(phaseOf);
      const parentOwner = { workspace, account: account === '*' ? undefined : account };
      const { entries, nextPageToken } = await callRoute(call, 'list', {
        ...filter,
        parentId: parent === undefined ? undefined : namedId(caller, parent, parentOwner),
        phases: wanted,
        includeTerminal: includeEnded ?? wanted?.some(isTerminal),
        pageSize: limit,
      });
      const lines = entries.map((entry) => entryLine(caller, entry));
      return {
        text: pageText(lines, nextPageToken, 'No agents found.'),
        data: { agents: entries.map((entry) => entryData(caller, entry)), nextPageToken },
      };
    },
  }),
  forAgent({
    name: 'agent_status',
    description:
      'Shows the whole status of one agent: phase and reason, question, last response, structured output, error, branch, open tasks, queued messages, children, cost.',
    route: 'status',
    reply: (status, { caller }) => ({ text: statusText(status), data: statusData(caller, status) }),
  }),
  tool({
    name: 'wait_for_agents',
    description:
      'Waits until one of these agents, or all of them, need attention (finished, failed, needs input, or idle), and shows the status of each. Returns immediately if they already do. When the time runs out it lists the agents that still work: call it again.',
    input: {
      agents: { type: 'array', items: agentName, minItems: 1, maxItems: maxListed },
      ...owner,
      below: text(
        'Instead of agents: all agents below this one, at every depth, including those spawned later.',
      ),
      waitFor: { type: 'string', enum: ['any', 'all'], description: 'Default any.' },
      timeoutSeconds: waitTimeout(limits.waitSeconds),
    },
    run: async ({ agents, below, waitFor, timeoutSeconds = 50, ...named }, call) => {
      if ((agents === undefined) === (below === undefined))
        throw invalidField('agents', 'pass either agents or below');
      const idOf = (name: string) => namedId(call.caller, name, named);
      const options = { all: waitFor === 'all', timeoutMs: timeoutSeconds * 1000 };
      return below === undefined
        ? waitForAgents(call, [...new Set(agents)].map(idOf), options)
        : waitBelow(call, idOf(below), options);
    },
  }),
  agentTool(agent)({
    name: 'wait_for_answer',
    description:
      'Waits until an agent has answered one message, or until one of its runs has ended, and shows the answer. Returns immediately if that has happened already, or if the message will never be delivered. When the time runs out it says so: call it again.',
    input: {
      id: messageId,
      run: runNumber('Instead of a message: the number of the run.'),
      timeoutSeconds: waitTimeout(limits.waitSeconds),
    },
    run: async ({ id, run, timeoutSeconds = 50 }, call): Promise<ToolReply> => {
      if ((id === undefined) === (run === undefined)) throw invalidField('id', 'pass either id or run');
      const { agentId } = call;
      const request = { agentId, followUpId: id, runId: run };
      const isAnswered = await waitForAnswer(call, request, timeoutSeconds * 1000);
      const shown =
        id === undefined
          ? runsReply(await callRoute(call, 'runs', { agentId, runId: run }))
          : messageReply(await callRoute(call, 'followUp', { agentId, followUpId: id }));
      if (isAnswered) return shown;
      return { text: `Timed out.\n\n${shown.text}`, data: { ...shown.data, timedOut: true } };
    },
  }),
  agentTool(agent)({
    name: 'read_transcript',
    description:
      'Shows what an agent received, said and did, oldest first: the newest entries, or the newest before one.',
    input: {
      entries: limitUpTo(1000, transcriptEntries),
      before: string('Only entries before this number, which the transcript shows.'),
    },
    run: ({ entries = transcriptEntries, before }, call) =>
      readTranscript(call, call.agentId, entries, before),
  }),
  diffTool(agentTool(agent)),
  listTasks,
  ...threadReads(forAgent),
  listChangeRequests,
  usageTool,
  forAgent({
    name: 'list_queue',
    description: 'Lists the queued messages of an agent, with their ids, in the order of delivery.',
    route: 'listFollowUps',
    input: { limit: limitUpTo(limits.pageSize, 50), pageToken },
    body: ({ limit = 50, pageToken: token }) => ({ pageSize: limit, pageToken: token }),
    reply: ({ followUps, nextPageToken }) => {
      const lines = followUps.map((followUp) => `- ${followUp.followUpId}: ${followUpText(followUp)}`);
      return {
        text: pageText(lines, nextPageToken, 'No messages are queued.'),
        data: { messages: followUps, nextPageToken },
      };
    },
  }),
  forAgent({
    name: 'read_message',
    description:
      'Shows one message to an agent, queued or delivered: its whole text, its state, the run that got it, and the answer.',
    route: 'followUp',
    input: { id: messageId },
    required: ['id'],
    body: ({ id }) => ({ followUpId: id }),
    reply: (message) => messageReply(message),
  }),
  forAgent({
    name: 'list_runs',
    description:
      'Lists the runs of an agent, newest first: how each ended, its response, and its cost. Long responses are truncated; pass the number of a run to read its whole response.',
    route: 'runs',
    input: {
      run: runNumber('Only this run, with its whole response.'),
      before: runNumber('Only runs before this one.'),
      limit: limitUpTo(1000, 10),
    },
    body: ({ run, before, limit = 10 }) => ({ runId: run, beforeRunId: before, limit }),
    reply: (reply) => runsReply(reply),
  }),
  tool({
    name: 'list_resources',
    description:
      'Lists the names of the catalog resources of one kind: workspaces and personas to spawn with, environments, pools, keys (without their secrets) and so on.',
    input: {
      kind,
      limit: limitUpTo(limits.pageSize, 200),
      pageToken,
    },
    required: ['kind'],
    run: async ({ kind, limit = 200, pageToken: token = '' }, call): Promise<ToolReply> => {
      const query = { pageSize: String(limit), pageToken: token };
      const page = await callRoute(call, 'listResources', undefined, { params: { kind }, query });
      const resources = page.entries.map(({ name, generation, builtin }) => ({ name, generation, builtin }));
      const lines = resources.map(({ name, builtin }) => `- ${name}${builtin ? ' (built in)' : ''}`);
      return {
        text: pageText(lines, page.nextPageToken, 'No resources found.'),
        data: { resources, nextPageToken: page.nextPageToken },
      };
    },
  }),
  tool({
    name: 'read_resource',
    description: 'Shows one catalog resource as JSON, with its generation.',
    input: { kind, name: text('The name of the resource.') },
    required: ['kind', 'name'],
    run: async (params, call): Promise<ToolReply> => {
      const { kind, generation, payload } = await callRoute(call, 'readResource', undefined, { params });
      const document: unknown = JSON.parse(Buffer.from(payload, 'base64').toString());
      return {
        text: `${kind} ${params.name}, generation ${generation}:\n${JSON.stringify(document, null, 2)}`,
        data: { kind, name: params.name, generation, document },
      };
    },
  }),
];

function runsReply({ runs }: { readonly runs: Parameters<typeof runText>[0][] }): ToolReply {
  return { text: runs.map(runText).join('\n\n') || 'The agent has not run yet.', data: { runs } };
}

function messageReply(message: Parameters<typeof messageText>[0]): ToolReply {
  return { text: messageText(message), data: { message } };
}

const destructive = new Set(['kill_agent', 'remove_message', 'clear_queue']);

export const readTools = reads.map((one) => ({
  ...one,
  annotations: { readOnlyHint: true, openWorldHint: false },
}));

/** A user who may only read is refused the others, and does not see them. */
export const userTools: readonly Tool[] = [
  ...commands.map((one) => ({
    ...one,
    annotations: { readOnlyHint: false, destructiveHint: destructive.has(one.name), openWorldHint: false },
  })),
  ...readTools,
];
