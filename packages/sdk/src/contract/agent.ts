import { backends } from './backend.ts';
import { agentBudget, budgetUsdIn } from './budget.ts';
import { changeRequest } from './code-host.ts';
import { pendingFollowUp, settingsIn } from './follow-up.ts';
import { agentId, agentIdIn, tenantIn } from './identity.ts';
import { limits } from './limits.ts';
import { phaseReasons, phases } from './phases.ts';
import { contextUse, plan } from './plan.ts';
import { agentError, currentRun } from './run.ts';
import {
  boolean,
  type Infer,
  int64,
  int64In,
  list,
  nameIn,
  nullable,
  pageIn,
  pageOf,
  reply,
  request,
  requestWith,
  text,
  texts,
  timestamp,
  timestampIn,
  timestampOrNull,
} from './schema.ts';
import { task, tasksIn } from './task.ts';

export const labels = { type: 'object', additionalProperties: text } as const;

/** Labels in a request. */
const labelsIn = {
  title: 'LabelsInput',
  type: 'object',
  propertyNames: {
    pattern: `^[^\\s\\p{Cc}=,]{1,${limits.labelKeyLength}}$`,
    expected: `keys of 1 to ${limits.labelKeyLength} characters without white space, control characters, "=" and ","`,
  },
  additionalProperties: {
    type: 'string',
    maxLength: limits.labelValueLength,
    pattern: '^[^\\p{Cc}]*$',
    expected: `a text of at most ${limits.labelValueLength} characters without control characters`,
  },
  maxProperties: limits.labelsPerAgent,
  expected: `at most ${limits.labelsPerAgent} labels`,
} as const;

const phase = { title: 'Phase', type: 'string', enum: phases } as const;
const phaseReason = { title: 'PhaseReason', type: 'string', enum: phaseReasons } as const;

export const spawnRequest = request('SpawnRequest', {
  agentId: agentIdIn,
  description: text,
  expectedOutput: text,
  tasks: tasksIn,
  ...settingsIn,
  persona: settingsIn.agent,
  workspace: nameIn,
  labels: labelsIn,
  budgetUsd: budgetUsdIn,
});
export type SpawnRequest = Infer<typeof spawnRequest>;

export const spawnReply = reply('SpawnReply', { agentId, phase, runCount: int64, dashboardUrl: text });
export type SpawnReply = Infer<typeof spawnReply>;

/** A request that only names an agent: status, kill. */
export const agentRequest = request('AgentRequest', { agentId: agentIdIn });

const timeoutSeconds = {
  type: 'number',
  minimum: 0,
  maximum: limits.waitSeconds,
  expected: `a number of seconds from 0 to ${limits.waitSeconds}`,
  description: 'After this many seconds the reply is the current status with `timedOut: true`.',
} as const;

export const waitRequest = request('WaitRequest', {
  agentId: agentIdIn,
  followUpId: {
    type: 'string',
    maxLength: limits.idLength,
    description: 'Waits until this message is answered, cleared, removed or abandoned.',
  },
  runId: { ...int64In, description: 'Waits until this run has ended.' },
  timeoutSeconds,
});

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
        isSaved: { type: 'boolean', description: 'False if the newest checkpoint does not have all of it.' },
      }),
    ),
    description: 'Work that no remote has, as of the last check; null before the first.',
  },
  checkpointAt: { ...timestampOrNull, description: 'When the work and the session were last saved.' },
} as const;

const budgets = {
  ...list(agentBudget),
  description: 'All budgets that limit the agent.',
} as const;

const sandboxed = {
  type: 'boolean',
  description: 'Whether the latest run was in a sandbox; true before the first run.',
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
  pool: { ...text, description: 'The pool whose runners may run the agent.' },
  rehearsed: boolean,
  sandboxed,
  reasoningEffort: text,
  serviceTier: text,
  fastMode: boolean,
  tasks: list(task),
  plan: {
    ...nullable(plan),
    description:
      "The agent's own plan, as it last reported it; null if it has none. It is apart from `tasks`.",
  },
  context: {
    ...nullable(contextUse),
    description: "How full the model's context is; null before the first answer of a model.",
  },
  followUps: list(pendingFollowUp),
  children: list(agentId),
  repos: texts,
  branch: text,
  diffStat: nullable(diffStat),
  ...work,
  changeRequests: list(changeRequest),
  cost: { type: 'number' },
  treeCost: { type: 'number' },
  budgets,
  ...tokenCounts,
  progressAt: timestamp,
  createdAt: timestamp,
  endedAt: timestampOrNull,
  error: nullable(agentError),
  dashboardUrl: text,
  labels,
  timedOut: {
    type: 'boolean',
    description: 'In the reply of a wait: `timeoutSeconds` passed first.',
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
  sequence: { ...int64, description: 'Sequence of the newest timeline entry.' },
  description: { type: 'string', description: `The first ${limits.listedDescriptionLength} characters.` },
  persona: text,
  rehearsed: boolean,
  sandboxed,
  queued: { type: 'integer', description: 'Number of undelivered follow-ups, including deferred ones.' },
  error: { type: 'string', description: 'Why the agent failed, is blocked or is retrying; otherwise empty.' },
  news: {
    type: 'string',
    description: `What the agent asks, what has to be fixed, or its newest response: the first ${limits.newsLength} characters on one line, without Markdown.`,
  },
  currentAction: {
    type: 'string',
    description: 'What the current run is doing, on one line; empty between runs.',
  },
  taskCount: { type: 'integer', description: 'Tasks of the checklist that are not deleted.' },
  tasksDone: { type: 'integer', description: 'How many of these are completed.' },
  ...work,
  changeRequests: list(changeRequest),
  budgets,
  labels,
  seen: { ...int64, description: 'Sequence of the newest timeline entry that the caller has seen; 0: none.' },
  pinned: { ...boolean, description: 'Whether the caller pinned the agent.' },
});
export type AgentEntry = Infer<typeof listEntry>;

