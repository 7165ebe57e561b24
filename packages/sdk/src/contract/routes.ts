import * as agents from './agent.ts';
import { serviceReply } from './backend.ts';
import * as followUps from './follow-up.ts';
import * as identity from './identity.ts';
import { limits } from './limits.ts';
import { paths } from './paths.ts';
import * as catalog from './resource.ts';
import * as runs from './run.ts';
import * as runner from './runner.ts';
import {
  accountIn,
  type Infer,
  int64,
  int64In,
  nameIn,
  request,
  type Schema,
  timestampIn,
} from './schema.ts';
import * as tasks from './task.ts';
import { timelineReply, timelineRequest, timelineStreamRequest } from './timeline.ts';

/**
 * What a route needs permission for: `self` the caller, `person` a caller that is not a machine, `read`, `command` and
 * `spawn` agents, `catalog-read` and `catalog-write` resources, `runner` the runner protocol. `own-page` needs no key:
 * only a page of the service itself may call it.
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
  readonly body?: Schema;
  readonly query?: Schema;
  readonly reply: Schema;
  /** The reply is a stream of Server-Sent Events; the data of each has the reply schema. */
  readonly stream?: true;
  /** The limit of the body, if it is not the usual one. */
  readonly bodyBytes?: number;
}

type Path = Pick<Route, 'method' | 'path'>;

const get = <const P extends Path, const A extends Access, const R extends Schema>(
  path: P,
  access: A,
  reply: R,
) => ({ ...path, access, reply }) as const;

const post = <const P extends Path, const A extends Access, const B extends Schema, const R extends Schema>(
  path: P,
  access: A,
  body: B,
  reply: R,
) => ({ ...path, access, body, reply }) as const;

const { agentRequest, agentStatus, emptyReply, listReply, listRequest } = agents;
const agentEntry = listReply.properties.entries.items;
const timelineEntry = timelineReply.properties.entries.items;
const stream = { stream: true } as const;

/**
 * The streams by GET are for EventSource, which can't send a body: the query has the same fields. A field of an object is
 * written with a dot; the fields of `agentId` also work without `agentId.`.
 */
const path = {
  type: ['string', 'array'],
  items: { type: 'string' },
  description: 'The path: its names joined by `/`, or the parameter once per name.',
} as const;

const flag = { type: 'string', enum: ['true', 'false'] } as const;

const tenantQuery = {
  provider: identity.providerIn,
  org: accountIn,
  'tenant.provider': identity.providerIn,
  'tenant.org': accountIn,
};

const timelineStreamQuery = request('TimelineStreamQuery', {
  agent: path,
  workspace: nameIn,
  ownerProvider: identity.providerIn,
  account: accountIn,
  ...tenantQuery,
  'agentId.agent': path,
  'agentId.workspace': nameIn,
  'agentId.ownerProvider': identity.providerIn,
  'agentId.account': accountIn,
  'agentId.tenant.provider': identity.providerIn,
  'agentId.tenant.org': accountIn,
  afterSequence: { ...int64, expected: int64In.expected },
});

const listStreamQuery = request('ListStreamQuery', {
  'parentId.agent': path,
  'parentId.workspace': nameIn,
  'parentId.ownerProvider': identity.providerIn,
  'parentId.account': accountIn,
  'parentId.tenant.provider': identity.providerIn,
  'parentId.tenant.org': accountIn,
  account: { type: 'string', maxLength: 300 },
  ...tenantQuery,
  workspace: nameIn,
  includeTerminal: flag,
  allDepths: flag,
  phases: {
    type: ['string', 'array'],
    items: { type: 'string', enum: agents.phases },
    description: 'The parameter once per phase, or phases joined by commas.',
  },
  labels: {
    type: ['string', 'array'],
    items: { type: 'string' },
    description: '`key=value`, the parameter once per label.',
  },
  text: { type: 'string', maxLength: 256 },
  endedSince: timestampIn,
});

