import {
  agentRequest,
  agentStatus,
  diffReply,
  emptyReply,
  listReply,
  listRequest,
  spawnReply,
  spawnRequest,
  waitManyRequest,
} from './agent.ts';
import {
  clearReply,
  clearRequest,
  queueReply,
  queueRequest,
  removeReply,
  removeRequest,
} from './follow-up.ts';
import { whoamiReply } from './identity.ts';
import type { Infer, Schema } from './infer.ts';
import { limits } from './limits.ts';
import {
  deleteReply,
  historyReply,
  listResourcesReply,
  resource,
  resourceDeleteQuery,
  resourceListQuery,
  resourceQuery,
  writeReply,
  writeRequest,
} from './resource.ts';
import { askRequest, finishRequest, runsReply, runsRequest, stopTurnRequest } from './run.ts';
import {
  endedAgentsReply,
  endedAgentsRequest,
  loadSessionReply,
  loadSessionRequest,
  pollReply,
  pollRequest,
  reportReply,
  reportRequest,
  saveSessionRequest,
} from './runner.ts';
import { createTasksRequest, listTasksRequest, taskReply, tasksReply, updateTaskRequest } from './task.ts';
import { timelineReply, timelineRequest, timelineStreamRequest } from './timeline.ts';

/**
 * What a route does to what it names, from which permissions follow:
 * `self` the caller, `read` and `command` an agent or the agents, `catalog` a resource, `runner` the runner protocol.
 */
export type Access = 'self' | 'read' | 'command' | 'spawn' | 'catalog-read' | 'catalog-write' | 'runner';

export interface Route {
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly path: string;
  readonly access: Access;
  readonly summary: string;
  readonly body?: Schema;
  readonly query?: Schema;
  readonly reply: Schema;
  /** `event-stream`: Server-Sent Events whose data are the reply schema. */
  readonly stream?: true;
  /** Of the body, where it is not the usual limit. */
  readonly bodyBytes?: number;
  /** Not in the document this interface began with. */
  readonly addition?: true;
}

const post = <const P extends string, const A extends Access, const B extends Schema, const R extends Schema>(
  path: P,
  access: A,
  body: B,
  reply: R,
  summary: string,
) => ({ method: 'POST', path, access, body, reply, summary }) as const;

const addition = { addition: true } as const;
const stream = { addition: true, stream: true } as const;

