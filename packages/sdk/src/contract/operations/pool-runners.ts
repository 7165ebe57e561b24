import * as pools from '../pool-runners.ts';
import type { Operations } from './operation.ts';

export const poolRunnerOperations = {
  poolDemand: {
    summary: 'Returns how many runs a pool has and needs, and how many runners that takes.',
    access: 'demand',
    reply: pools.demandReply,
  },
  listRunners: {
    summary: 'Lists the live runners: what they run, what they can still take, their machines and accounts.',
    access: 'person',
    body: pools.listRunnersRequest,
    reply: pools.listRunnersReply,
    example: {},
  },
  drainRunners: {
    summary: 'Drains runners of a pool: they claim nothing more, finish or hand back their runs, and end.',
    access: 'person',
    body: pools.drainRunnersRequest,
    reply: pools.drainRunnersReply,
    example: { pool: 'default' },
  },
  undrainRunners: {
    summary: 'Lets runners that drain take runs again, if they have not handed theirs back yet.',
    access: 'person',
    body: pools.undrainRunnersRequest,
    reply: pools.undrainRunnersReply,
  },
} as const satisfies Operations;
