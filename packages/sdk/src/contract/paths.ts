const get = <const P extends string>(path: P) => ({ method: 'GET', path }) as const;
const post = <const P extends string>(path: P) => ({ method: 'POST', path }) as const;
const del = <const P extends string>(path: P) => ({ method: 'DELETE', path }) as const;

/**
 * The part of the route table that says where each operation is: the only place that knows a path. It stands in a
 * file of its own, because the client needs it and must not bring the schemas along.
 */
export const paths = {
  whoami: get('/v1/whoami'),
  service: get('/v1/service'),
  signInCode: post('/v1/sign-in/code'),
  signIn: post('/v1/sign-in'),
  signOut: post('/v1/sign-out'),
  session: get('/v1/session'),
  listSessions: post('/v1/sessions'),
  revokeSession: post('/v1/session/revoke'),

  spawn: post('/v1/agent/spawn'),
  status: post('/v1/agent/status'),
  wait: post('/v1/agent/wait'),
  queue: post('/v1/agent/queue'),
  removeFollowUp: post('/v1/agent/queue/remove'),
  listFollowUps: post('/v1/agent/queue/list'),
  followUp: post('/v1/agent/queue/get'),
  clearFollowUps: post('/v1/agent/clear-follow-ups'),
  stopTurn: post('/v1/agent/stop-turn'),
  kill: post('/v1/agent/kill'),
  retry: post('/v1/agent/retry'),
  reopen: post('/v1/agent/reopen'),
  labels: post('/v1/agent/labels'),
  list: post('/v1/agents'),

  waitMany: post('/v1/agents/wait'),
  listStream: post('/v1/agents/stream'),
  listStreamByGet: get('/v1/agents/stream'),
  timeline: post('/v1/agent/timeline'),
  timelineStream: post('/v1/agent/timeline/stream'),
  timelineStreamByGet: get('/v1/agent/timeline/stream'),
  runs: post('/v1/agent/runs'),
  diff: post('/v1/agent/diff'),
  checkpoint: post('/v1/agent/checkpoint'),
  tasks: post('/v1/agent/tasks'),
  createTasks: post('/v1/agent/tasks/create'),
  updateTask: post('/v1/agent/tasks/update'),
  ask: post('/v1/agent/ask'),
  finish: post('/v1/agent/finish'),
  fail: post('/v1/agent/fail'),

  writeResource: post('/v1/catalog/{ref.kind}/{ref.name}'),
  readResource: get('/v1/catalog/{ref.kind}/{ref.name}'),
  listResources: get('/v1/catalog/{ref.kind}'),
  deleteResource: del('/v1/catalog/{ref.kind}/{ref.name}'),
  resourceHistory: get('/v1/catalog/{ref.kind}/{ref.name}/history'),

  runnerPoll: post('/v1/runner/poll'),
  runnerReport: post('/v1/runner/report'),
  runnerSaveCheckpoint: post('/v1/runner/checkpoint/save'),
  runnerCompleteCheckpoint: post('/v1/runner/checkpoint/complete'),
  runnerCheckpoints: post('/v1/runner/checkpoints'),
  runnerLoadCheckpoint: post('/v1/runner/checkpoint/load'),
  runnerEndedAgents: post('/v1/runner/agents/ended'),
} as const;
