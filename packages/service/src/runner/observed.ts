import { type Observation, observationsPerPoll, timesPerObservation } from '@muster/sdk/contract';

/** This number is kept as it is. Of a run that makes very many requests, several become one. */
const mostSingle = observationsPerPoll / 2;

/**
 * What this runner has measured since its last poll. A poll that fails takes it back; one that the runner has cancelled
 * has most likely arrived. Beyond what one poll may have, observations are dropped.
 */
export class Observed {
  #pending: Observation[] = [];

  add(observation: Observation): void {
    const same =
      this.#pending.length < mostSingle
        ? undefined
        : this.#pending.find((kept) => mayJoin(kept, observation));
    if (same) this.#pending[this.#pending.indexOf(same)] = sumOf(same, observation);
    else if (this.#pending.length < observationsPerPoll) this.#pending.push(observation);
  }

  take(): Observation[] {
    const taken = this.#pending;
    this.#pending = [];
    return taken;
  }

  takeBack(taken: readonly Observation[]): void {
    for (const observation of taken) this.add(observation);
  }
}

const mayJoin = (a: Observation, b: Observation): boolean =>
  (a.times ?? 1) + (b.times ?? 1) <= timesPerObservation &&
  a.what === b.what &&
  a.provider === b.provider &&
  a.model === b.model &&
  a.outcome === b.outcome &&
  (a.firstByteSeconds === undefined) === (b.firstByteSeconds === undefined);

const summed = [
  'seconds',
  'firstByteSeconds',
  'inputTokens',
  'cachedInputTokens',
  'outputTokens',
  'costUsd',
] as const;

function sumOf(a: Observation, b: Observation): Observation {
  const sum = { ...a, times: (a.times ?? 1) + (b.times ?? 1) };
  for (const name of summed) if (b[name] !== undefined) sum[name] = (a[name] ?? 0) + b[name];
  return sum;
}
