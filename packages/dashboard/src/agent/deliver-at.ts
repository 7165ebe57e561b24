const two = (value: number): string => String(value).padStart(2, '0');

/** A time as `<input type="datetime-local">` takes it; a begun minute counts as whole, so it is never earlier. */
export function localMinute(time: Date): string {
  const at = new Date(Math.ceil(time.getTime() / 60_000) * 60_000);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}T${two(at.getHours())}:${two(at.getMinutes())}`;
}

const inMinutes = (minutes: number) => (now: Date) => new Date(now.getTime() + minutes * 60_000);

function tomorrowMorning(now: Date): Date {
  const at = new Date(now);
  at.setDate(at.getDate() + 1);
  at.setHours(9, 0, 0, 0);
  return at;
}

/** Times that one often means. */
export const quickTimes: readonly (readonly [words: string, of: (now: Date) => Date])[] = [
  ['In 10 minutes', inMinutes(10)],
  ['In 1 hour', inMinutes(60)],
  ['Tomorrow 9:00', tomorrowMorning],
];
