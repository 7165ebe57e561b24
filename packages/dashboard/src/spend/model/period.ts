import { type UsageInterval, type UsageKey, usageKeys } from '@muster/sdk/contract';

/** The periods of the page, and what a bar of each is for. */
const periods = {
  '24h': { title: 'Last 24 hours', interval: 'hour', count: 24 },
  '7d': { title: 'Last 7 days', interval: 'day', count: 7 },
  '30d': { title: 'Last 30 days', interval: 'day', count: 30 },
  '90d': { title: 'Last 90 days', interval: 'day', count: 90 },
  month: { title: 'This month', interval: 'day', count: 0 },
  '12mo': { title: 'Last 12 months', interval: 'month', count: 12 },
} as const satisfies Record<string, { title: string; interval: UsageInterval; count: number }>;
export type PeriodName = keyof typeof periods;
export const periodNames = Object.keys(periods) as readonly PeriodName[];
export const periodTitle = (name: PeriodName): string => periods[name].title;

export type BarInterval = (typeof periods)[PeriodName]['interval'];

export interface Period {
  readonly interval: BarInterval;
  /** When each bar begins, in the time zone of the browser. */
  readonly starts: readonly Date[];
}

/** The period that ends now. It includes the hour, day or month that has begun. */
export function periodUntil(name: PeriodName, now: Date): Period {
  const { interval, count } = periods[name];
  const last = startOf(interval, now);
  const bars = count === 0 ? last.getDate() : count;
  return { interval, starts: Array.from({ length: bars }, (_, i) => before(interval, last, bars - 1 - i)) };
}

function startOf(interval: BarInterval, time: Date): Date {
  const [year, month, day] = [time.getFullYear(), time.getMonth(), time.getDate()];
  if (interval === 'month') return new Date(year, month, 1);
  if (interval === 'day') return new Date(year, month, day);
  // By the offset: an hour that occurs twice when the clock is set back has two bars.
  const hour = new Date(time);
  hour.setUTCMinutes(time.getUTCMinutes() - time.getMinutes(), 0, 0);
  return hour;
}

/** Days and months are counted in local time: they may have 23 or 25 hours. */
function before(interval: BarInterval, start: Date, count: number): Date {
  const [year, month, day] = [start.getFullYear(), start.getMonth(), start.getDate()];
  if (interval === 'month') return new Date(year, month - count, 1);
  if (interval === 'day') return new Date(year, month, day - count);
  return new Date(start.getTime() - count * 3_600_000);
}

const shortForms: Readonly<Record<BarInterval, Intl.DateTimeFormatOptions>> = {
  hour: { hour: 'numeric' },
  day: { day: 'numeric', month: 'short' },
  month: { month: 'short', year: 'numeric' },
};
const longForms: Readonly<Record<BarInterval, Intl.DateTimeFormatOptions>> = {
  hour: { weekday: 'short', hour: '2-digit', minute: '2-digit' },
  day: { weekday: 'short', day: 'numeric', month: 'short' },
  month: { month: 'long', year: 'numeric' },
};

/** `3 Nov`, `14` or `Nov 2026`. */
export const startText = (interval: BarInterval, start: Date): string =>
  start.toLocaleString(undefined, shortForms[interval]);

/** `Tue, 3 Nov`, `Tue 14:00` or `November 2026`. */
export const longStartText = (interval: BarInterval, start: Date): string =>
  start.toLocaleString(undefined, longForms[interval]);

/** What the page shows. It is stored in the URL. */
export interface SpendView {
  readonly period: PeriodName;
  readonly by: UsageKey;
  /** Whether the agents with the highest cost are listed one by one, or each with its children. */
  readonly top: 'agent' | 'root';
}

const defaultView: SpendView = { period: '30d', by: 'workspace', top: 'agent' };

/** Reads the query string of a URL and ignores unknown values. */
export function spendViewOf(search: string): SpendView {
  const query = new URLSearchParams(search);
  const by = query.get('by') ?? '';
  return {
    period: periodNames.find((name) => name === query.get('period')) ?? defaultView.period,
    by: isUsageKey(by) ? by : defaultView.by,
    top: query.get('top') === 'root' ? 'root' : defaultView.top,
  };
}

const isUsageKey = (key: string): key is UsageKey =>
  (usageKeys as readonly string[]).includes(key) || /^label:[^\s=,]+$/.test(key);

/** The URL of the page; defaults are left out. */
export function spendUrl(view: SpendView): string {
  const query = new URLSearchParams();
  for (const name of ['period', 'by', 'top'] as const)
    if (view[name] !== defaultView[name]) query.set(name, view[name]);
  const queryString = query.toString().replaceAll('%3A', ':');
  return queryString === '' ? '/spend' : `/spend?${queryString}`;
}
