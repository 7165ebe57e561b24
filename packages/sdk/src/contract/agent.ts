import { backends } from './backend.ts';
import { pendingFollowUp, settingsIn } from './follow-up.ts';
import { agentId, agentIdIn, tenantIn } from './identity.ts';
import { type Infer, nullable, reply } from './infer.ts';
import { labels, labelsIn } from './labels.ts';
import { limits } from './limits.ts';
import { agentError, currentRun } from './run.ts';
import {
  boolean,
  int64,
  int64In,
  nameIn,
  pageIn,
  text,
  texts,
  timestamp,
  timestampIn,
  timestampOrNull,
} from './scalars.ts';
import { task, tasksIn } from './task.ts';

export const phases = [
  'PHASE_UNSPECIFIED',
  'PHASE_PENDING',
  'PHASE_RUNNING',
  'PHASE_WAITING_FOR_INPUT',
  'PHASE_COMPLETED',
  'PHASE_FAILED',
  'PHASE_CANCELED',
] as const;
export type Phase = (typeof phases)[number];

export const terminalPhases = ['PHASE_COMPLETED', 'PHASE_FAILED', 'PHASE_CANCELED'] as const;
export const isTerminal = (phase: Phase): boolean => (terminalPhases as readonly Phase[]).includes(phase);
/** What a wait waits for: the agent finished, failed, or rests until someone speaks to it. */
export const needsAttention = (phase: Phase): boolean =>
  phase === 'PHASE_WAITING_FOR_INPUT' || isTerminal(phase);

/** Why the agent is where it is, and so who can move it. */
export const phaseReasons = [
  'NO_RUNNER',
  'POOL_FULL',
  'STARTING',
  'WORKING',
  'STOPPING',
  'RESTING',
  'QUESTION',
  'TASKS_UNFINISHED',
  'INTERRUPTED',
  'BLOCKED',
  'DEFERRED',
  'CHILDREN',
  'PROVIDER_LIMIT',
  'RETRYING',
  'FINISHED',
  'ERROR',
  'KILLED',
  'PARENT_KILLED',
] as const;
export type PhaseReason = (typeof phaseReasons)[number];

const phase = { title: 'Phase', type: 'string', enum: phases } as const;
const phaseReason = { title: 'PhaseReason', type: 'string', enum: phaseReasons } as const;

export const spawnRequest = {
  title: 'SpawnRequest',
  type: 'object',
  properties: {
    agentId: agentIdIn,
    description: text,
    expectedOutput: text,
    tasks: tasksIn,
    ...settingsIn,
    persona: settingsIn.agent,
    workspace: nameIn,
    labels: labelsIn,
  },
} as const;
export type SpawnRequest = Infer<typeof spawnRequest>;

export const spawnReply = reply('SpawnReply', { agentId, phase, runCount: int64, dashboardUrl: text });
export type SpawnReply = Infer<typeof spawnReply>;

/** A request that names one agent and nothing else: status, kill, diff. */
export const agentRequest = {
  title: 'AgentRequest',
  type: 'object',
  properties: { agentId: agentIdIn },
} as const;

const timeoutSeconds = {
  type: 'number',
  minimum: 0,
  maximum: limits.waitSeconds,
  expected: `a number of seconds from 0 to ${limits.waitSeconds}`,
  description: 'After this many seconds the reply is the current record, with `timedOut: true`.',
} as const;

export const waitRequest = {
  title: 'WaitRequest',
  type: 'object',
  properties: {
    agentId: agentIdIn,
    followUpId: {
      type: 'string',
      maxLength: limits.idLength,
      description: 'Returns when this message was answered, cleared, removed or abandoned.',
    },
    runId: { ...int64In, description: 'Returns when this run has ended.' },
    timeoutSeconds,
  },
} as const;
export type WaitRequest = Infer<typeof waitRequest>;

const tokenCounts = {
  inputTokens: int64,
  cachedInputTokens: int64,
  outputTokens: int64,
  totalTokens: int64,
} as const;

export const diffStat = reply('DiffStat', {
  files: { type: 'integer' },
  insertions: { type: 'integer' },
  deletions: { type: 'integer' },
});

const work = {
  unpushed: {
    ...nullable(
      reply('UnpushedWork', {
        commits: { type: 'integer' },
        files: { type: 'integer', description: 'Files with changes that are not committed.' },
      }),
    ),
    description: 'What no remote has, as of the last look; null before the first.',
  },
  checkpointAt: { ...timestampOrNull, description: 'When its work and its session were last saved.' },
} as const;

const sandboxed = {
  type: 'boolean',
  description: 'Its latest run was in a sandbox; true before the first run.',
} as const;

