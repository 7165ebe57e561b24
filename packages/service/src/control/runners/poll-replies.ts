import type { PollReply, PollRequest } from '@muster/sdk/contract';

export const nothingNew = (leaseMs: number, { watched = [] }: PollRequest): PollReply => ({
  leaseMs,
  claims: [],
  stops: [],
  steers: [],
  drain: false,
  undrain: false,
  watched: [...watched],
});

/** Whether the runner is to know it before its poll has waited. */
export const isNews = (
  { claims, stops, steers, drain, undrain, watched }: PollReply,
  request: PollRequest,
): boolean =>
  drain ||
  undrain ||
  claims.length > 0 ||
  stops.length > 0 ||
  steers.length > 0 ||
  !isKnown(watched, request.watched);

type Watched = PollReply['watched'];

/** Whether the runner has this list. A runner of an earlier version does not say so: for it, no list is news. */
function isKnown(watched: Watched, known: PollRequest['watched']): boolean {
  const texts = (list: Watched) => list.map(({ agentKey, since }) => `${agentKey} ${since}`).sort();
  return known === undefined || texts(watched).join() === texts(known).join();
}
