import { Audit } from './access/audit.ts';
import type { DeviceLogins } from './access/device-logins.ts';
import { ListedKeys, type ListedKeysOptions } from './access/listed-keys.ts';
import { Members, type MembersOptions } from './access/members.ts';
import { Setup, type SetupOptions } from './access/setup.ts';
import { Budgets, type BudgetsOptions } from './agents/budgets.ts';
import { Checklists } from './agents/checklist.ts';
import { DeletedAgents, type DeletionOptions } from './agents/delete-agent.ts';
import { FollowUps, type FollowUpsOptions } from './agents/follow-ups.ts';
import { Inspection, type InspectionOptions } from './agents/inspection.ts';
import { Lifecycle } from './agents/lifecycle.ts';
import { Marks, type MarksOptions } from './agents/marks.ts';
import { Retries, type RetriesOptions } from './agents/retries.ts';
import { Threads, type ThreadsOptions } from './agents/threads.ts';
import type { Operation } from './operation.ts';
import type { PoolRunners } from './runners/pool-runners.ts';
import { type RunnerOperationsOptions, runnerOperations } from './runners/protocol.ts';

type Parts = BudgetsOptions &
  DeletionOptions &
  FollowUpsOptions &
  InspectionOptions &
  MarksOptions &
  MembersOptions &
  RetriesOptions &
  RunnerOperationsOptions &
  SetupOptions &
  ListedKeysOptions &
  ThreadsOptions & { readonly deviceLogins: DeviceLogins; readonly poolRunners: PoolRunners };

/** The operations of the API that need nothing of HTTP but a caller and a body, under their names in the contract. */
export function operationsOf(parts: Parts) {
  const inspection = new Inspection(parts);
  return {
    ...inspection,
    ...parts.lists,
    ...new Audit(parts),
    ...parts.deviceLogins,
    ...new ListedKeys(parts),
    ...new Lifecycle(parts),
    ...new Budgets(parts),
    ...new Marks(parts),
    ...new Members(parts),
    ...new Setup(parts),
    ...new Retries(parts),
    ...new DeletedAgents(parts),
    ...new FollowUps(parts),
    ...new Checklists({ ...parts, status: inspection.status }),
    ...new Threads(parts),
    ...parts.ownRuns,
    ...parts.poolRunners,
    ...runnerOperations(parts),
    service: ((caller) => parts.runners.service(caller)) as Operation<'service'>,
  };
}