export const listRequest = request('ListAgentsRequest', {
  parentId: agentIdIn,
  account: {
    type: 'string',
    maxLength: 300,
    description:
      'Empty: your account. `*`: all accounts. `name`: under your provider. `provider_name/name`: under that provider; `provider_name/*`: all accounts under that provider.',
  },
  includeTerminal: boolean,
  tenant: tenantIn,
  workspace: nameIn,
  phases: { type: 'array', items: phase, maxItems: phases.length },
  text: { type: 'string', maxLength: limits.searchedTextLength },
  labels: { ...labelsIn, title: 'LabelFilter', description: 'Only agents with all of these labels.' },
  allDepths: {
    type: 'boolean',
    description: 'All agents, or all agents below the parent, instead of one level.',
  },
  endedSince: {
    ...timestampIn,
    description: 'Of the agents that have ended, only those that ended at this time or later.',
  },
  ...pageIn,
});
export type ListRequest = Infer<typeof listRequest>;

export const listReply = pageOf('ListAgentsReply', listEntry);

const mark = requestWith('AgentMark', ['agentId'], {
  agentId: agentIdIn,
  seen: {
    ...int64In,
    description:
      'You have seen the timeline up to this sequence. A lower one than before changes nothing, except 0: nothing is seen.',
  },
  pinned: boolean,
});

export const markRequest = requestWith('MarkAgentsRequest', ['marks'], {
  marks: {
    type: 'array',
    items: mark,
    maxItems: limits.marksPerRequest,
    expected: `at most ${limits.marksPerRequest} marks`,
    description: 'A mark of an agent that does not exist is ignored.',
  },
});

export const waitManyRequest = request('WaitForAgentsRequest', {
  agentIds: {
    type: 'array',
    items: agentIdIn,
    maxItems: limits.agentsPerWait,
    expected: `1 to ${limits.agentsPerWait} agents`,
  },
  below: { ...agentIdIn, description: 'Instead of `agentIds`: every agent below this one, at any depth.' },
  all: { type: 'boolean', description: 'Waits until all of them need attention, not the first.' },
  timeoutSeconds,
});

export const retryManyRequest = request('RetryAgentsRequest', {
  agentIds: {
    type: 'array',
    items: agentIdIn,
    maxItems: limits.agentsPerRetry,
    expected: `1 to ${limits.agentsPerRetry} agents`,
  },
  labels: {
    ...labelsIn,
    title: 'LabelFilter',
    description:
      'Instead of `agentIds`: every agent with all of these labels that is BLOCKED, RETRYING, in BUDGET or in PROVIDER_LIMIT, at any depth.',
  },
  workspace: { ...nameIn, description: 'Instead of `agentIds`: those in this workspace.' },
  account: { ...listRequest.properties.account, description: 'Whose agents, as in a list. Empty: your own.' },
  tenant: tenantIn,
});

export const retryManyReply = reply('RetryAgentsReply', {
  agents: list(
    reply('RetriedAgent', {
      agentId,
      retried: boolean,
      error: { ...nullable(agentError), description: 'Why the agent was not retried.' },
    }),
  ),
  more: {
    type: 'boolean',
    description: 'There are more agents than one reply holds. Send the request again.',
  },
});

export const diffRequest = request('DiffRequest', {
  agentId: agentIdIn,
  context: {
    type: 'integer',
    minimum: 0,
    maximum: limits.diffContextLines,
    expected: `a number of lines from 0 to ${limits.diffContextLines}`,
    description:
      'How many unchanged lines to return around each change, as far as they are stored. Default 3.',
  },
});

export const diffReply = reply('DiffReply', {
  branch: text,
  diffStat: nullable(diffStat),
  diff: text,
  workingTree: {
    ...nullable(reply('WorkingTreeDiff', { diffStat, diff: text })),
    description:
      'The same with uncommitted and unpushed changes, as of the last check; null before the first.',
  },
});

export const checkpointRequest = request('CheckpointRequest', {
  agentId: agentIdIn,
  checkpointId: {
    type: 'string',
    maxLength: limits.idLength,
    description: 'The id from the reply of the first part; ABORTED when a newer checkpoint has replaced it.',
  },
  part: {
    type: 'integer',
    minimum: 0,
    maximum: limits.checkpointParts - 1,
    description: 'Number of the part, from 0 (the default).',
  },
});

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

export const emptyReply = request('Empty', {});

export const labelsRequest = request('LabelAgentRequest', {
  agentId: agentIdIn,
  labels: {
    ...labelsIn,
    title: 'LabelChanges',
    // As many may go as come.
    maxProperties: 2 * limits.labelsPerAgent,
    description: "Merged into the agent's labels; an empty value removes the label.",
  },
});

export const labelsReply = reply('LabelAgentReply', { labels });