/** The route table. */
export const routes = {
  whoami: get(paths.whoami, 'self', identity.whoamiReply),
  service: get(paths.service, 'person', serviceReply),
  signInCode: post(paths.signInCode, 'person', identity.signInCodeRequest, identity.signInCodeReply),
  signIn: {
    ...post(paths.signIn, 'own-page', identity.signInRequest, identity.signedInReply),
    bodyBytes: 4096,
  },
  signOut: post(paths.signOut, 'self', identity.signOutRequest, emptyReply),
  session: get(paths.session, 'self', identity.signedInReply),
  listSessions: post(paths.listSessions, 'person', identity.listSessionsRequest, identity.listSessionsReply),
  revokeSession: post(paths.revokeSession, 'person', identity.revokeSessionRequest, emptyReply),

  spawn: post(paths.spawn, 'spawn', agents.spawnRequest, agents.spawnReply),
  status: post(paths.status, 'read', agentRequest, agentStatus),
  wait: post(paths.wait, 'read', agents.waitRequest, agentStatus),
  queue: post(paths.queue, 'command', followUps.queueRequest, followUps.queueReply),
  removeFollowUp: post(paths.removeFollowUp, 'command', followUps.removeRequest, followUps.removeReply),
  listFollowUps: post(
    paths.listFollowUps,
    'read',
    followUps.listFollowUpsRequest,
    followUps.listFollowUpsReply,
  ),
  followUp: post(paths.followUp, 'read', followUps.getFollowUpRequest, followUps.followUpReply),
  clearFollowUps: post(paths.clearFollowUps, 'command', followUps.clearRequest, followUps.clearReply),
  stopTurn: post(paths.stopTurn, 'command', runs.stopTurnRequest, emptyReply),
  kill: post(paths.kill, 'command', agentRequest, emptyReply),
  retry: post(paths.retry, 'command', agentRequest, emptyReply),
  reopen: post(paths.reopen, 'command', agentRequest, emptyReply),
  labels: post(paths.labels, 'command', agents.labelsRequest, agents.labelsReply),
  list: post(paths.list, 'read', listRequest, listReply),
  waitMany: post(paths.waitMany, 'read', agents.waitManyRequest, agentStatus),
  listStream: { ...post(paths.listStream, 'read', listRequest, agentEntry), ...stream },
  listStreamByGet: { ...get(paths.listStreamByGet, 'read', agentEntry), query: listStreamQuery, ...stream },
  timeline: post(paths.timeline, 'read', timelineRequest, timelineReply),
  timelineStream: {
    ...post(paths.timelineStream, 'read', timelineStreamRequest, timelineEntry),
    ...stream,
  },
  timelineStreamByGet: {
    ...get(paths.timelineStreamByGet, 'read', timelineEntry),
    query: timelineStreamQuery,
    ...stream,
  },
  runs: post(paths.runs, 'read', runs.runsRequest, runs.runsReply),
  checkpoint: post(paths.checkpoint, 'command', agents.checkpointRequest, agents.checkpointReply),
  diff: post(paths.diff, 'read', agentRequest, agents.diffReply),
  tasks: post(paths.tasks, 'read', tasks.listTasksRequest, tasks.tasksReply),
  createTasks: post(paths.createTasks, 'command', tasks.createTasksRequest, tasks.tasksReply),
  updateTask: post(paths.updateTask, 'command', tasks.updateTaskRequest, tasks.taskReply),
  ask: post(paths.ask, 'command', runs.askRequest, emptyReply),
  finish: post(paths.finish, 'command', runs.finishRequest, emptyReply),
  fail: post(paths.fail, 'command', runs.failRequest, emptyReply),

  writeResource: post(paths.writeResource, 'catalog-write', catalog.writeRequest, catalog.writeReply),
  readResource: {
    ...get(paths.readResource, 'catalog-read', catalog.resource),
    query: catalog.resourceQuery,
  },
  listResources: {
    ...get(paths.listResources, 'catalog-read', catalog.listResourcesReply),
    query: catalog.resourceListQuery,
  },
  deleteResource: {
    ...post(paths.deleteResource, 'catalog-write', catalog.resourceDeleteBody, catalog.deleteReply),
    query: catalog.resourceDeleteQuery,
  },
  resourceHistory: {
    ...get(paths.resourceHistory, 'catalog-read', catalog.historyReply),
    query: catalog.resourceListQuery,
  },

  runnerPoll: post(paths.runnerPoll, 'runner', runner.pollRequest, runner.pollReply),
  runnerReport: post(paths.runnerReport, 'runner', runner.reportRequest, runner.reportReply),
  runnerSaveCheckpoint: {
    ...post(paths.runnerSaveCheckpoint, 'runner', runner.saveCheckpointRequest, emptyReply),
    bodyBytes: Math.ceil(limits.checkpointPartBytes / 3) * 4 + 1024,
  },
  runnerCompleteCheckpoint: post(
    paths.runnerCompleteCheckpoint,
    'runner',
    runner.completeCheckpointRequest,
    emptyReply,
  ),
  runnerCheckpoints: post(paths.runnerCheckpoints, 'runner', runner.heldRunRequest, runner.checkpointsReply),
  runnerLoadCheckpoint: post(
    paths.runnerLoadCheckpoint,
    'runner',
    runner.loadCheckpointRequest,
    runner.loadCheckpointReply,
  ),
  runnerEndedAgents: post(
    paths.runnerEndedAgents,
    'runner',
    runner.endedAgentsRequest,
    runner.endedAgentsReply,
  ),
} as const satisfies Record<keyof typeof paths, Route>;

export type RouteName = keyof typeof routes;
export type BodyOf<N extends RouteName> = (typeof routes)[N] extends { readonly body: infer B }
  ? Infer<B>
  : undefined;
export type ReplyOf<N extends RouteName> = Infer<(typeof routes)[N]['reply']>;
