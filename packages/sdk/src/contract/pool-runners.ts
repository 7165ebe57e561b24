import { limits } from './limits.ts';
import { type Infer, list, nameIn, reply, request, text } from './schema.ts';

const count = { type: 'integer', minimum: 0 } as const;

export const demandReply = reply('Demand', {
  waiting: { ...count, description: 'Agents with work that no runner has claimed yet.' },
  running: { ...count, description: 'Live runs.' },
  free: { ...count, description: 'How many more runs the runners could take now.' },
  runners: {
    ...count,
    description: 'Live runners that are not draining, also the one of the service itself.',
  },
  wanted: {
    ...count,
    description: `How many runners the live runs and the waiting agents need, at most ${limits.runnersPerTenant}.`,
  },
});
export type Demand = Infer<typeof demandReply>;

export const drainRunnersRequest = request('DrainRunnersRequest', {
  pool: nameIn,
  runners: {
    type: 'array',
    items: { type: 'string', minLength: 1, maxLength: 128 },
    minItems: 1,
    maxItems: limits.runnersPerTenant,
    description: 'Their names; absent: every runner of the pool.',
  },
});

export const drainRunnersReply = reply('DrainRunnersReply', {
  runners: {
    ...list(
      reply('DrainingRunner', {
        name: text,
        runs: { ...count, description: 'Runs that it has not finished or handed back yet.' },
      }),
    ),
    description: 'Those of them that are live. All of them drain now.',
  },
});
export type DrainingRunner = Infer<typeof drainRunnersReply>['runners'][number];
