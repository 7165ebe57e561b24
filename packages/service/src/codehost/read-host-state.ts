import type pg from 'pg';
import { type DueChangeRequest, readPushedTip } from '../store/statements/change-requests.ts';
import type { Integration } from './integrations.ts';
import { type HostState, isPushedByOthers } from './news.ts';
import type { People } from './people.ts';

/** What the host says about a change request now. One that ended before is only asked whether it was opened again. */
export async function readHostState(
  database: pg.Pool,
  people: People,
  integration: Integration,
  row: DueChangeRequest,
): Promise<HostState & { readonly isRead: boolean }> {
  const { host } = integration;
  const [request, self] = await Promise.all([
    host.changeRequest(row.repo, row.number),
    people.selfOf(integration),
  ]);
  const isOpen = request.state === 'OPEN' || request.state === 'DRAFT';
  if (!isOpen && row.state === request.state)
    return {
      ...{ request, self, threads: [], reviews: [], checks: [] },
      ...{ tip: null, isPushed: false, isRead: false },
    };
  const [threads, allReviews, checks, [pushed]] = await Promise.all([
    host.threads(row.repo, row.number),
    host.reviews(row.repo, row.number),
    isOpen ? host.checks(row.repo, request.headSha) : [],
    readPushedTip(database, row.tenant, row.agent, row.repo_url),
  ]);
  const reviews = [];
  for (const review of allReviews) {
    // Some hosts make a review of each reply.
    if (review.author.id === self.id) continue;
    if ((await people.refuseToHear(integration, row.repo, review.author)) === null) reviews.push(review);
  }
  // A push of the run in progress may not be reported yet.
  const tip = pushed?.phase === 'PHASE_RUNNING' ? null : (pushed?.tip ?? null);
  const isPushed = isPushedByOthers(row, request, tip);
  return { request, self, threads, reviews, checks, tip, isPushed, isRead: true };
}
