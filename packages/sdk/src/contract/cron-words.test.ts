import { expect, test } from 'vitest';
import { cronInWords } from './cron-words.ts';

test.each([
  ['0 7 * * 1-5', 'Every weekday at 07:00'],
  ['0 7 * * MON-FRI', 'Every weekday at 07:00'],
  ['30 9,17 * * *', 'Every day at 09:30 and 17:30'],
  ['0 8 * * 1', 'Every Monday at 08:00'],
  ['0 8 * * 0,3', 'Every Wednesday and Sunday at 08:00'],
  ['0 8 * * 6-7', 'Every Saturday and Sunday at 08:00'],
  ['0 0 1 * *', 'On day 1 of every month at 00:00'],
  ['0 0 1,15 1,7 *', 'On day 1 and 15 of January and July at 00:00'],
  ['0 0 13 * 5', 'On day 13 of every month, and every Friday at 00:00'],
  ['* * * * *', 'Every minute'],
  ['*/5 * * * *', 'Every 5 minutes'],
  ['0 * * * *', 'Every hour'],
  ['30 * * * *', 'Every hour at minute 30'],
  ['5,35 * * * *', 'Every hour at the minutes 5 and 35'],
  ['*/7 * * * *', 'Every hour at the minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56'],
  ['*/15 9-17 * * 1-5', 'Every weekday, every 15 minutes from 09:00 to 17:45'],
  ['0 0-23 * * *', 'Every hour'],
  ['0 */3 * * *', 'Every 3 hours'],
  ['5 */2 * * *', 'Every 2 hours at minute 5'],
  ['0 1-5,7,9,11 * * *', 'Every hour in the hours 1 to 5, 7, 9 and 11'],
  ['0 6 * 3 *', 'Every day in March at 06:00'],
  ['nonsense', ''],
])('%s: %s', (expression, words) => {
  expect(cronInWords(expression)).toBe(words);
});
