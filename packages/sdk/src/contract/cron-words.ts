import { type Cron, monthNames, parseCron, weekdayNames } from './cron.ts';

/** More times than these are said as hours and minutes. */
const mostTimes = 6;

/** `0 7 * * 1-5`: "Every weekday at 07:00". Empty if it is not an expression. */
export function cronInWords(expression: string): string {
  const cron = parseCron(expression);
  if (typeof cron === 'string') return '';
  const days = daysOf(cron);
  const times = timesOf(cron);
  const text = days === 'every day' && times.startsWith('every ') ? times : `${days}${link(times)}${times}`;
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

const link = (times: string): string => (times.startsWith('at ') ? ' ' : ', ');

function daysOf({ days, months, weekdays, isAnyDay, isAnyWeekday }: Cron): string {
  const inMonths = months.length === 12 ? '' : ` in ${listed(months.map((month) => monthNames[month - 1]))}`;
  const ofWeek = weekdaysOf(weekdays);
  const ofMonth = `on day ${listed(ranges(days))} of ${inMonths ? inMonths.slice(' in '.length) : 'every month'}`;
  if (isAnyDay) return `${isAnyWeekday ? 'every day' : ofWeek}${inMonths}`;
  return isAnyWeekday ? ofMonth : `${ofMonth}, and ${ofWeek}${inMonths}`;
}

function weekdaysOf(weekdays: readonly number[]): string {
  const name = weekdays.join();
  if (weekdays.length === 7) return 'every day';
  if (name === '1,2,3,4,5') return 'every weekday';
  if (name === '0,6') return 'every Saturday and Sunday';
  // A week begins with Monday.
  const ordered = [...weekdays].sort((a, b) => ((a + 6) % 7) - ((b + 6) % 7));
  return `every ${listed(ordered.map((weekday) => weekdayNames[weekday]))}`;
}

function timesOf({ hours, minutes }: Cron): string {
  if (hours.length === 24) return minutesOf(minutes);
  const times = hours.flatMap((hour) => minutes.map((minute) => clock(hour, minute)));
  if (times.length <= mostTimes) return `at ${listed(times)}`;
  const everyHours = stepOf(hours, 24);
  if (everyHours > 0 && minutes.length === 1)
    return `every ${everyHours} hours${minutes[0] === 0 ? '' : ` at minute ${minutes[0]}`}`;
  const isOneRange = ranges(hours).length === 1;
  const [first = 0, last = 0] = [hours[0], hours.at(-1)];
  if (isOneRange)
    return `${minutesOf(minutes)} from ${clock(first, minutes[0])} to ${clock(last, minutes.at(-1))}`;
  return `${minutesOf(minutes)} in the hours ${listed(ranges(hours))}`;
}

function minutesOf(minutes: readonly number[]): string {
  const step = stepOf(minutes, 60);
  if (step === 1) return 'every minute';
  if (minutes.length === 1) return minutes[0] === 0 ? 'every hour' : `every hour at minute ${minutes[0]}`;
  return step > 0 ? `every ${step} minutes` : `every hour at the minutes ${listed(ranges(minutes))}`;
}

/** Of 0, 15, 30 and 45 the step is 15; 0 if they are not all multiples of one. */
function stepOf(values: readonly number[], end: number): number {
  const [first, second = end] = values;
  return first === 0 && end % second === 0 && values.length === end / second ? second : 0;
}

/** `1, 2, 3, 5` as `1 to 3` and `5`. */
function ranges(values: readonly number[]): string[] {
  const found: [number, number][] = [];
  for (const value of values) {
    const last = found.at(-1);
    if (last && last[1] === value - 1) last[1] = value;
    else found.push([value, value]);
  }
  return found.flatMap(([from, to]) =>
    from === to ? [`${from}`] : to === from + 1 ? [`${from}`, `${to}`] : [`${from} to ${to}`],
  );
}

const clock = (hour: number, minute = 0): string =>
  `${String(hour).padStart(2, '0')}:${String(minute).padStart(2, '0')}`;

const listed = (words: readonly (string | undefined)[]): string =>
  words.length < 2 ? (words[0] ?? '') : `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`;
