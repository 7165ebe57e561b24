import { agentIdIn } from './identity.ts';
import { limits } from './limits.ts';
import {
  type Infer,
  int64,
  int64In,
  list,
  more,
  nullable,
  reply,
  request,
  text,
  texts,
  timestamp,
  timestampOrNull,
} from './schema.ts';

export const runStates = ['STARTING', 'RUNNING', 'STOPPING', 'ENDED'] as const;
export type RunState = (typeof runStates)[number];

/** How a run ended. LOST: its runner died. PARKED: a rate limit of the provider. HANDED_BACK: its runner shut down. */
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

/** The longest message of an error. */
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
  account: {
    type: 'string',
    description:
      "The account at the model's provider that the run uses, as `provider/name`: at first that of the run before. Empty if it is not known, and for rehearsed runs.",
  },
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
    description: 'The last text of the run so far; may be empty.',
  },
  structuredOutput: { description: 'Any JSON value; null when there is none.' },
  error: nullable(agentError),
  traceId: {
    type: 'string',
    description: 'The id of its trace; empty if its runner sends no traces.',
  },
  truncated: {
    type: 'boolean',
    description:
      'In a list, `response` is cut at 4 KiB and a larger `structuredOutput` is null. Use `runId` to get all of it.',
  },
});
export type Run = Infer<typeof run>;

export const runsRequest = request('ListRunsRequest', {
  agentId: agentIdIn,
  runId: { ...int64In, description: 'Only this run, with its whole response.' },
  beforeRunId: int64In,
  limit: { type: 'integer', minimum: 1, maximum: 1000, expected: 'a whole number from 1 to 1000' },
});
export const runsReply = reply('ListRunsReply', { runs: list(run), more });

const mode = {
  title: 'StopTurnMode',
  type: 'string',
  enum: ['STOP_TURN_MODE_UNSPECIFIED', 'STOP_TURN_MODE_INTERRUPT', 'STOP_TURN_MODE_KILL'],
} as const;
export type StopMode = Infer<typeof mode>;

export const stopTurnRequest = request('StopTurnRequest', { agentId: agentIdIn, runId: int64In, mode });

/** Requests of an agent about its own run, with the key of the run. */
export const askRequest = request('AskRequest', {
  agentId: agentIdIn,
  question: { type: 'string', maxLength: limits.reportedTextLength },
});

export const finishRequest = request('FinishRequest', {
  agentId: agentIdIn,
  text: {
    type: 'string',
    maxLength: limits.reportedTextLength,
    description: 'The response, unless the run sends more text.',
  },
});

export const failRequest = request('FailRequest', {
  agentId: agentIdIn,
  message: {
    type: 'string',
    maxLength: errorLength,
    description: "Why the work can't be done: becomes the message of `error`.",
  },
});
