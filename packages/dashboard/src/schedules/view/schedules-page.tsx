import { useQuery } from '@tanstack/react-query';
import { Link, useParams } from 'wouter';
import { Button } from '../../parts/button.tsx';
import { Empty, Mark, useTitle } from '../../parts/page.tsx';
import { Problem } from '../../parts/problem.tsx';
import { ZonedTime } from '../../parts/schedule-times.tsx';
import { Age } from '../../parts/times.tsx';
import { outcomeMark, type ShownSchedule, stateMark } from '../model/schedule.ts';
import { useSchedules } from './queries.ts';
import { SchedulePage } from './schedule-page.tsx';
import '../schedules.css';

/** All schedules; or one of them, with its history. */
export function SchedulesPage() {
  const { name } = useParams();
  return (
    <div className="schedules-page stack">
      {name === undefined ? <ScheduleList /> : <SchedulePage key={name} name={name} />}
    </div>
  );
}

function ScheduleList() {
  const { data, error, refetch } = useQuery(useSchedules());
  useTitle('Schedules · Muster');
  return (
    <>
      <header className="schedules-head wrap">
        <h1>Schedules</h1>
        <Link className="button button-plain" href="/catalog/schedule">
          Edit in the catalog
        </Link>
      </header>
      <Problem error={error}>
        <Button onClick={() => void refetch()}>Try again</Button>
      </Problem>
      {!data && !error && <p className="page-loading">Loading …</p>}
      {data?.length === 0 && (
        <Empty title="No schedules">
          <p>A schedule sends a message to an agent, or spawns one, at certain times.</p>
          <p>
            <Link href="/catalog/schedule">Create one in the catalog</Link>
          </p>
        </Empty>
      )}
      {data && data.length > 0 && (
        <ul className="schedules stack" aria-label="Schedules">
          {data.map((schedule) => (
            <Entry key={schedule.name} schedule={schedule} />
          ))}
        </ul>
      )}
    </>
  );
}

function Entry({ schedule }: { readonly schedule: ShownSchedule }) {
  const { name, words, zone, work, nextRuns, pausedReason } = schedule;
  const [state, tone] = stateMark(schedule);
  const [next] = nextRuns;
  return (
    <li className="schedule stack">
      <header className="schedules-head wrap">
        <h2>
          <Link href={`/schedules/${encodeURIComponent(name)}`}>{name}</Link>
        </h2>
        <Mark tone={tone} title={pausedReason}>
          {state}
        </Mark>
        <LastRun schedule={schedule} />
      </header>
      <p>
        {words}, {zone}
      </p>
      <p className="schedule-work secondary">{work}</p>
      {pausedReason !== '' && <p className="schedule-reason">{pausedReason}</p>}
      {next !== undefined && (
        <p>
          Next: <ZonedTime at={next} zone={zone} />
        </p>
      )}
    </li>
  );
}

function LastRun({ schedule: { lastRun } }: { readonly schedule: ShownSchedule }) {
  if (lastRun === null) return <span className="schedule-last secondary">has not fired yet</span>;
  const [text, tone] = outcomeMark(lastRun);
  return (
    <span className="schedule-last secondary">
      <Mark tone={tone} title={lastRun.reason}>
        {text}
      </Mark>{' '}
      <Age since={lastRun.at} /> ago
    </span>
  );
}
