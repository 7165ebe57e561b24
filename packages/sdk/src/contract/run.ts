import { agentIdIn } from './identity.ts';
import { type Infer, nullable, reply } from './infer.ts';
import { limits } from './limits.ts';
import { int64, int64In, more, text, texts, timestamp, timestampOrNull } from './scalars.ts';

export const runStates = ['STARTING', 'RUNNING', 'STOPPING', 'ENDED'] as const;
export type RunState = (typeof runStates)[number];

/** How a run ended. LOST: its runner vanished. PARKED: a provider's limit. HANDED_BACK: its runner drained. */
export const runOutcomes = [
  'COMPLETED',
  'INTERRUPTED',
  'KILLED',
  'FAILED',
  'LOST',
  'PARKED',
  'HANDED_BACK',
] as const;
export type RunOutcome = (typeof runOutcomes)[number];

/** Of the message of an error. */
export const errorLength = 8192;

export const agentError = reply('AgentError', { code: text, message: text });

const runFields = {
  runId: int64,
  state: { type: 'string', enum: runStates },
  outcome: { type: 'string', enum: ['', ...runOutcomes] },
  startedAt: timestamp,
  endedAt: timestampOrNull,
  runnerId: { type: 'string', description: 'The name of the runner that has or had the run.' },
  followUpIds: texts,
} as const;

export const currentRun = reply('CurrentRun', { ...runFields, currentAction: text });
export type CurrentRun = Infer<typeof currentRun>;

export const run = reply('Run', {
  ...runFields,
  batch: { ...int64, description: 'The first run that tried the same messages.' },
  cost: { type: 'number' },
  inputTokens: int64,
  cachedInputTokens: int64,
  outputTokens: int64,
  response: {
    type: 'string',
    description: 'The last text of the run so far; empty until it says something.',
  },
  structuredOutput: { description: 'Any JSON value; null when there is none.' },
  error: nullable(agentError),
  truncated: {
    type: 'boolean',
    description:
      'In a list, `response` is cut at 4 KiB and a larger `structuredOutput` is null. Ask with `runId` for all of it.',
  },
});
export type Run = Infer<typeof run>;

export const runsRequest = {
  title: 'ListRunsRequest',
  type: 'object',
  properties: {
    agentId: agentIdIn,
    runId: { ...int64In, description: 'Only this run, with its whole response.' },
    beforeRunId: int64In,
    limit: { type: 'integer', minimum: 1, maximum: 1000, expected: 'a whole number from 1 to 1000' },
  },
} as const;
export const runsReply = reply('ListRunsReply', { runs: { type: 'array', items: run }, more });

export const stopModes = [
  'STOP_TURN_MODE_UNSPECIFIED',
  'STOP_TURN_MODE_INTERRUPT',
  'STOP_TURN_MODE_KILL',
] as const;
export type StopMode = (typeof stopModes)[number];

export const stopTurnRequest = {
  title: 'StopTurnRequest',
  type: 'object',
  properties: {
    agentId: agentIdIn,
    runId: int64In,
    mode: { title: 'StopTurnMode', type: 'string', enum: stopModes },
  },
} as const;

/** What the agent itself says of its live run, with the key that the run holds. */
export const askRequest = {
  title: 'AskRequest',
  type: 'object',
  properties: {
    agentId: agentIdIn,
    question: { type: 'string', maxLength: limits.reportedTextLength },
  },
} as const;
export type AskRequest = Infer<typeof askRequest>;

export const finishRequest = {
  title: 'FinishRequest',
  type: 'object',
  properties: {
    agentId: agentIdIn,
    text: {
      type: 'string',
      maxLength: limits.reportedTextLength,
      description: 'Closing words: the response, unless the run says something more.',
    },
  },
} as const;
export type FinishRequest = Infer<typeof finishRequest>;

export const failRequest = {
  title: 'FailRequest',
  type: 'object',
  properties: {
    agentId: agentIdIn,
    message: {
      type: 'string',
      maxLength: errorLength,
      description: "Why the work can't be done: the message of its `error`.",
    },
  },
} as const;
export type FailRequest = Infer<typeof failRequest>;
