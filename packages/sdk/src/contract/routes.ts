import {
  agentRequest,
  agentStatus,
  checkpointReply,
  checkpointRequest,
  diffReply,
  emptyReply,
  listReply,
  listRequest,
  spawnReply,
  spawnRequest,
  waitManyRequest,
  waitRequest,
} from './agent.ts';
import {
  clearReply,
  clearRequest,
  followUpReply,
  getFollowUpRequest,
  listFollowUpsReply,
  listFollowUpsRequest,
  queueReply,
  queueRequest,
  removeReply,
  removeRequest,
} from './follow-up.ts';
import { whoamiReply } from './identity.ts';
import type { Infer, Schema } from './infer.ts';
import { labelsReply, labelsRequest } from './labels.ts';
import { limits } from './limits.ts';
import { paths } from './paths.ts';
import {
  deleteReply,
  historyReply,
  listResourcesReply,
  resource,
  resourceDeleteBody,
  resourceDeleteQuery,
  resourceListQuery,
  resourceQuery,
  writeReply,
  writeRequest,
} from './resource.ts';
import { askRequest, failRequest, finishRequest, runsReply, runsRequest, stopTurnRequest } from './run.ts';
import {
  checkpointsReply,
  completeCheckpointRequest,
  endedAgentsReply,
  endedAgentsRequest,
  heldRunRequest,
  loadCheckpointReply,
  loadCheckpointRequest,
  pollReply,
  pollRequest,
  reportReply,
  reportRequest,
  saveCheckpointRequest,
} from './runner.ts';
import { serviceReply } from './service.ts';
import {
  listSessionsReply,
  listSessionsRequest,
  revokeSessionRequest,
  signedInReply,
  signInCodeReply,
  signInCodeRequest,
  signInRequest,
  signOutRequest,
} from './sign-in.ts';
import { listStreamQuery, timelineStreamQuery } from './stream-query.ts';
import { createTasksRequest, listTasksRequest, taskReply, tasksReply, updateTaskRequest } from './task.ts';
import { timelineReply, timelineRequest, timelineStreamRequest } from './timeline.ts';

/**
 * What a route does to what it names, from which permissions follow:
 * `self` the caller, `person` a caller who is no machine, `read` and `command` an agent or the agents, `catalog` a
 * resource, `runner` the runner protocol. `own-page` needs no key: only a page of the service itself may ask.
 */
export type Access =
  | 'self'
  | 'person'
  | 'read'
  | 'command'
  | 'spawn'
  | 'catalog-read'
  | 'catalog-write'
  | 'runner'
  | 'own-page';

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

interface Place {
  readonly method: Route['method'];
  readonly path: string;
}

const post = <P extends Place, const A extends Access, const B extends Schema, const R extends Schema>(
  place: P,
  access: A,
  body: B,
  reply: R,
  summary: string,
) => ({ ...place, access, body, reply, summary }) as const;

const addition = { addition: true } as const;
const stream = { addition: true, stream: true } as const;

