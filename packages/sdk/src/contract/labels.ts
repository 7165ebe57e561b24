import { agentIdIn } from './identity.ts';
import { type Infer, reply } from './infer.ts';
import { limits } from './limits.ts';

export const labels = {
  type: 'object',
  additionalProperties: { type: 'string' },
} as const;

const key = {
  pattern: `^[^\\s\\p{Cc}=,]{1,${limits.labelKeyLength}}$`,
  expected: `keys of 1 to ${limits.labelKeyLength} characters without white space, control characters, "=" and ","`,
} as const;

const value = {
  type: 'string',
  maxLength: limits.labelValueLength,
  pattern: '^[^\\p{Cc}]*$',
  expected: `a text of at most ${limits.labelValueLength} characters without control characters`,
} as const;

/** What a caller labels agents with, or looks for. */
export const labelsIn = {
  title: 'LabelsInput',
  type: 'object',
  propertyNames: key,
  additionalProperties: value,
  maxProperties: limits.labelsPerAgent,
  expected: `at most ${limits.labelsPerAgent} labels`,
} as const;

export const labelsRequest = {
  title: 'LabelAgentRequest',
  type: 'object',
  properties: {
    agentId: agentIdIn,
    labels: {
      ...labelsIn,
      title: 'LabelChanges',
      // As many may go as come.
      maxProperties: 2 * limits.labelsPerAgent,
      description: 'Merged into the labels that the agent has; an empty value removes the label.',
    },
  },
} as const;
export type LabelsRequest = Infer<typeof labelsRequest>;

export const labelsReply = reply('LabelAgentReply', { labels });
