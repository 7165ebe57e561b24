import * as agents from '../agent.ts';
import { setBudgetReply, setBudgetRequest } from '../budget.ts';
import { limits } from '../limits.ts';
import { agentId, type Operations } from './operation.ts';
import { listStreamQuery } from './queries.ts';

const { agentRequest, agentStatus, emptyReply, listReply, listRequest } = agents;
const agentEntry = listReply.properties.entries.items;

const spawnHeaders = {
  'Idempotency-Key': {
    type: 'string',
    maxLength: limits.idLength,
    description: `A repeated spawn with the same key and body returns the first reply, for ${limits.idempotencyHours} hours.`,
  },
} as const;

const wholeEvent = {
  name: 'whole',
  data: emptyReply,
  about: 'An event named `whole` with the data `{}` marks the end of the list; changes follow.',
} as const;

export const agentOperations = {
  spawn: {
    summary: 'Spawns an agent.',
    isOriginal: true,
    access: 'spawn',
    body: agents.spawnRequest,
    reply: agents.spawnReply,
    headers: spawnHeaders,
    example: {
      agentId,
      description: 'Fix the login page: a wrong password shows a blank screen.',
      tasks: [{ subject: 'Reproduce it in a test' }, { subject: 'Fix it' }],
    },
  },
  status: {
    summary: "Returns an agent's status.",
    isOriginal: true,
    access: 'read',
    body: agentRequest,
    reply: agentStatus,
    example: { agentId },
  },
  wait: {
    summary: 'Blocks until the agent needs attention.',
    isOriginal: true,
    access: 'read',
    body: agents.waitRequest,
    reply: agentStatus,
    example: { agentId },
  },
  kill: {
    summary: 'Ends an agent and all agents below it.',
    isOriginal: true,
    access: 'command',
    body: agentRequest,
    reply: emptyReply,
    example: { agentId },
  },
  retry: {
    summary:
      'Runs the messages of a blocked agent again, and those of a retrying or rate-limited one immediately.',
    access: 'command',
    body: agentRequest,
    reply: emptyReply,
    example: { agentId },
  },
  reopen: {
    summary: 'Reopens an agent that finished or failed.',
    access: 'command',
    body: agentRequest,
    reply: emptyReply,
    example: { agentId },
  },
  deleteAgent: {
    summary: 'Deletes an agent that has ended, with everything that it has.',
    access: 'command',
    body: agentRequest,
    reply: emptyReply,
    example: { agentId },
  },
  labels: {
    summary: 'Sets and removes labels of an agent.',
    access: 'command',
    body: agents.labelsRequest,
    reply: agents.labelsReply,
    example: { agentId, labels: { team: 'web', sprint: '' } },
  },
  setBudget: {
    summary:
      'Sets, raises or removes the budget of an agent. It continues by itself if that budget had stopped it.',
    access: 'command',
    body: setBudgetRequest,
    reply: setBudgetReply,
    example: { agentId, budgetUsd: 5 },
  },
  list: {
    summary: 'Lists agents, one level deep.',
    isOriginal: true,
    access: 'read',
    body: listRequest,
    reply: listReply,
    example: { includeTerminal: true, pageSize: 50 },
  },
  markAgents: {
    summary: 'Records which agents the caller has seen and pinned.',
    access: 'person',
    body: agents.markRequest,
    reply: emptyReply,
    example: { marks: [{ agentId, seen: '12', pinned: true }] },
  },
  waitMany: {
    summary: 'Blocks until one of several agents, or all of them, need attention.',
    access: 'read',
    body: agents.waitManyRequest,
    reply: agentStatus,
    example: { agentIds: [agentId, { agent: ['fix-login', 'tests'] }] },
  },
  retryMany: {
    summary: 'Does the same for several agents, and returns what became of each.',
    access: 'command',
    body: agents.retryManyRequest,
    reply: agents.retryManyReply,
    example: { labels: { team: 'web' } },
  },
  listStream: {
    summary: 'Streams list entries as they change.',
    access: 'read',
    body: listRequest,
    reply: agentEntry,
    stream: true,
    otherEvent: wholeEvent,
    example: { allDepths: true },
  },
  listStreamByGet: {
    summary: 'The same for EventSource, with the filter in the query.',
    access: 'read',
    reply: agentEntry,
    query: listStreamQuery,
    stream: true,
    otherEvent: wholeEvent,
  },
  diff: {
    summary: "Returns the changes on the agent's branch.",
    access: 'read',
    body: agents.diffRequest,
    reply: agents.diffReply,
    example: { agentId },
  },
  checkpoint: {
    summary: "Returns one part of an agent's newest checkpoint: its unpushed work and its session.",
    access: 'command',
    body: agents.checkpointRequest,
    reply: agents.checkpointReply,
    example: { agentId },
  },
} as const satisfies Operations;
