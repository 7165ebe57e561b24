import type { UsageRow } from '@muster/sdk';

/** The number of groups with a colour. The others are one: `other`. */
export const maxSeries = 6;

/** The number of a group's colour. */
export type Series = number | 'other';

/** What a group used in the whole period. */
export interface Group {
  /** The value of the key; empty where there is none. */
  readonly value: string;
  readonly series: Series;
  readonly used: UsageRow;
}

export interface Bar {
  readonly start: Date;
  readonly costUsd: number;
  /** By series; the last one is `other`. */
  readonly costs: readonly number[];
}

export interface Arranged {
  /** By cost, the highest first. */
  readonly groups: readonly Group[];
  /** The groups with a colour. */
  readonly series: readonly Group[];
  /** The cost of the groups without one; null if every group has one. */
  readonly otherUsd: number | null;
  readonly bars: readonly Bar[];
  readonly ticks: readonly number[];
}

const compare = (a: UsageRow, b: UsageRow): number =>
  b.costUsd - a.costUsd || Number(BigInt(b.inputTokens) - BigInt(a.inputTokens));

/** `rows` has a row per interval and group, `totals` one per group. */
export function arrange(
  rows: readonly UsageRow[],
  totals: readonly UsageRow[],
  by: string,
  starts: readonly Date[],
): Arranged {
  const keyOf = ({ keys }: UsageRow) => keys[by] ?? '';
  // A group on its own would be hidden behind a name that says less.
  const count = totals.length === maxSeries + 1 ? maxSeries + 1 : maxSeries;
  const groups = totals
    .toSorted(compare)
    .map((used, i): Group => ({ value: keyOf(used), series: i < count ? i : 'other', used }));
  const series = groups.slice(0, count);
  const places = new Map(series.map(({ value }, i) => [value, i]));
  const costs = starts.map(() => new Array<number>(series.length + 1).fill(0));
  for (const row of rows) {
    const bar = costs[barAt(starts, Date.parse(row.start))];
    const place = places.get(keyOf(row)) ?? series.length;
    if (bar) bar[place] = (bar[place] ?? 0) + row.costUsd;
  }
  const bars = starts.map((start, i) => {
    const ofBar = costs[i] ?? [];
    return { start, costs: ofBar, costUsd: sum(ofBar) };
  });
  const others = groups.slice(series.length).map(({ used }) => used.costUsd);
  return {
    groups,
    series,
    otherUsd: others.length === 0 ? null : sum(others),
    bars,
    ticks: ticksUpTo(Math.max(0, ...bars.map(({ costUsd }) => costUsd))),
  };
}

export const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

/** The last bar that begins at the time or before. In some zones the service's first hour begins before the first bar. */
const barAt = (starts: readonly Date[], time: number): number =>
  Math.max(
    0,
    starts.findLastIndex((start) => start.getTime() <= time),
  );

const maxTicks = 4;

/** Round numbers from 0 to the first that is not below the maximum. */
export function ticksUpTo(max: number): readonly number[] {
  if (max <= 0) return [0];
  const rough = max / maxTicks;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 5].find((factor) => factor * power >= rough) ?? 10) * power;
  const count = Math.ceil(max / step);
  return Array.from({ length: count + 1 }, (_, i) => i * step);
}

const tickFormat = new Intl.NumberFormat('en', {
  style: 'currency',
  currency: 'USD',
  notation: 'compact',
  maximumSignificantDigits: 3,
});
/** `$0`, `$0.5`, `$2.5K`. */
export const tickText = (usd: number): string => tickFormat.format(usd);

/** `42%`; `<1%`. */
export function shareText(part: number, whole: number): string {
  if (whole === 0 || part === 0) return '–';
  const percent = Math.round((100 * part) / whole);
  return percent === 0 ? '<1%' : `${percent}%`;
}

/** The indexes of bars that get a label: at most `most` of them, at equal distances. */
export function labelled(count: number, most: number): readonly number[] {
  const step = Math.ceil(count / most);
  return Array.from({ length: count }, (_, i) => i).filter((i) => i % step === Math.floor(step / 2));
}
