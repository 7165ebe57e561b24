import * as agents from './agent.ts';
import * as attachments from './attachment.ts';
import { serviceReply } from './backend.ts';
import * as codeHosts from './code-host.ts';
import * as followUps from './follow-up.ts';
import * as identity from './identity.ts';
import { limits } from './limits.ts';
import { paths } from './paths.ts';
import * as catalog from './resource.ts';
import * as runs from './run.ts';
import * as runner from './runner.ts';
import * as report from './runner-report.ts';
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
import * as threads from './thread.ts';
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
  /** The body is not JSON: it has one of these media types. */
  readonly upload?: readonly string[];
  /** The limit of the body, if it is not the usual one. */
  readonly bodyBytes?: number;
}

const { agentRequest, agentStatus, emptyReply, listReply, listRequest } = agents;
const agentEntry = listReply.properties.entries.items;
const timelineEntry = timelineReply.properties.entries.items;

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

const agentQuery = {
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
};

const timelineStreamQuery = request('TimelineStreamQuery', {
  ...agentQuery,
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

/** What each operation needs and returns. */
const operations = {
  whoami: { access: 'self', reply: identity.whoamiReply },
  service: { access: 'person', reply: serviceReply },
  signInCode: { access: 'person', body: identity.signInCodeRequest, reply: identity.signInCodeReply },
  signIn: {
    access: 'own-page',
    body: identity.signInRequest,
    reply: identity.signedInReply,
    bodyBytes: 4096,
  },
  signOut: { access: 'self', body: identity.signOutRequest, reply: emptyReply },
  session: { access: 'self', reply: identity.signedInReply },
  listSessions: { access: 'person', body: identity.listSessionsRequest, reply: identity.listSessionsReply },
  revokeSession: { access: 'person', body: identity.revokeSessionRequest, reply: emptyReply },

  spawn: { access: 'spawn', body: agents.spawnRequest, reply: agents.spawnReply },
  status: { access: 'read', body: agentRequest, reply: agentStatus },
  wait: { access: 'read', body: agents.waitRequest, reply: agentStatus },
  queue: { access: 'command', body: followUps.queueRequest, reply: followUps.queueReply },
  removeFollowUp: { access: 'command', body: followUps.removeRequest, reply: followUps.removeReply },
  listFollowUps: {
    access: 'read',
    body: followUps.listFollowUpsRequest,
    reply: followUps.listFollowUpsReply,
  },
  followUp: { access: 'read', body: followUps.getFollowUpRequest, reply: followUps.followUpReply },
  clearFollowUps: { access: 'command', body: followUps.clearRequest, reply: followUps.clearReply },
  uploadAttachment: {
    access: 'command',
    query: request('UploadAttachmentQuery', agentQuery),
    upload: attachments.imageTypes,
    reply: attachments.attachment,
    bodyBytes: limits.attachmentBytes,
  },
  attachment: {
    access: 'read',
    body: attachments.attachmentRequest,
    reply: attachments.attachmentContent,
  },
  stopTurn: { access: 'command', body: runs.stopTurnRequest, reply: emptyReply },
  kill: { access: 'command', body: agentRequest, reply: emptyReply },
  retry: { access: 'command', body: agentRequest, reply: emptyReply },
  reopen: { access: 'command', body: agentRequest, reply: emptyReply },
  labels: { access: 'command', body: agents.labelsRequest, reply: agents.labelsReply },
  list: { access: 'read', body: listRequest, reply: listReply },
  waitMany: { access: 'read', body: agents.waitManyRequest, reply: agentStatus },
  listStream: { access: 'read', body: listRequest, reply: agentEntry, stream: true },
  listStreamByGet: { access: 'read', reply: agentEntry, query: listStreamQuery, stream: true },
  timeline: { access: 'read', body: timelineRequest, reply: timelineReply },
  timelineStream: { access: 'read', body: timelineStreamRequest, reply: timelineEntry, stream: true },
  timelineStreamByGet: { access: 'read', reply: timelineEntry, query: timelineStreamQuery, stream: true },
  runs: { access: 'read', body: runs.runsRequest, reply: runs.runsReply },
  checkpoint: { access: 'command', body: agents.checkpointRequest, reply: agents.checkpointReply },
  diff: { access: 'read', body: agentRequest, reply: agents.diffReply },
  tasks: { access: 'read', body: tasks.listTasksRequest, reply: tasks.tasksReply },
  createTasks: { access: 'command', body: tasks.createTasksRequest, reply: tasks.tasksReply },
  updateTask: { access: 'command', body: tasks.updateTaskRequest, reply: tasks.taskReply },
  threads: { access: 'read', body: threads.threadsRequest, reply: threads.threadsReply },
  createReview: { access: 'command', body: threads.reviewRequest, reply: threads.reviewReply },
  replyToThread: {
    access: 'command',
    body: threads.replyToThreadRequest,
    reply: threads.replyToThreadReply,
  },
  resolveThread: { access: 'command', body: threads.resolveThreadRequest, reply: threads.threadReply },
  ask: { access: 'command', body: runs.askRequest, reply: emptyReply },
  finish: { access: 'command', body: runs.finishRequest, reply: emptyReply },
  fail: { access: 'command', body: runs.failRequest, reply: emptyReply },

  openChangeRequest: {
    access: 'command',
    body: codeHosts.openChangeRequestRequest,
    reply: codeHosts.openChangeRequestReply,
  },
  syncChangeRequests: {
    access: 'catalog-write',
    body: codeHosts.syncChangeRequestsRequest,
    reply: codeHosts.syncChangeRequestsReply,
  },
  listDeliveries: {
    access: 'catalog-write',
    body: codeHosts.listDeliveriesRequest,
    reply: codeHosts.listDeliveriesReply,
  },
  redeliver: { access: 'catalog-write', body: codeHosts.redeliverRequest, reply: codeHosts.delivery },
  testIntegration: {
    access: 'catalog-write',
    body: codeHosts.testIntegrationRequest,
    reply: codeHosts.testIntegrationReply,
  },

  writeResource: { access: 'catalog-write', body: catalog.writeRequest, reply: catalog.writeReply },
  readResource: { access: 'catalog-read', reply: catalog.resource, query: catalog.resourceQuery },
  listResources: {
    access: 'catalog-read',
    reply: catalog.listResourcesReply,
    query: catalog.resourceListQuery,
  },
  deleteResource: {
    access: 'catalog-write',
    body: catalog.resourceDeleteBody,
    reply: catalog.deleteReply,
    query: catalog.resourceDeleteQuery,
  },
  resourceHistory: { access: 'catalog-read', reply: catalog.historyReply, query: catalog.resourceListQuery },

  runnerPoll: { access: 'runner', body: runner.pollRequest, reply: runner.pollReply },
  runnerReport: { access: 'runner', body: report.reportRequest, reply: report.reportReply },
  runnerPartials: { access: 'runner', body: report.partialsRequest, reply: emptyReply },
  runnerSaveCheckpoint: {
    access: 'runner',
    body: runner.saveCheckpointRequest,
    reply: emptyReply,
    bodyBytes: Math.ceil(limits.checkpointPartBytes / 3) * 4 + 1024,
  },
  runnerCompleteCheckpoint: { access: 'runner', body: runner.completeCheckpointRequest, reply: emptyReply },
  runnerCheckpoints: { access: 'runner', body: runner.heldRunRequest, reply: runner.checkpointsReply },
  runnerLoadCheckpoint: {
    access: 'runner',
    body: runner.loadCheckpointRequest,
    reply: runner.loadCheckpointReply,
  },
  runnerAttachment: {
    access: 'runner',
    body: runner.runnerAttachmentRequest,
    reply: attachments.attachmentContent,
  },
  runnerSaveAttachment: {
    access: 'runner',
    body: runner.saveAttachmentRequest,
    reply: attachments.attachment,
    bodyBytes: Math.ceil(limits.attachmentBytes / 3) * 4 + 1024,
  },
  runnerGitCredential: {
    access: 'runner',
    body: runner.gitCredentialRequest,
    reply: runner.gitCredentialReply,
  },
  runnerEndedAgents: { access: 'runner', body: runner.endedAgentsRequest, reply: runner.endedAgentsReply },
} as const satisfies Record<keyof typeof paths, Omit<Route, 'method' | 'path'>>;

export type RouteName = keyof typeof paths;

/** The route table. */
export const routes = Object.fromEntries(
  Object.entries(operations).map(([name, operation]) => [
    name,
    { ...paths[name as RouteName], ...operation },
  ]),
) as { readonly [N in RouteName]: (typeof paths)[N] & (typeof operations)[N] };

export type BodyOf<N extends RouteName> = (typeof routes)[N] extends { readonly body: infer B }
  ? Infer<B>
  : undefined;
export type ReplyOf<N extends RouteName> = Infer<(typeof routes)[N]['reply']>;
