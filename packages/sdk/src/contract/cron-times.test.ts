import { describe, expect, test } from 'vitest';
import { type Cron, parseCron } from './cron.ts';
import { lastTimes, nextTimes } from './cron-times.ts';

const minuteMs = 60_000;
const zones = [
  ...['America/New_York', 'Europe/Berlin', 'Australia/Lord_Howe', 'Asia/Kathmandu'],
  ...['America/Sao_Paulo', 'Africa/Casablanca', 'UTC'],
];
/** In these years Sao Paulo changes its clocks at midnight, and Casablanca changes its rules. */
const [from, to] = [Date.UTC(2017, 0, 1), Date.UTC(2020, 0, 1)];

/** What clocks show at each minute, in minutes. They change at a quarter of an hour. */
function clocksOf(zone: string): Float64Array {
  const format = new Intl.DateTimeFormat('sv', { timeZone: zone, dateStyle: 'short', timeStyle: 'medium' });
  const shown = (ms: number): number => Date.parse(`${format.format(ms).replace(' ', 'T')}Z`) / minuteMs;
  const clocks = new Float64Array((to - from) / minuteMs);
  for (let day = 0; day < clocks.length; day += 1440) {
    const [first, last] = [shown(from + day * minuteMs), shown(from + (day + 1440) * minuteMs)];
    const stepMinutes = last - first === 1440 ? 1440 : 15;
    for (let i = day; i < day + 1440; i += stepMinutes) {
      const local = shown(from + i * minuteMs);
      for (let j = i; j < i + stepMinutes; j += 1) clocks[j] = local + j - i;
    }
  }
  return clocks;
}

const names = 'sun mon tue wed thu fri sat'.split(' ');
const months = 'jan feb mar apr may jun jul aug sep oct nov dec'.split(' ');

/** Read in another way than by the code under test: by trying each value on each part. */
function fits(text: string, value: number, end: number, start: number, words: readonly string[]): boolean {
  return text.split(',').some((part) => {
    const [range = '', step = '1'] = part.split('/');
    const number = (word: string) => (words.includes(word) ? words.indexOf(word) + start : Number(word));
    const [low = 0, high = low] = range === '*' ? [start, end] : range.split('-').map(number);
    const values = end === 6 && value === 0 ? [0, 7] : [value];
    return values.some((one) => one >= low && one <= high && (one - low) % Number(step) === 0);
  });
}

/** Walks through all minutes: the clocks jump ahead, or show again what they have shown. */
function modelTimes(expression: string, clocks: Float64Array): number[] {
  const [minute = '', hour = '', day = '', month = '', weekday = ''] = expression.split(' ');
  const table = (text: string, end: number, start: number, words: readonly string[] = []) =>
    Array.from({ length: end + 1 }, (_, value) => fits(text, value, end, start, words));
  const [minutes, hours] = [table(minute, 59, 0), table(hour, 23, 0)];
  const [days, ofYear, weekdays] = [
    table(day, 31, 1),
    table(month, 12, 1, months),
    table(weekday, 6, 0, names),
  ];
  let lastDay = Number.NaN;
  let isDay = false;
  const isMatch = (local: number): boolean => {
    if (!minutes[local % 60] || !hours[Math.floor(local / 60) % 24]) return false;
    const today = Math.floor(local / 1440);
    if (today !== lastDay) {
      const date = new Date(today * 86_400_000);
      const [byDay, byWeekday] = [days[date.getUTCDate()] ?? false, weekdays[date.getUTCDay()] ?? false];
      const either = day !== '*' && weekday !== '*' ? byDay || byWeekday : byDay && byWeekday;
      isDay = either && (ofYear[date.getUTCMonth() + 1] ?? false);
      lastDay = today;
    }
    return isDay;
  };
  const runsOn = hours.every(Boolean);
  const found: number[] = [];
  let highest = (clocks[0] ?? 0) - 1;
  clocks.forEach((local, i) => {
    let fires = false;
    if (runsOn) fires = isMatch(local);
    else for (let each = highest + 1; each <= local; each += 1) fires ||= isMatch(each);
    if (fires) found.push(from + i * minuteMs);
    highest = Math.max(highest, local);
  });
  return found;
}

