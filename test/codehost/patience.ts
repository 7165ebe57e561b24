import { until as untilWithin } from '../support/async.ts';

/** A host that fails is asked again after some seconds, and a busy machine takes longer for everything. */
export const patienceMs = 120_000;
/** For a test that waits several times. */
export const longTestMs = 600_000;

/** Most of what is waited for takes seconds: comments and checks settle for one before an agent is told. */
const mostPauseMs = 600;

export const until = <T>(what: string, probe: () => Promise<T>, holds: (seen: T) => boolean): Promise<T> =>
  untilWithin(what, probe, holds, patienceMs, mostPauseMs);