export const agentStatus = reply('AgentStatus', {
  agentId,
  phase,
  phaseReason,
  phaseSince: timestamp,
  needsInput: text,
  wakesAt: timestampOrNull,
  runCount: int64,
  run: nullable(currentRun),
  description: text,
  expectedOutput: text,
  response: text,
  structuredOutput: { description: 'Any JSON value; null when there is none.' },
  outputSchema: text,
  persona: text,
  model: text,
  backend: { type: 'string', enum: backends },
  rehearsed: boolean,
  sandboxed,
  reasoningEffort: text,
  serviceTier: text,
  fastMode: boolean,
  tasks: { type: 'array', items: task },
  followUps: { type: 'array', items: pendingFollowUp },
  children: { type: 'array', items: agentId },
  repos: texts,
  branch: text,
  diffStat: nullable(diffStat),
  ...work,
  changeRequests: texts,
  cost: { type: 'number' },
  treeCost: { type: 'number' },
  ...tokenCounts,
  progressAt: timestamp,
  createdAt: timestamp,
  endedAt: timestampOrNull,
  error: nullable(agentError),
  dashboardUrl: text,
  labels,
  timedOut: {
    type: 'boolean',
    description: 'In the reply of a wait: its `timeoutSeconds` passed before what it waited for happened.',
  },
});
export type AgentStatus = Infer<typeof agentStatus>;

export const listEntry = reply('AgentEntry', {
  agentId,
  phase,
  cost: { type: 'number' },
  progressAt: timestamp,
  repos: texts,
  dashboardUrl: text,
  ...tokenCounts,
  needsInput: text,
  phaseReason,
  phaseSince: timestamp,
  wakesAt: timestampOrNull,
  model: text,
  runCount: int64,
  createdAt: timestamp,
  childCount: { type: 'integer' },
  treeCost: { type: 'number' },
  sequence: { ...int64, description: 'Of its newest timeline entry: what a reader has seen, and what not.' },
  description: { type: 'string', description: `Its first ${limits.listedDescriptionLength} characters.` },
  persona: text,
  rehearsed: boolean,
  sandboxed,
  queued: { type: 'integer', description: 'Follow-ups that are not delivered yet, deferred ones included.' },
  error: { type: 'string', description: 'Why it failed, is blocked or is retried; empty otherwise.' },
  ...work,
  labels,
});
export type AgentEntry = Infer<typeof listEntry>;

export const listRequest = {
  title: 'ListAgentsRequest',
  type: 'object',
  properties: {
    parentId: agentIdIn,
    account: {
      type: 'string',
      maxLength: 300,
      description:
        'Empty: your own. `*`: all. `name`: under your provider. `provider_name/name`: under that one; `provider_name/*`: all under that one.',
    },
    includeTerminal: boolean,
    tenant: tenantIn,
    workspace: nameIn,
    phases: { type: 'array', items: phase, maxItems: phases.length },
    text: { type: 'string', maxLength: 256 },
    labels: { ...labelsIn, title: 'LabelFilter', description: 'Only agents that have all of these labels.' },
    allDepths: {
      type: 'boolean',
      description: 'Every agent, or every agent below the parent, instead of one level.',
    },
    endedSince: {
      ...timestampIn,
      description: 'Of those that ended, only those that ended then or later.',
    },
    ...pageIn,
  },
} as const;
export type ListRequest = Infer<typeof listRequest>;

export const listReply = reply('ListAgentsReply', {
  entries: { type: 'array', items: listEntry },
  nextPageToken: text,
});

export const waitManyRequest = {
  title: 'WaitForAgentsRequest',
  type: 'object',
  properties: {
    agentIds: {
      type: 'array',
      items: agentIdIn,
      maxItems: limits.agentsPerWait,
      expected: `1 to ${limits.agentsPerWait} agents`,
    },
    below: { ...agentIdIn, description: 'Instead of `agentIds`: every agent below this one, at any depth.' },
    all: { type: 'boolean', description: 'Returns when all of them need attention, not the first.' },
    timeoutSeconds,
  },
} as const;
export type WaitManyRequest = Infer<typeof waitManyRequest>;

export const diffReply = reply('DiffReply', {
  branch: text,
  diffStat: nullable(diffStat),
  diff: text,
  workingTree: {
    ...nullable(reply('WorkingTreeDiff', { diffStat, diff: text })),
    description:
      'The same with what is not committed or not pushed, as of the last look; null before the first.',
  },
});

export const checkpointRequest = {
  title: 'CheckpointRequest',
  type: 'object',
  properties: {
    agentId: agentIdIn,
    checkpointId: {
      type: 'string',
      maxLength: limits.idLength,
      description: 'Of the parts before: refused with ABORTED when a newer one has replaced it.',
    },
    part: {
      type: 'integer',
      minimum: 0,
      maximum: limits.checkpointParts - 1,
      description: 'From 0, the default.',
    },
  },
} as const;

export const checkpointReply = reply('CheckpointReply', {
  checkpointId: text,
  runId: int64,
  completedAt: timestamp,
  bytes: int64,
  parts: { type: 'integer' },
  content: {
    type: 'string',
    description: 'Base64 of this part. All parts together are a tar archive, compressed by gzip.',
  },
});

export const emptyReply = { title: 'Empty', type: 'object', properties: {} } as const;
