import { describe, expect, test } from 'vitest';
import { cronProblem, parseCron } from './cron.ts';

describe('an expression', () => {
  test.each([
    ['', 'must have five fields'],
    ['* * * *', 'must have five fields'],
    ['* * * * * *', 'must have five fields'],
    ['@daily', 'must have five fields'],
    ['60 * * * *', 'minute: must be from 0 to 59'],
    ['* 24 * * *', 'hour: must be from 0 to 23'],
    ['* * 0 * *', 'day of the month: must be from 1 to 31'],
    ['* * * 13 *', 'month: must be from 1 to 12 or a name such as feb'],
    ['* * * * 8', 'day of the week: must be from 0 to 7 or a name such as mon'],
    ['* * * * xyz', 'day of the week: must be from 0 to 7'],
    ['5-1 * * * *', 'minute: a range must go up'],
    ['0/5 * * * *', 'minute: a step needs * or a range, such as 0-59/5'],
    ['*/0 * * * *', 'minute: a step must be at least 1'],
    ['1,,2 * * * *', 'minute: must be *, a value'],
    ['0 0 L * *', 'day of the month: must be from 1 to 31'],
    ['0 0 ? * *', 'day of the month: must be *, a value'],
    ['0 0 30 2 *', 'never fires'],
    ['0 0 31 2,4,6,9,11 *', 'never fires'],
    [`0 0 ${'1,'.repeat(200)}1 * *`, 'must have five fields'],
  ])('%s: %s', (expression, problem) => {
    expect(cronProblem(expression)).toContain(problem);
    expect(cronProblem(expression)?.length).toBeLessThan(300);
  });

  test.each(['0 0 29 2 *', '0 0 30 2 1', '  5   4 * JAN-mar sun ', '0 0 * * fri-sun', '*/70 1-2/3 31 1 7'])(
    '%s is one',
    (expression) => {
      expect(cronProblem(expression)).toBeNull();
    },
  );

  test('names and 7 are numbers', () => {
    expect(parseCron('0 0 1 feb,Dec fri-sun')).toMatchObject({ months: [2, 12], weekdays: [0, 5, 6] });
    expect(parseCron('0 0 * * 7')).toMatchObject({ weekdays: [0], isAnyDay: true, isAnyWeekday: false });
  });
});
