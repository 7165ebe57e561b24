/**
 * Whether the client sends an operation again when its reply was lost, so that it may or may not have acted.
 *
 *   safe     yes: a read, or a mutation that its id, key, generation or run number makes idempotent
 *   unsent   no: only when the request surely had no effect, because the connection was refused or a rate limit (429)
 *            rejected it
 *   long     yes, without end: it stays open until the caller's signal aborts
 *
 * A conditional write or delete of the catalog is safe too; see client/catalog.ts. Operations that the client has no
 * method for have none.
 */
export type RetryPolicy = 'safe' | 'unsent' | 'long';

const at =
  <const M extends 'GET' | 'POST' | 'DELETE'>(method: M) =>
  <const P extends string, const R extends RetryPolicy | undefined = undefined>(path: P, retry?: R) =>
    ({ method, path, retry: retry as R }) as const;
const get = at('GET');
const post = at('POST');
const del = at('DELETE');

/**
 * The method, path and retry policy of each operation. The client imports this table alone: schemas and texts are in
 * `operations/`, and would make it several times as large.
 */
export const paths = {
  whoami: get('/v1/whoami', 'safe'),
  service: get('/v1/service', 'safe'),
  /** Creates another code; the lost one expires unused. */
  signInCode: post('/v1/sign-in/code', 'safe'),
  signIn: post('/v1/sign-in'),
  signInProviders: post('/v1/sign-in/providers'),
  listSignIns: post('/v1/sign-in/list', 'safe'),
  testSignIn: post('/v1/sign-in/test', 'safe'),
  signOut: post('/v1/sign-out', 'safe'),
  session: get('/v1/session', 'safe'),
  listSessions: post('/v1/sessions', 'safe'),
  revokeSession: post('/v1/session/revoke', 'safe'),
  audit: post('/v1/audit', 'safe'),
  listKeys: post('/v1/keys', 'safe'),
  revokeKey: post('/v1/keys/revoke', 'safe'),
  startLogin: post('/v1/device/start'),
  /** A key is given once: the reply may be lost. */
  pollLogin: post('/v1/device/poll'),
  showLogin: post('/v1/device/show', 'safe'),
  /** A repeated one is refused, because the code has been answered. */
  answerLogin: post('/v1/device/answer', 'unsent'),
  listMembers: post('/v1/members', 'safe'),
  updateMember: post('/v1/members/update', 'safe'),
  setup: post('/v1/setup', 'safe'),

  /** One `Idempotency-Key` for all tries: later tries get the first reply. */
  spawn: post('/v1/agent/spawn', 'safe'),
  status: post('/v1/agent/status', 'safe'),
  wait: post('/v1/agent/wait', 'long'),
  /** One `followUpId` for all tries: it stays one message, preempts once and replaces once. */
  queue: post('/v1/agent/queue', 'safe'),
  /** Only the reply differs: a repeated request gets `removed: false`. */
  removeFollowUp: post('/v1/agent/queue/remove', 'safe'),
  /** Names every queued message: after a change of the queue, a repeated one is refused. */
  orderQueue: post('/v1/agent/queue/order', 'safe'),
  listFollowUps: post('/v1/agent/queue/list', 'safe'),
  followUp: post('/v1/agent/queue/get', 'safe'),
  /** Would also discard messages that were queued since. */
  clearFollowUps: post('/v1/agent/clear-follow-ups', 'unsent'),
  /** The same image has the same id. */
  uploadAttachment: post('/v1/agent/attachments', 'safe'),
  attachment: post('/v1/agent/attachment', 'safe'),
  /** Names its run, so it never stops a newer one. A refusal of a repeated request counts as success. */
  stopTurn: post('/v1/agent/stop-turn', 'safe'),
  kill: post('/v1/agent/kill', 'safe'),
  /** A second retry finds the agent running and is refused, so the client can't tell whether its first one succeeded. */
  retry: post('/v1/agent/retry', 'unsent'),
  reopen: post('/v1/agent/reopen', 'safe'),
  /** A second one is refused, because the agent is gone; or deletes a newer agent of that name that has ended too. */
  deleteAgent: post('/v1/agent/delete', 'unsent'),
  labels: post('/v1/agent/labels', 'safe'),
  setBudget: post('/v1/agent/budget', 'safe'),
  list: post('/v1/agents', 'safe'),

  /** A sequence only grows, and a repeated pin changes nothing. */
  markAgents: post('/v1/agents/marks', 'safe'),
  waitMany: post('/v1/agents/wait', 'long'),
  retryMany: post('/v1/agents/retry', 'unsent'),
  listStream: post('/v1/agents/stream', 'long'),
  listStreamByGet: get('/v1/agents/stream'),
  timeline: post('/v1/agent/timeline', 'safe'),
  timelineStream: post('/v1/agent/timeline/stream', 'long'),
  timelineStreamByGet: get('/v1/agent/timeline/stream'),
  runs: post('/v1/agent/runs', 'safe'),
  checkpoint: post('/v1/agent/checkpoint', 'safe'),
  diff: post('/v1/agent/diff', 'safe'),
  tasks: post('/v1/agent/tasks', 'safe'),
  /** Would add the tasks again, or be refused because of their ids. */
  createTasks: post('/v1/agent/tasks/create', 'unsent'),
  updateTask: post('/v1/agent/tasks/update', 'safe'),
  threads: post('/v1/agent/threads', 'safe'),
  createReview: post('/v1/agent/threads/create', 'safe'),
  replyToThread: post('/v1/agent/threads/reply', 'safe'),
  resolveThread: post('/v1/agent/threads/resolve', 'safe'),
  ask: post('/v1/agent/ask', 'safe'),
  finish: post('/v1/agent/finish', 'safe'),
  fail: post('/v1/agent/fail', 'safe'),

  /** A change request that is open is returned. */
  openChangeRequest: post('/v1/agent/change-request', 'safe'),
  syncChangeRequests: post('/v1/change-requests/sync', 'safe'),
  listDeliveries: post('/v1/integration/deliveries', 'safe'),
  redeliver: post('/v1/integration/redeliver', 'safe'),
  testIntegration: post('/v1/integration/test', 'safe'),

  listNotificationDeliveries: post('/v1/notification/deliveries', 'safe'),
  redeliverNotification: post('/v1/notification/redeliver', 'safe'),
  testNotification: post('/v1/notification/test', 'safe'),
  listTriggerDeliveries: post('/v1/trigger/deliveries', 'safe'),
  redeliverToTrigger: post('/v1/trigger/redeliver', 'safe'),
  testTrigger: post('/v1/trigger/test', 'safe'),
  pushSubscriptions: post('/v1/push/subscriptions', 'safe'),
  subscribePush: post('/v1/push/subscribe', 'safe'),
  /** A repeated one is refused, because the subscription is gone. */
  unsubscribePush: post('/v1/push/unsubscribe', 'safe'),
  testPush: post('/v1/push/test', 'unsent'),

  /** Without a generation they would overwrite or delete what others wrote since. */
  writeResource: post('/v1/catalog/{ref.kind}/{ref.name}', 'unsent'),
  readResource: get('/v1/catalog/{ref.kind}/{ref.name}', 'safe'),
  listResources: get('/v1/catalog/{ref.kind}', 'safe'),
  deleteResource: del('/v1/catalog/{ref.kind}/{ref.name}', 'unsent'),
  resourceHistory: get('/v1/catalog/{ref.kind}/{ref.name}/history', 'safe'),
  validateResource: post('/v1/catalog/{ref.kind}/{ref.name}/validate', 'safe'),

  /** Would fire again. */
  runSchedule: post('/v1/schedule/run', 'unsent'),
  scheduleHistory: post('/v1/schedule/history', 'safe'),

  usage: post('/v1/usage', 'safe'),
  budgets: post('/v1/budgets', 'safe'),

  poolDemand: get('/v1/pools/{pool}/demand', 'safe'),
  listRunners: post('/v1/runners', 'safe'),
  drainRunners: post('/v1/runners/drain', 'safe'),
  undrainRunners: post('/v1/runners/undrain', 'safe'),

  runnerPoll: post('/v1/runner/poll'),
  runnerReport: post('/v1/runner/report'),
  runnerCredit: post('/v1/runner/credit'),
  runnerPartials: post('/v1/runner/partials'),
  runnerSaveCheckpoint: post('/v1/runner/checkpoint/save'),
  runnerCompleteCheckpoint: post('/v1/runner/checkpoint/complete'),
  runnerCheckpoints: post('/v1/runner/checkpoints'),
  runnerLoadCheckpoint: post('/v1/runner/checkpoint/load'),
  runnerAttachment: post('/v1/runner/attachment'),
  runnerSaveAttachment: post('/v1/runner/attachments'),
  runnerGitCredential: post('/v1/runner/git-credential'),
  runnerEndedAgents: post('/v1/runner/agents/ended'),
} as const;

/** The operations that the client has a method for. */
export type ClientOperation = {
  [N in keyof typeof paths]: (typeof paths)[N]['retry'] extends RetryPolicy ? N : never;
}[keyof typeof paths];
