import type { Task } from '@muster/sdk/contract';
import type { Identity, PersonaCopy } from '../../packages/service/src/domain/agent.ts';
import type { QueueFollowUp } from '../../packages/service/src/domain/commands/queue-follow-up.ts';
import type { ReportRun } from '../../packages/service/src/domain/commands/report-run.ts';
import type { SpawnAgent } from '../../packages/service/src/domain/commands/spawn-agent.ts';

/** Commands with everything filled in that the suites do not vary. */
export { sampleTask as task } from '../support/samples.ts';

export const tenants = [1, 2, 3] as const;

export const identity = (path: readonly string[], tenant = 1): Identity => ({
  tenant,
  ownerProvider: 'PROVIDER_CODEHOST_OAUTH',
  account: 'ada',
  workspace: 'default',
  path,
});

const persona: PersonaCopy = {
  name: 'default',
  instructions: '',
  model: '',
  reasoningEffort: '',
  serviceTier: '',
  fastMode: null,
  tasks: [],
};

export const spawn = (id: string, path: readonly string[], tasks: readonly Task[] = []): SpawnAgent => ({
  type: 'spawn',
  id,
  identity: identity(path),
  description: 'begin',
  expectedOutput: '',
  change: { persona },
  defaultModel: 'rehearsal-a',
  pool: 'default',
  budgetUsd: null,
  repos: [],
  labels: { spawned: 'yes' },
  tasks,
  warning: '',
});

/** The id of a follow-up that changes a setting begins with this, so that the audit can recognise it. */
const settingPrefix = 'set-';
export const overridesById = (followUpId: string): boolean => followUpId.startsWith(settingPrefix);
export const settingId = (id: string): string => `${settingPrefix}${id}`;

export const followUp = (followUpId: string, fields: Partial<QueueFollowUp> = {}): QueueFollowUp => ({
  type: 'queue',
  followUpId,
  description: 'go on',
  tasks: [],
  // A new value: one that is already in force would not start a batch.
  change: overridesById(followUpId) ? { outputSchema: followUpId } : {},
  preempt: false,
  replace: false,
  deliverAt: null,
  digest: followUpId,
  ...fields,
});

type ReportedEnd = NonNullable<ReportRun['end']>;

export const ended = (outcome: ReportedEnd['outcome'], fields: Partial<ReportedEnd> = {}): ReportedEnd => ({
  outcome,
  response: 'done',
  ...fields,
});

export const report = (
  runnerId: string,
  runId: number,
  number: number,
  fields: Partial<ReportRun> = {},
): ReportRun => ({ type: 'report', runnerId, runId, report: number, ...fields });

export const claimingRunner = (id: string, name: string) => ({
  type: 'claim' as const,
  runner: { id, name, pool: 'default', deferral: true, rehearses: true, sandboxed: true },
});
