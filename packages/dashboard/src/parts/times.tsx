import { ageOf, clock } from '@muster/sdk/contract';
import { durationWords } from './duration.ts';
import { useNow } from './now.ts';

export const wholeTime = (time: string): string => new Date(time).toLocaleString();

/** `4m`, and it grows while one looks. */
export function Age({ since }: { readonly since: string }) {
  const now = useNow();
  return (
    <time dateTime={since} title={wholeTime(since)}>
      {ageOf(since, now)}
    </time>
  );
}

/** The time of day, or the date. */
export const Moment = ({ at }: { readonly at: string }) => (
  <time dateTime={at} title={wholeTime(at)}>
    {clock(at)}
  </time>
);

/** How long until then: `in 2h 05m 10s`, counting down. */
export function Countdown({ to }: { readonly to: string }) {
  const now = useNow();
  return (
    <time dateTime={to} title={wholeTime(to)}>
      {untilWords(Date.parse(to) - now)}
    </time>
  );
}

export const untilWords = (ms: number): string =>
  ms <= 0 ? 'now' : `in ${durationWords(Math.ceil(ms / 1000) * 1000)}`;