/** The same numbers in each run. */
function random(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

function generated(below: (most: number) => number): string {
  const field = (start: number, end: number, words: readonly string[] = []) => {
    const value = () => start + below(end - start + 1);
    const word = (number: number) => words[number - start] ?? String(number);
    const range = () => [value(), value()].sort((a, b) => a - b);
    const kinds = [
      ...['*', '*'],
      word(value()),
      range().join('-'),
      `*/${1 + below(end)}`,
      `${range().join('-')}/${1 + below(5)}`,
      [value(), value(), value()].map(word).join(','),
    ];
    return kinds[below(kinds.length)] ?? '*';
  };
  // Often around the hours at which clocks change.
  const hour = below(2) === 0 ? String(below(4)) : field(0, 23);
  return [field(0, 59), hour, field(1, 31), field(1, 12, months), field(0, 6, names)].join(' ');
}

const usual = [
  '30 2 * * *',
  '30 1 * * *',
  '*/30 * * * *',
  '15,45 2 * * *',
  '0 1,13 * * *',
  '0 0 * * *',
  '10 */2 * * *',
];

const cronOf = (expression: string): Cron => {
  const cron = parseCron(expression);
  if (typeof cron === 'string') throw new Error(cron);
  return cron;
};

describe.each(zones)('in %s', (zone) => {
  test('an expression fires exactly when the model says, over three years', () => {
    const clocks = clocksOf(zone);
    const below = random(zone.length * 7919);
    const expressions = [...usual];
    while (expressions.length < 16) {
      const one = generated(below);
      if (typeof parseCron(one) !== 'string') expressions.push(one);
    }
    for (const expression of expressions) {
      const expected = modelTimes(expression, clocks);
      const cron = cronOf(expression);
      const found = nextTimes(cron, zone, from - 1, Number.POSITIVE_INFINITY, { toMs: to - 1 });
      // Much faster than to compare very many as values.
      expect(found.join() === expected.join(), expression).toBe(true);
      // Each from the one before, as fires do.
      for (const i of [0, 1, 2, 3].map(() => below(Math.max(1, expected.length - 1)))) {
        const [time, next] = expected.slice(i, i + 2);
        if (time === undefined || next === undefined) continue;
        expect(nextTimes(cron, zone, time, 1), expression).toEqual([next]);
        expect(lastTimes(cron, zone, from - 1, next + 1, 2).map(iso), expression).toEqual([
          iso(time),
          iso(next),
        ]);
      }
    }
  });
});

const iso = (ms: number): string => new Date(ms).toISOString();
const times = (expression: string, zone: string, after: string, count: number): string[] =>
  nextTimes(cronOf(expression), zone, Date.parse(after), count).map(iso);

describe('a change of the clocks', () => {
  test.each([
    ['30 2 * * *', '2026-03-08T05:00:00Z', ['2026-03-08T07:00:00.000Z', '2026-03-09T06:30:00.000Z']],
    ['15,45 2 * * *', '2026-03-08T05:00:00Z', ['2026-03-08T07:00:00.000Z', '2026-03-09T06:15:00.000Z']],
    ['30 2,3 * * *', '2026-03-08T05:00:00Z', ['2026-03-08T07:00:00.000Z', '2026-03-08T07:30:00.000Z']],
    ['30 1 * * *', '2026-11-01T04:00:00Z', ['2026-11-01T05:30:00.000Z', '2026-11-02T06:30:00.000Z']],
    ['30 1 * * *', '2026-11-01T06:10:00Z', ['2026-11-02T06:30:00.000Z']],
    ['0 1,13 * * *', '2026-11-01T04:00:00Z', ['2026-11-01T05:00:00.000Z', '2026-11-01T18:00:00.000Z']],
    ['*/30 * * * *', '2026-03-08T06:20:00Z', ['2026-03-08T06:30:00.000Z', '2026-03-08T07:00:00.000Z']],
    [
      '*/30 * * * *',
      '2026-11-01T05:20:00Z',
      ['2026-11-01T05:30:00.000Z', '2026-11-01T06:00:00.000Z', '2026-11-01T06:30:00.000Z'],
    ],
  ])('%s after %s in New York', (expression, after, expected) => {
    expect(times(expression, 'America/New_York', after, expected.length)).toEqual(expected);
  });

  test('of half an hour, of midnight, and of a whole day', () => {
    expect(times('15 2 * * *', 'Australia/Lord_Howe', '2026-10-03T12:00:00Z', 2)).toEqual([
      '2026-10-03T15:30:00.000Z',
      '2026-10-04T15:15:00.000Z',
    ]);
    expect(times('0 0 * * *', 'America/Sao_Paulo', '2018-11-03T12:00:00Z', 2)).toEqual([
      '2018-11-04T03:00:00.000Z',
      '2018-11-05T02:00:00.000Z',
    ]);
    expect(times('0 12 * * *', 'Pacific/Apia', '2011-12-29T23:00:00Z', 2)).toEqual([
      '2011-12-30T10:00:00.000Z',
      '2011-12-30T22:00:00.000Z',
    ]);
  });
});

test('times begin at `startsAt` and end at `endsAt`, and a leap day is found', () => {
  const daily = cronOf('0 7 * * *');
  const at = (text: string) => Date.parse(text);
  const limits = { fromMs: at('2026-05-02T07:00:00Z'), toMs: at('2026-05-03T07:00:00Z') };
  expect(nextTimes(daily, 'UTC', at('2026-01-01T00:00:00Z'), 5, limits).map(iso)).toEqual([
    '2026-05-02T07:00:00.000Z',
    '2026-05-03T07:00:00.000Z',
  ]);
  expect(nextTimes(daily, 'UTC', at('2026-05-03T07:00:00Z'), 5, limits)).toEqual([]);
  expect(times('0 0 29 2 *', 'UTC', '2096-03-01T00:00:00Z', 1)).toEqual(['2104-02-29T00:00:00.000Z']);
});

test('the last of very many times are found without going through all of them', () => {
  const until = Date.UTC(2026, 5, 1);
  const found = lastTimes(cronOf('* * * * *'), 'UTC', Date.UTC(2020, 0, 1), until, 24);
  expect(found).toHaveLength(24);
  expect(found.at(-1)).toBe(until);
  expect(lastTimes(cronOf('0 0 1 1 *'), 'UTC', Date.UTC(2020, 0, 1), until, 24)).toHaveLength(6);
});
