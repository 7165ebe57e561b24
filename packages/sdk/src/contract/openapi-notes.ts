import type { Schema } from './infer.ts';
import { limits } from './limits.ts';
import type { BodyOf, RouteName } from './routes.ts';

/** What the OpenAPI document says beside the route table: for readers and generators, not for the service. */

/** The chapters, in the order in which one reads them. */
export const tags = {
  agents: 'Spawn agents, see how they stand, wait for them, end them.',
  messages: 'Follow-ups: more work and answers, now or later.',
  runs: 'The turns of an agent: what happened in them, and how to stop one.',
  tasks: "An agent's checklist.",
  catalog: 'Versioned documents: workspaces, personas, environments, pools, keys.',
  caller: 'Who a key belongs to, and how a browser signs in.',
  runner: 'The protocol between the service and its runners.',
} as const;

export const tagOf: Readonly<Record<RouteName, keyof typeof tags>> = {
  spawn: 'agents',
  status: 'agents',
  wait: 'agents',
  waitMany: 'agents',
  list: 'agents',
  listStream: 'agents',
  listStreamByGet: 'agents',
  kill: 'agents',
  retry: 'agents',
  reopen: 'agents',
  labels: 'agents',
  diff: 'agents',
  checkpoint: 'agents',
  queue: 'messages',
  removeFollowUp: 'messages',
  listFollowUps: 'messages',
  followUp: 'messages',
  clearFollowUps: 'messages',
  stopTurn: 'runs',
  runs: 'runs',
  timeline: 'runs',
  timelineStream: 'runs',
  timelineStreamByGet: 'runs',
  ask: 'runs',
  finish: 'runs',
  fail: 'runs',
  tasks: 'tasks',
  createTasks: 'tasks',
  updateTask: 'tasks',
  writeResource: 'catalog',
  readResource: 'catalog',
  listResources: 'catalog',
  deleteResource: 'catalog',
  resourceHistory: 'catalog',
  whoami: 'caller',
  service: 'caller',
  signInCode: 'caller',
  signIn: 'caller',
  signOut: 'caller',
  session: 'caller',
  listSessions: 'caller',
  revokeSession: 'caller',
  runnerPoll: 'runner',
  runnerReport: 'runner',
  runnerSaveCheckpoint: 'runner',
  runnerCompleteCheckpoint: 'runner',
  runnerCheckpoints: 'runner',
  runnerLoadCheckpoint: 'runner',
  runnerEndedAgents: 'runner',
};

const lastEventId = {
  'Last-Event-ID': {
    type: 'string',
    description: 'The sequence of the last entry that was read; the stream goes on after it.',
  },
} as const;

/** What a request may say in a header of its own. */
export const requestHeaders: Readonly<Partial<Record<RouteName, Readonly<Record<string, Schema>>>>> = {
  spawn: {
    'Idempotency-Key': {
      type: 'string',
      maxLength: limits.idLength,
      description: `A repeated spawn with the same key and body gets the first reply, for ${limits.idempotencyHours} hours.`,
    },
  },
  timelineStream: lastEventId,
  timelineStreamByGet: lastEventId,
};

const wholeEvent =
  'One named `whole`, with the data `{}`, says that every entry of the list has been sent; behind it come changes.';

/** Events of a stream that are not its reply. */
export const otherEvents: Readonly<Partial<Record<RouteName, string>>> = {
  listStream: wholeEvent,
  listStreamByGet: wholeEvent,
};

/** What may stand in the place of a parameter of the path. */
export const pathExamples: Readonly<Record<string, string>> = { 'ref.kind': 'persona', 'ref.name': 'terse' };

const agentId = { agent: ['fix-login'] };

/** A request that works as it stands, once there is an agent `fix-login`. */
export const bodyExamples: { readonly [N in RouteName]?: BodyOf<N> } = {
  spawn: {
    agentId,
    description: 'Fix the login page: a wrong password shows a blank screen.',
    tasks: [{ subject: 'Reproduce it in a test' }, { subject: 'Fix it' }],
  },
  signInCode: {},
  signOut: {},
  listSessions: {},
  status: { agentId },
  wait: { agentId },
  waitMany: { agentIds: [agentId, { agent: ['fix-login', 'tests'] }] },
  list: { includeTerminal: true, pageSize: 50 },
  listStream: { allDepths: true },
  kill: { agentId },
  retry: { agentId },
  reopen: { agentId },
  labels: { agentId, labels: { team: 'web', sprint: '' } },
  diff: { agentId },
  checkpoint: { agentId },
  queue: { agentId, description: 'Cover the empty password, too.' },
  removeFollowUp: { agentId, followUpId: 'a-follow-up' },
  listFollowUps: { agentId, pageSize: 100 },
  followUp: { agentId, followUpId: 'a-follow-up' },
  clearFollowUps: { agentId },
  stopTurn: { agentId, runId: '1', mode: 'STOP_TURN_MODE_INTERRUPT' },
  runs: { agentId, limit: 10 },
  timeline: { agentId, afterSequence: '0', limit: 100 },
  timelineStream: { agentId, afterSequence: '0' },
  ask: { agentId, question: 'Should an expired password lead to the reset page?' },
  finish: { agentId, text: 'The login page shows what is wrong.' },
  fail: { agentId, message: 'The password database is not in this repository.' },
  tasks: { agentId },
  createTasks: { agentId, tasks: [{ id: 'docs', subject: 'Write it down' }] },
  updateTask: { agentId, id: 'docs', status: 'TASK_STATUS_COMPLETED' },
  deleteResource: { justification: 'It is not used any more' },
  writeResource: { payload: 'eyJpbnN0cnVjdGlvbnMiOiJCZSB0ZXJzZS4ifQ==', justification: 'A first draft' },
};
