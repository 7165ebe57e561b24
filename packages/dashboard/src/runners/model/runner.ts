import type { ListedRunner, ProviderAccount } from '@muster/sdk/contract';
import { plural } from '../../parts/model/text.ts';
import type { Tone } from '../../parts/model/tone.ts';

type State = readonly [text: string, tone: Tone, why: string];

/** What keeps a runner from taking runs, or that it takes them. */
export function stateOf(runner: ListedRunner): State {
  if (runner.draining)
    return ['draining', 'warning', 'It takes no more runs, and ends with those that it has.'];
  if (runner.disk?.isFull) return ['disk full', 'bad', 'It starts no runs, because its disk is almost full.'];
  if (freeOf(runner) === 0) return ['full', 'busy', 'It takes more runs when one of its runs ends.'];
  return ['ready', 'good', 'It takes runs.'];
}

/** A runner without a key only rehearses. */
const freeOf = ({ rehearses, free }: ListedRunner): number => (rehearses ? free.rehearsed : free.real);

export const slotsText = (runner: ListedRunner): string =>
  `${plural(runner.runCount, 'run')}, ${freeOf(runner)} more ${freeOf(runner) === 1 ? 'slot' : 'slots'} free`;

const gigabytes = (bytes: number): string => `${(bytes / 1e9).toFixed(bytes < 10e9 ? 1 : 0)} GB`;

export const diskText = ({ disk }: ListedRunner): string =>
  disk ? `${gigabytes(disk.freeBytes)} of ${gigabytes(disk.totalBytes)} free` : 'not reported';

export const accountState = ({ state, runs }: ProviderAccount): readonly [string, Tone] => {
  if (state === 'IN_USE') return [`used by ${plural(runs, 'run')}`, 'good'];
  return state === 'FREE' ? ['not in use', 'quiet'] : ['paused', 'bad'];
};

/** By pool, in the order in which they were listed. */
export function byPool(runners: readonly ListedRunner[]): readonly (readonly [string, ListedRunner[]])[] {
  const pools = new Map<string, ListedRunner[]>();
  for (const runner of runners) pools.set(runner.pool, [...(pools.get(runner.pool) ?? []), runner]);
  return [...pools];
}

/** Runners of a pool that one can drain: not that of the service, which ends with it. */
export const drainable = (runners: readonly ListedRunner[]): readonly ListedRunner[] =>
  runners.filter(({ isOwn, draining }) => !isOwn && !draining);
