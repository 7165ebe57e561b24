import { limits } from '../limits.ts';
import type { Infer } from '../schema.ts';
import { field, type KindEntry, nameOf, open } from './kind.ts';
import { amountOf, atMost, joined, labelled } from './summary.ts';

const runs = { type: 'integer', minimum: 0, maximum: 1_000_000 } as const;

const schema = open({
  vmProfile: field(nameOf('vm-profile'), 'The vm-profile that limits what each run may use.', 'default'),
  maxRuns: field(runs, 'How many runs of the tenant each runner of the pool runs at the same time.', 4),
  maxRunsTotal: field(
    runs,
    'How many runs of the tenant all runners of the pool together run at the same time.',
    16,
  ),
  maxTurnMinutes: {
    type: 'number',
    minimum: 0,
    maximum: limits.mostTurnMinutes,
    expected: `a number of minutes from 0 (no limit) to ${limits.mostTurnMinutes}`,
    description: `The longest turn in minutes; ${limits.turnMinutes} if absent. A longer turn is interrupted. 0: no limit.`,
    examples: [240],
  },
});
export type PoolDocument = Infer<typeof schema>;

export const pool = {
  title: 'Pools',
  one: 'pool',
  purpose: 'Groups of runners and their limits.',
  group: 'Machines',
  aliases: ['poolconfig', 'poolconfiguration'],
  schema,
  writers: 'admins',
  builtins: { default: { vmProfile: 'default' } },
  template: ['vmProfile', 'maxRuns'],
  summary: ({ vmProfile, maxRuns, maxRunsTotal, maxTurnMinutes }) =>
    joined(
      labelled('VM profile', vmProfile),
      atMost(maxRuns, 'runs per runner'),
      atMost(maxRunsTotal, 'runs in total'),
      amountOf(maxTurnMinutes, 'minutes per turn'),
    ),
} as const satisfies KindEntry;
