import type pg from 'pg';
import { branchesWithoutRequest } from '../store/statements/pushed-branches.ts';
import { HostError } from '../work/host-error.ts';
import type { ChangeRequests } from './change-requests.ts';
import type { Integration, Integrations } from './integrations.ts';
import { orRefusal } from './or-refusal.ts';

/** Of one search; each is a call. */
const mostBranches = 100;

/** Records change requests that somebody opened from the branch of an agent, and whose delivery never came. */
export async function findMissedRequests(
  {
    database,
    integrations,
    changeRequests,
  }: { database: pg.Pool; integrations: Integrations; changeRequests: ChangeRequests },
  integration: Integration,
): Promise<void> {
  for (const pushed of await branchesWithoutRequest(database, integration.tenant, mostBranches)) {
    const owner = await integrations.ofAgent(pushed);
    if (owner?.integration.name !== integration.name) continue;
    const found = await orRefusal(integration.host.changeRequestsFrom(owner.repo, pushed.branch));
    for (const request of found instanceof HostError ? [] : found)
      await changeRequests.record(integration, request, pushed);
  }
}