/** The route table: the only place that knows a path. */
export const routes = {
  whoami: {
    method: 'GET',
    path: '/v1/whoami',
    access: 'self',
    reply: whoamiReply,
    summary: "The authenticated caller's identity.",
  },
  spawn: post('/v1/agent/spawn', 'spawn', spawnRequest, spawnReply, 'Spawns an agent.'),
  status: post('/v1/agent/status', 'read', agentRequest, agentStatus, "An agent's status."),
  wait: post('/v1/agent/wait', 'read', agentRequest, agentStatus, 'Blocks until the agent needs attention.'),
  queue: post('/v1/agent/queue', 'command', queueRequest, queueReply, 'Queues a follow-up.'),
  removeFollowUp: post(
    '/v1/agent/queue/remove',
    'command',
    removeRequest,
    removeReply,
    'Removes one undelivered follow-up.',
  ),
  clearFollowUps: post(
    '/v1/agent/clear-follow-ups',
    'command',
    clearRequest,
    clearReply,
    'Discards all queued follow-ups.',
  ),
  stopTurn: post(
    '/v1/agent/stop-turn',
    'command',
    stopTurnRequest,
    emptyReply,
    'Interrupts the current turn.',
  ),
  kill: post(
    '/v1/agent/kill',
    'command',
    agentRequest,
    emptyReply,
    'Ends an agent and every agent it spawned.',
  ),
  list: post('/v1/agents', 'read', listRequest, listReply, 'Lists agents, one level deep.'),

  waitMany: {
    ...post(
      '/v1/agents/wait',
      'read',
      waitManyRequest,
      agentStatus,
      'Blocks until one of many needs attention.',
    ),
    ...addition,
  },
  listStream: {
    ...post(
      '/v1/agents/stream',
      'read',
      listRequest,
      listReply.properties.entries.items,
      'List entries as they change.',
    ),
    ...stream,
  },
  timeline: {
    ...post('/v1/agent/timeline', 'read', timelineRequest, timelineReply, 'What happened to an agent.'),
    ...addition,
  },
  timelineStream: {
    ...post(
      '/v1/agent/timeline/stream',
      'read',
      timelineStreamRequest,
      timelineReply.properties.entries.items,
      'The timeline as it grows; resumes by Last-Event-ID.',
    ),
    ...stream,
  },
  runs: {
    ...post('/v1/agent/runs', 'read', runsRequest, runsReply, "An agent's runs, newest first."),
    ...addition,
  },
  diff: {
    ...post('/v1/agent/diff', 'read', agentRequest, diffReply, "What the agent's branch changed."),
    ...addition,
  },
  tasks: { ...post('/v1/agent/tasks', 'read', listTasksRequest, tasksReply, 'The checklist.'), ...addition },
  createTasks: {
    ...post(
      '/v1/agent/tasks/create',
      'command',
      createTasksRequest,
      tasksReply,
      'Adds tasks to the checklist.',
    ),
    ...addition,
  },
  updateTask: {
    ...post('/v1/agent/tasks/update', 'command', updateTaskRequest, taskReply, 'Changes one task.'),
    ...addition,
  },
  ask: {
    ...post('/v1/agent/ask', 'command', askRequest, emptyReply, "A run's question, for when it has ended."),
    ...addition,
  },
  finish: {
    ...post('/v1/agent/finish', 'command', finishRequest, emptyReply, 'A run declares its agent finished.'),
    ...addition,
  },

  writeResource: post(
    '/v1/catalog/{ref.kind}/{ref.name}',
    'catalog-write',
    writeRequest,
    writeReply,
    'Creates or updates a catalog resource.',
  ),
  readResource: {
    method: 'GET',
    path: '/v1/catalog/{ref.kind}/{ref.name}',
    access: 'catalog-read',
    query: resourceQuery,
    reply: resource,
    summary: 'Reads a catalog resource.',
  },
  listResources: {
    method: 'GET',
    path: '/v1/catalog/{ref.kind}',
    access: 'catalog-read',
    query: resourceListQuery,
    reply: listResourcesReply,
    summary: 'Lists the resources of a kind.',
    ...addition,
  },
  deleteResource: {
    method: 'DELETE',
    path: '/v1/catalog/{ref.kind}/{ref.name}',
    access: 'catalog-write',
    query: resourceDeleteQuery,
    reply: deleteReply,
    summary: 'Deletes a catalog resource.',
    ...addition,
  },
  resourceHistory: {
    method: 'GET',
    path: '/v1/catalog/{ref.kind}/{ref.name}/history',
    access: 'catalog-read',
    query: resourceListQuery,
    reply: historyReply,
    summary: 'Who wrote a resource, when and why, newest first.',
    ...addition,
  },

  runnerPoll: {
    ...post('/v1/runner/poll', 'runner', pollRequest, pollReply, "A runner's heartbeat: claims and stops."),
    ...addition,
  },
  runnerReport: {
    ...post('/v1/runner/report', 'runner', reportRequest, reportReply, 'What a run did.'),
    ...addition,
  },
  runnerSaveSession: {
    ...post(
      '/v1/runner/session/save',
      'runner',
      saveSessionRequest,
      emptyReply,
      "Keeps a run's session files.",
    ),
    ...addition,
    bodyBytes: Math.ceil(limits.sessionBytes / 3) * 4 + 1024,
  },
  runnerLoadSession: {
    ...post(
      '/v1/runner/session/load',
      'runner',
      loadSessionRequest,
      loadSessionReply,
      'The session files kept last.',
    ),
    ...addition,
  },
  runnerEndedAgents: {
    ...post(
      '/v1/runner/agents/ended',
      'runner',
      endedAgentsRequest,
      endedAgentsReply,
      'Which agents have ended.',
    ),
    ...addition,
  },
} as const satisfies Record<string, Route>;

export type RouteName = keyof typeof routes;
export type BodyOf<N extends RouteName> = (typeof routes)[N] extends { readonly body: infer B }
  ? Infer<B>
  : undefined;
export type ReplyOf<N extends RouteName> = Infer<(typeof routes)[N]['reply']>;
