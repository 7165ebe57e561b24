import { cronInWords, nextTimes, parseCron, timeInZone } from '@muster/sdk/contract';

const timeLength = '07:00'.length;

/** A time by the clocks of the schedule and, where they differ, by those of the reader. */
export function ZonedTime({ at, zone }: { readonly at: string; readonly zone: string }) {
  const [whole, there] = [timeInZone(at), timeInZone(at, zone)];
  const day = there.slice(0, -timeLength);
  const here = whole.startsWith(day) ? whole.slice(-timeLength) : whole;
  return (
    <time dateTime={at}>
      {there}
      {whole !== there && <span className="secondary"> · {here} here</span>}
    </time>
  );
}

const shownTimes = 5;

/** What an expression means, and the next times by it; or what is wrong with it. */
export function CronPreview({ cron, zone }: { readonly cron: string; readonly zone: string }) {
  const parsed = parseCron(cron);
  if (cron === '') return null;
  if (typeof parsed === 'string') return <p className="secondary">cron {parsed}</p>;
  const times = nextTimes(parsed, zone, Date.now(), shownTimes);
  return (
    <>
      <p>
        {cronInWords(cron)}, {zone}
      </p>
      <ol aria-label="Next times">
        {times.map((ms) => (
          <li key={ms}>
            <ZonedTime at={new Date(ms).toISOString()} zone={zone} />
          </li>
        ))}
      </ol>
    </>
  );
}
