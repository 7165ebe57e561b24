/** An expression of five fields, as sets of numbers. */
export interface Cron {
  readonly minutes: readonly number[];
  readonly hours: readonly number[];
  readonly days: readonly number[];
  readonly months: readonly number[];
  /** From 0, a Sunday, to 6. */
  readonly weekdays: readonly number[];
  /** The field is `*`. Where neither is, a day has to fit one of them. */
  readonly isAnyDay: boolean;
  readonly isAnyWeekday: boolean;
}

interface Field {
  readonly name: string;
  readonly from: number;
  readonly to: number;
  /** Names of its values, from the first one on. */
  readonly names?: readonly string[];
}

export const monthNames =
  'January February March April May June July August September October November December'.split(' ');
export const weekdayNames = 'Sunday Monday Tuesday Wednesday Thursday Friday Saturday'.split(' ');

const short = (names: readonly string[]) => names.map((name) => name.slice(0, 3).toLowerCase());

const fields = [
  { name: 'minute', from: 0, to: 59 },
  { name: 'hour', from: 0, to: 23 },
  { name: 'day of the month', from: 1, to: 31 },
  { name: 'month', from: 1, to: 12, names: short(monthNames) },
  { name: 'day of the week', from: 0, to: 7, names: short(weekdayNames) },
] as const satisfies readonly Field[];

const expected = 'five fields: minute, hour, day of the month, month, day of the week, such as 0 7 * * 1-5';
const item = /^(?:(\*)|([a-z0-9]+)(?:-([a-z0-9]+))?)(?:\/(\d{1,2}))?$/;
const mostLength = 256;

class Problem extends Error {}

/** The expression; or, as a text, what is wrong with it. */
export function parseCron(expression: string): Cron | string {
  const texts = expression
    .slice(0, mostLength + 1)
    .trim()
    .toLowerCase()
    .split(/[ \t]+/);
  const got = JSON.stringify(expression.slice(0, 100));
  if (expression.length > mostLength || texts.length !== fields.length)
    return `must have ${expected}; got ${got}`;
  try {
    const [minutes = [], hours = [], days = [], months = [], weekdays = []] = fields.map((field, i) =>
      numbersIn(field, texts[i] ?? ''),
    );
    const [, , day, , weekday] = texts;
    const sevens = [...new Set(weekdays.map((one) => one % 7))].sort((a, b) => a - b);
    const any = { isAnyDay: day === '*', isAnyWeekday: weekday === '*' };
    const cron = { minutes, hours, days, months, weekdays: sevens, ...any };
    return neverFires(cron) ? `never fires: no month that it names has such a day; got ${got}` : cron;
  } catch (error) {
    if (error instanceof Problem) return `${error.message}; got ${got}`;
    throw error;
  }
}

export const cronProblem = (expression: string): string | null => {
  const cron = parseCron(expression);
  return typeof cron === 'string' ? cron : null;
};

function numbersIn(field: Field, text: string): number[] {
  const found = new Set<number>();
  for (const part of text.split(',')) for (const value of itemOf(field, part)) found.add(value);
  return [...found].sort((a, b) => a - b);
}

function* itemOf(field: Field, text: string): Generator<number> {
  const [whole, any, first, last, stepText] = item.exec(text) ?? [];
  const { name } = field;
  if (whole === undefined)
    throw new Problem(
      `${name}: must be *, a value, a range such as 1-5, a step such as */15, or a list of these`,
    );
  if (stepText !== undefined && any === undefined && last === undefined)
    throw new Problem(`${name}: a step needs * or a range, such as ${field.from}-${field.to}/${stepText}`);
  const step = stepText === undefined ? 1 : Number(stepText);
  if (step === 0) throw new Problem(`${name}: a step must be at least 1`);
  const from = any ? field.from : numberOf(field, first ?? '');
  const to = any ? field.to : last === undefined ? from : lastOf(field, last);
  if (from > to) throw new Problem(`${name}: a range must go up`);
  for (let value = from; value <= to; value += step) yield value;
}

/** A week may end with Sunday. */
const lastOf = (field: Field, text: string): number => (text === 'sun' ? field.to : numberOf(field, text));

function numberOf({ name, from, to, names = [] }: Field, text: string): number {
  const at = names.indexOf(text);
  const value = at >= 0 ? from + at : /^\d{1,2}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= from && value <= to) return value;
  throw new Problem(
    `${name}: must be from ${from} to ${to}${names.length > 0 ? ` or a name such as ${names[1]}` : ''}`,
  );
}

/** In a leap year. */
const daysIn = (month: number): number => new Date(Date.UTC(2024, month, 0)).getUTCDate();

const neverFires = ({ months, days, isAnyWeekday }: Cron): boolean =>
  isAnyWeekday && months.every((month) => (days[0] ?? 1) > daysIn(month));
