import { tenantIn } from './identity.ts';
import { limits } from './limits.ts';
import { type Infer, int64, list, pageIn, reply, request, text, timestamp, timestampIn } from './schema.ts';

/** What usage can be grouped and filtered by, beside `label:KEY`. */
export const usageKeys = [
  'workspace',
  'account',
  'backend',
  'model',
  'agent',
  'root',
  'providerAccount',
] as const;
export type UsageKey = (typeof usageKeys)[number] | `label:${string}`;

export const usageIntervals = ['hour', 'day', 'month', 'total'] as const;
export type UsageInterval = (typeof usageIntervals)[number];

const keyPattern = `^(${usageKeys.join('|')}|label:[^\\s\\p{Cc}=,]{1,${limits.labelKeyLength}})$`;
const keyExpected = `one of ${usageKeys.join(', ')}, label:KEY`;

export const usageRequest = request('UsageRequest', {
  tenant: tenantIn,
  from: {
    ...timestampIn,
    description: 'Rounded down to a full hour. Absent: 30 days before `to`.',
  },
  to: { ...timestampIn, description: 'Not included; rounded up to a full hour. Absent: now.' },
  zone: {
    type: 'string',
    maxLength: 64,
    expected: 'the name of a time zone such as Europe/Berlin',
    description: 'The time zone whose days and months are counted; absent: UTC.',
  },
  interval: {
    type: 'string',
    enum: usageIntervals,
    description: `What a row is for; absent: \`day\`. At most ${limits.usageIntervals} intervals.`,
  },
  groupBy: {
    type: 'array',
    items: { type: 'string', pattern: keyPattern, expected: keyExpected },
    maxItems: limits.usageGroups,
    description: `A row for each value of these: ${keyExpected}.`,
  },
  filter: {
    title: 'UsageFilter',
    type: 'object',
    propertyNames: { pattern: keyPattern, expected: keyExpected },
    additionalProperties: { type: 'string', maxLength: 1100, expected: 'a text' },
    maxProperties: 20,
    description:
      'Only what was used with all of these values, under the names of `groupBy`. `account` is written as in a list of agents; `agent` and `root` are paths.',
  },
  ...pageIn,
});
export type UsageRequest = Infer<typeof usageRequest>;

const count = { type: 'integer', minimum: 0 } as const;

export const usageRow = reply('UsageRow', {
  start: { ...timestamp, description: 'The beginning of the interval; of `total`, `from`.' },
  keys: {
    type: 'object',
    additionalProperties: text,
    description:
      'The values of `groupBy`; empty where there is none. Deleted agents have no path and no labels.',
  },
  costUsd: { type: 'number' },
  estimated: {
    type: 'boolean',
    description: 'A subscription paid for some of it: that is counted at list price.',
  },
  inputTokens: int64,
  cachedInputTokens: { ...int64, description: 'Of the input tokens, those that were read from a cache.' },
  outputTokens: int64,
  runs: { ...count, description: 'Runs that used something.' },
  agents: { ...count, description: 'Agents that used something.' },
  unpricedTokens: {
    ...int64,
    description: 'Of the tokens, those of models whose price is not known: they cost nothing here.',
  },
});
export type UsageRow = Infer<typeof usageRow>;

export const usageReply = reply('UsageReply', { rows: list(usageRow), nextPageToken: text });