/** The route table. Where each route is, it takes from its first column, `paths`. */
export const routes = {
  whoami: {
    ...paths.whoami,
    access: 'self',
    reply: whoamiReply,
    summary: "The authenticated caller's identity.",
  },
  service: {
    ...paths.service,
    access: 'person',
    reply: serviceReply,
    summary: "The backends that are ready and the live runners that serve the caller's tenant.",
    ...addition,
  },
  signInCode: {
    ...post(
      paths.signInCode,
      'person',
      signInCodeRequest,
      signInCodeReply,
      'A code that signs a browser in, once.',
    ),
    ...addition,
  },
  signIn: {
    ...post(
      paths.signIn,
      'own-page',
      signInRequest,
      signedInReply,
      'Signs a browser in, by a code or a key: sets a session cookie.',
    ),
    ...addition,
    bodyBytes: 4096,
  },
  signOut: {
    ...post(paths.signOut, 'self', signOutRequest, emptyReply, "Ends the caller's session."),
    ...addition,
  },
  session: {
    ...paths.session,
    access: 'self',
    reply: signedInReply,
    summary: "The caller's session.",
    ...addition,
  },
  listSessions: {
    ...post(
      paths.listSessions,
      'person',
      listSessionsRequest,
      listSessionsReply,
      'Lists who is signed in with a browser, newest first.',
    ),
    ...addition,
  },
  revokeSession: {
    ...post(
      paths.revokeSession,
      'person',
      revokeSessionRequest,
      emptyReply,
      'Ends a session, wherever it is open.',
    ),
    ...addition,
  },
  spawn: post(paths.spawn, 'spawn', spawnRequest, spawnReply, 'Spawns an agent.'),
  status: post(paths.status, 'read', agentRequest, agentStatus, "An agent's status."),
  wait: post(paths.wait, 'read', waitRequest, agentStatus, 'Blocks until the agent needs attention.'),
  queue: post(paths.queue, 'command', queueRequest, queueReply, 'Queues a follow-up.'),
  removeFollowUp: post(
    paths.removeFollowUp,
    'command',
    removeRequest,
    removeReply,
    'Removes one undelivered follow-up.',
  ),
  listFollowUps: {
    ...post(
      paths.listFollowUps,
      'read',
      listFollowUpsRequest,
      listFollowUpsReply,
      'Lists undelivered follow-ups with their whole texts.',
    ),
    ...addition,
  },
  followUp: {
    ...post(
      paths.followUp,
      'read',
      getFollowUpRequest,
      followUpReply,
      'One follow-up: its state, its run and the answer to it.',
    ),
    ...addition,
  },
  clearFollowUps: post(
    paths.clearFollowUps,
    'command',
    clearRequest,
    clearReply,
    'Discards all queued follow-ups.',
  ),
  stopTurn: post(paths.stopTurn, 'command', stopTurnRequest, emptyReply, 'Interrupts the current turn.'),
  kill: post(paths.kill, 'command', agentRequest, emptyReply, 'Ends an agent and every agent it spawned.'),
  retry: {
    ...post(
      paths.retry,
      'command',
      agentRequest,
      emptyReply,
      'Runs the messages of a blocked agent again, and those of a retrying one immediately.',
    ),
    ...addition,
  },
  reopen: {
    ...post(paths.reopen, 'command', agentRequest, emptyReply, 'Reopens an agent that finished or failed.'),
    ...addition,
  },
  labels: {
    ...post(paths.labels, 'command', labelsRequest, labelsReply, 'Sets and removes labels of an agent.'),
    ...addition,
  },
  list: post(paths.list, 'read', listRequest, listReply, 'Lists agents, one level deep.'),

  waitMany: {
    ...post(
      paths.waitMany,
      'read',
      waitManyRequest,
      agentStatus,
      'Blocks until one of many agents, or all of them, need attention.',
    ),
    ...addition,
  },
  listStream: {
    ...post(
      paths.listStream,
      'read',
      listRequest,
      listReply.properties.entries.items,
      'List entries as they change.',
    ),
    ...stream,
  },
  listStreamByGet: {
    ...paths.listStreamByGet,
    access: 'read',
    query: listStreamQuery,
    reply: listReply.properties.entries.items,
    summary: 'The same for EventSource, with the filter in the query.',
    ...stream,
  },
  timeline: {
    ...post(paths.timeline, 'read', timelineRequest, timelineReply, 'What happened to an agent.'),
    ...addition,
  },
  timelineStream: {
    ...post(
      paths.timelineStream,
      'read',
      timelineStreamRequest,
      timelineReply.properties.entries.items,
      'The timeline as it grows; resumes by Last-Event-ID.',
    ),
    ...stream,
  },
  timelineStreamByGet: {
    ...paths.timelineStreamByGet,
    access: 'read',
    query: timelineStreamQuery,
    reply: timelineReply.properties.entries.items,
    summary: 'The same for EventSource, with the agent in the query.',
    ...stream,
  },
  runs: {
    ...post(paths.runs, 'read', runsRequest, runsReply, "An agent's runs, newest first."),
    ...addition,
  },
  checkpoint: {
    ...post(
      paths.checkpoint,
      'command',
      checkpointRequest,
      checkpointReply,
      "One part of an agent's newest checkpoint: its unpushed work and its session.",
    ),
    ...addition,
  },
  diff: {
    ...post(paths.diff, 'read', agentRequest, diffReply, "What the agent's branch changed."),
    ...addition,
  },
  tasks: { ...post(paths.tasks, 'read', listTasksRequest, tasksReply, 'The checklist.'), ...addition },
  createTasks: {
    ...post(paths.createTasks, 'command', createTasksRequest, tasksReply, 'Adds tasks to the checklist.'),
    ...addition,
  },
  updateTask: {
    ...post(paths.updateTask, 'command', updateTaskRequest, taskReply, 'Changes one task.'),
    ...addition,
  },
  ask: {
    ...post(paths.ask, 'command', askRequest, emptyReply, "A run's question, for when it has ended."),
    ...addition,
  },
  finish: {
    ...post(paths.finish, 'command', finishRequest, emptyReply, 'A run declares its agent finished.'),
    ...addition,
  },
  fail: {
    ...post(paths.fail, 'command', failRequest, emptyReply, 'A run declares its agent failed.'),
    ...addition,
  },

  writeResource: post(
    paths.writeResource,
    'catalog-write',
    writeRequest,
    writeReply,
    'Creates or updates a catalog resource.',
  ),
  readResource: {
    ...paths.readResource,
    access: 'catalog-read',
    query: resourceQuery,
    reply: resource,
    summary: 'Reads a catalog resource.',
  },
  listResources: {
    ...paths.listResources,
    access: 'catalog-read',
    query: resourceListQuery,
    reply: listResourcesReply,
    summary: 'Lists the resources of a kind.',
    ...addition,
  },
  deleteResource: {
    ...paths.deleteResource,
    access: 'catalog-write',
    query: resourceDeleteQuery,
    body: resourceDeleteBody,
    reply: deleteReply,
    summary: 'Deletes a catalog resource.',
    ...addition,
  },
  resourceHistory: {
    ...paths.resourceHistory,
    access: 'catalog-read',
    query: resourceListQuery,
    reply: historyReply,
    summary: 'Who wrote a resource, when and why, newest first.',
    ...addition,
  },

  runnerPoll: {
    ...post(paths.runnerPoll, 'runner', pollRequest, pollReply, "A runner's heartbeat: claims and stops."),
    ...addition,
  },
  runnerReport: {
    ...post(paths.runnerReport, 'runner', reportRequest, reportReply, 'What a run did.'),
    ...addition,
  },
  runnerSaveCheckpoint: {
    ...post(
      paths.runnerSaveCheckpoint,
      'runner',
      saveCheckpointRequest,
      emptyReply,
      'Saves one part of a checkpoint.',
    ),
    ...addition,
    bodyBytes: Math.ceil(limits.checkpointPartBytes / 3) * 4 + 1024,
  },
  runnerCompleteCheckpoint: {
    ...post(
      paths.runnerCompleteCheckpoint,
      'runner',
      completeCheckpointRequest,
      emptyReply,
      'Every part of a checkpoint is saved: it counts from now on.',
    ),
    ...addition,
  },
  runnerCheckpoints: {
    ...post(
      paths.runnerCheckpoints,
      'runner',
      heldRunRequest,
      checkpointsReply,
      'The checkpoints of an agent, newest first.',
    ),
    ...addition,
  },
  runnerLoadCheckpoint: {
    ...post(
      paths.runnerLoadCheckpoint,
      'runner',
      loadCheckpointRequest,
      loadCheckpointReply,
      'One part of a checkpoint.',
    ),
    ...addition,
  },
  runnerEndedAgents: {
    ...post(
      paths.runnerEndedAgents,
      'runner',
      endedAgentsRequest,
      endedAgentsReply,
      'Which agents have ended.',
    ),
    ...addition,
  },
} as const satisfies Record<keyof typeof paths, Route>;

export type RouteName = keyof typeof routes;
export type BodyOf<N extends RouteName> = (typeof routes)[N] extends { readonly body: infer B }
  ? Infer<B>
  : undefined;
export type ReplyOf<N extends RouteName> = Infer<(typeof routes)[N]['reply']>;
