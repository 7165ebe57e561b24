import { backends } from './backend.ts';
import { agentId } from './identity.ts';
import { limits } from './limits.ts';
import { providerAccount } from './provider-account.ts';
import { runStates } from './run.ts';
import {
  boolean,
  type Infer,
  int64,
  list,
  nameIn,
  nullable,
  pageIn,
  reply,
  request,
  text,
  timestamp,
} from './schema.ts';

const count = { type: 'integer', minimum: 0 } as const;

const bytes = { type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER } as const;

export const runnerMachine = {
  description: 'The machine that it runs on, and the disk of its data folder: for those who watch runners.',
  type: 'object',
  properties: { system: { type: 'string', maxLength: 128 }, freeBytes: bytes, totalBytes: bytes },
} as const;

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
  name: { ...nameIn, description: 'One runner, of any pool; instead of `pool` and `runners`.' },
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

export const undrainRunnersRequest = request('UndrainRunnersRequest', {
  ...drainRunnersRequest.properties,
  runners: { ...drainRunnersRequest.properties.runners, description: 'Their names.' },
});

export const undrainRunnersReply = reply('UndrainRunnersReply', {
  runners: {
    ...list(
      reply('UndrainedRunner', {
        name: text,
        draining: { ...boolean, description: 'It has begun to hand back its runs, and ends all the same.' },
      }),
    ),
    description: 'Those of them that are live.',
  },
});

export const listRunnersRequest = request('ListRunnersRequest', {
  pool: { ...nameIn, description: 'Only runners of this pool. Default: of every pool.' },
  text: {
    type: 'string',
    maxLength: 256,
    description: 'Only runners with this text in their name, pool or system, in any case.',
  },
  ...pageIn,
});

/** How many runs of a runner are listed. */
export const mostListedRuns = 20;

export const listedRunner = reply('ListedRunner', {
  name: text,
  pool: text,
  isOwn: { ...boolean, description: 'The runner of the service itself, which serves every tenant.' },
  version: { ...text, description: 'Empty if the runner does not report one.' },
  versionWarning: {
    ...text,
    description: 'What to do, if runners of this version are not supported by this service. Otherwise empty.',
  },
  system: {
    ...text,
    description: 'The operating system and processor of its machine, and its version of Node.',
  },
  since: { ...timestamp, description: 'When it registered.' },
  lastPollAt: timestamp,
  draining: { ...boolean, description: 'It takes no more runs, and ends with those that it has.' },
  sandboxed: { ...boolean, description: 'It runs agents in a sandbox.' },
  rehearses: { ...boolean, description: 'It has no provider key and rehearses every model.' },
  backends: {
    ...list({ type: 'string' as const, enum: backends }),
    description: 'The backends that it has, not only rehearses.',
  },
  free: {
    ...reply('FreeSlots', { real: count, rehearsed: count }),
    description: 'How many more runs it can take.',
  },
  runCount: { ...count, description: 'Its live runs of the tenant.' },
  runs: {
    ...list(
      reply('RunOfRunner', {
        agentId,
        runId: int64,
        state: { type: 'string', enum: runStates },
        startedAt: timestamp,
      }),
    ),
    description: `The newest ${mostListedRuns} of them.`,
  },
  disk: {
    ...nullable(reply('RunnerDisk', { freeBytes: count, totalBytes: count, isFull: boolean })),
    description:
      'The disk of its data folder; null if the runner does not report it. `isFull`: it starts no runs.',
  },
  accounts: {
    ...list(providerAccount),
    description:
      'Its accounts at providers, in the order in which they are used. Only for admins of the tenant of the runner; empty for others.',
  },
});
export type ListedRunner = Infer<typeof listedRunner>;

export const listRunnersReply = reply('ListRunnersReply', {
  runners: { ...list(listedRunner), description: 'Live runners that serve the tenant, by pool and name.' },
  nextPageToken: text,
});
