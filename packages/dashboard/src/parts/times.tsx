import { ageOf, clock } from '@muster/sdk/contract';
import { useSyncExternalStore } from 'react';
import { untilText } from './model/text.ts';

export const wholeTime = (time: string): string => new Date(time).toLocaleString();

/** `4m`, updated every second. */
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

/** `in 2h 05m 10s`, counting down. */
export function Countdown({ to }: { readonly to: string }) {
  const now = useNow();
  return (
    <time dateTime={to} title={wholeTime(to)}>
      {untilText(Date.parse(to) - now)}
    </time>
  );
}

/** One clock, updated every second, for every age on the page. */
let nowMs = Date.now();
let timer: ReturnType<typeof setInterval> | undefined;
const listeners = new Set<() => void>();

function subscribe(listener: () => void): () => void {
  // Only a stopped clock needs a new time; a new time for each listener would render every listener twice.
  if (listeners.size === 0) nowMs = Date.now();
  listeners.add(listener);
  timer ??= setInterval(() => {
    nowMs = Date.now();
    for (const notify of listeners) notify();
  }, 1000);
  return () => {
    listeners.delete(listener);
    if (listeners.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}

export const useNow = (): number => useSyncExternalStore(subscribe, () => nowMs);
