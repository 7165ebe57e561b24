import { budgetUsdIn } from '../budget.ts';
import { limits } from '../limits.ts';
import { boolean, type Infer, list } from '../schema.ts';
import { field, type KindEntry, open, setting } from './kind.ts';
import { amountOf, joined, labelled } from './summary.ts';

const patterns = {
  ...list({ ...setting, minLength: 1 }),
  minItems: 1,
  maxItems: 100,
  expected: 'a list of 1 to 100 names, in which * matches any characters',
} as const;

const schema = open({
  models: field(patterns, 'The models that agents may use. `*` matches any characters.', ['claude-*']),
  reasoningEfforts: field(patterns, 'The reasoning efforts that may be set.', ['low', 'medium']),
  serviceTiers: field(patterns, 'The service tiers that may be set.', ['priority']),
  fastMode: field(boolean, 'Whether agents may use fast mode. Default true.', false),
  personas: field(patterns, 'The personas that agents may have.', ['default', 'review-*']),
  budgetUsd: {
    ...budgetUsdIn,
    description: 'The budget of a root agent that is spawned without one.',
    examples: [20],
  },
  maxTurnMinutes: {
    type: 'number',
    minimum: 1,
    maximum: limits.mostTurnMinutes,
    expected: `a number of minutes from 1 to ${limits.mostTurnMinutes}`,
    description: 'The longest turn in minutes. The shortest of the pool and of all policies counts.',
    examples: [60],
  },
});
export type PolicyDocument = Infer<typeof schema>;

export const policy = {
  title: 'Policies',
  one: 'policy',
  purpose:
    'The models and settings that agents may have, and how long their turns may be. `default` holds for all agents of the tenant; a workspace may name another one, and then both hold.',
  group: 'Access',
  // Policies.
  aliases: ['policie'],
  schema,
  writers: 'admins',
  builtins: { default: {} },
  template: ['models', 'maxTurnMinutes'],
  summary: ({ models, personas, maxTurnMinutes }) =>
    joined(
      labelled('models', namesIn(models)),
      labelled('personas', namesIn(personas)),
      amountOf(maxTurnMinutes, 'minutes per turn'),
    ),
} as const satisfies KindEntry;

const namesIn = (value: unknown): string => (Array.isArray(value) ? value.join(', ') : '');
