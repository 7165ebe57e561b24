import type { DueChangeRequest, Told } from '../store/statements/change-requests.ts';
import type { HostChangeRequest } from './host.ts';

export const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
/** How long a closed change request is watched: somebody may reopen it. */
const closedMs = 90 * dayMs;

/** Calls for the comparisons of one change request: GitHub allows 5,000 an hour for all of an installation. */
export const callsPerHour = 600;
const msPerCall = hourMs / callsPerHour;
/** How many may follow each other directly. */
const burstMs = 300 * msPerCall;

/** How soon a message of a person resumes a change request that is paused. */
export const pausedMs = 10_000;

/**
 * How long a comparison has to wait. A paused change request is compared when something has happened to it, and once an
 * hour. With a paused integration, nothing is compared.
 */
export function waitBeforeMs(
  { paused, asked, told }: Pick<DueChangeRequest, 'paused' | 'asked' | 'told'>,
  integration: { readonly paused: boolean },
  nowMs: number,
): number {
  if (integration.paused) return 6 * pausedMs;
  const isAsked = asked !== told.asked || nowMs - (told.comparedMs ?? 0) >= hourMs;
  return paused && !isAsked ? pausedMs : budgetWaitMs(told, nowMs);
}

/** Because earlier comparisons made too many calls. */
const budgetWaitMs = ({ spentUntilMs = 0 }: Told, nowMs: number): number =>
  Math.max(0, spentUntilMs - burstMs - nowMs);

/** After this many calls. */
export const spentUntilMs = (told: Told, calls: number, nowMs: number): number =>
  Math.max(told.spentUntilMs ?? 0, nowMs) + calls * msPerCall;

/** A closed change request may be reopened, so it is still compared, less and less often. */
export function endedDelayMs({ state }: HostChangeRequest, { endedMs }: Told, nowMs: number): number | null {
  const agoMs = nowMs - (endedMs ?? nowMs);
  if (state === 'MERGED' || agoMs > closedMs) return null;
  return Math.min(Math.max(agoMs / 10, hourMs), dayMs);
}
