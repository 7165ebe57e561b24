import { NotFoundError, type ScheduleFire } from '@muster/sdk';
import { agentPage, pathOf } from '@muster/sdk/contract';
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link } from 'wouter';
import { Button } from '../../parts/button.tsx';
import { Empty, Mark, useTitle } from '../../parts/page.tsx';
import { Problem } from '../../parts/problem.tsx';
import { ZonedTime } from '../../parts/schedule-times.tsx';
import { useClient, useSignedIn } from '../../session/session.ts';
import { mayPause, mayRun, outcomeMark, reasonOf, type ShownSchedule, stateMark } from '../model/schedule.ts';
import { useHistory, useSchedule } from './queries.ts';

/** One schedule: when it fires, what it does, and what became of it. */
export function SchedulePage({ name }: { readonly name: string }) {
  const { data, error, refetch } = useQuery(useSchedule(name));
  useTitle(`${name} · Schedules · Muster`);
  if (error instanceof NotFoundError)
    return (
      <Empty title={`No schedule “${name}”`} isPage>
        <p>
          <Link href="/schedules">Show all schedules</Link>
        </p>
      </Empty>
    );
  if (!data)
    return error ? (
      <Problem error={error}>
        <Button onClick={() => void refetch()}>Try again</Button>
      </Problem>
    ) : (
      <p className="page-loading">Loading …</p>
    );
  return (
    <>
      <Head schedule={data} />
      <NextRuns schedule={data} />
      <History schedule={data} />
    </>
  );
}

interface ScheduleProps {
  readonly schedule: ShownSchedule;
}

function Head({ schedule }: ScheduleProps) {
  const { name, words, zone, work, pausedReason } = schedule;
  const [state, tone] = stateMark(schedule);
  return (
    <header className="stack">
      <nav className="wrap secondary" aria-label="Breadcrumb">
        <Link href="/schedules">Schedules</Link>
      </nav>
      <div className="schedules-head wrap">
        <h1>{name}</h1>
        <Mark tone={tone}>{state}</Mark>
      </div>
      <p className="schedule-words">
        {words}, {zone}
      </p>
      <p className="schedule-work">{work}</p>
      {pausedReason !== '' && (
        <p className="schedule-reason" role="status">
          The service paused it: {pausedReason}
        </p>
      )}
      <Actions schedule={schedule} />
    </header>
  );
}

function Actions({ schedule }: ScheduleProps) {
  const client = useClient();
  const { caller } = useSignedIn();
  const queries = useQueryClient();
  const { name, isPaused } = schedule;
  const onSettled = () => queries.invalidateQueries({ queryKey: ['schedules'] });
  const run = useMutation({ mutationFn: () => client.schedules.run(name), onSettled });
  const pause = useMutation({
    mutationFn: (paused: boolean) =>
      client.catalog.write('schedule', name, { paused }, { updateMask: 'paused' }),
    onSettled,
  });
  const isPending = run.isPending || pause.isPending;
  return (
    <>
      <div className="wrap">
        {mayRun(caller, schedule) && (
          <Button look="primary" disabled={isPending} onClick={() => run.mutate()}>
            {run.isPending ? 'Running …' : 'Run now'}
          </Button>
        )}
        {mayPause(caller, schedule) && (
          <Button disabled={isPending} onClick={() => pause.mutate(!isPaused)}>
            {isPaused ? 'Resume' : 'Pause'}
          </Button>
        )}
        <Link className="button button-plain" href={`/catalog/schedule/${encodeURIComponent(name)}`}>
          Edit
        </Link>
      </div>
      <Problem error={run.error ?? pause.error} />
      <p className="secondary" role="status">
        {run.data && <Result fire={run.data} />}
      </p>
    </>
  );
}

const Result = ({ fire }: { readonly fire: ScheduleFire }) =>
  fire.agentId ? (
    <>
      {fire.followUpId ? 'Message sent to ' : 'Spawned '}
      <Link href={agentPage(fire.agentId)}>{pathOf(fire.agentId)}</Link>
    </>
  ) : (
    <>Not fired: {fire.reason}</>
  );

const NextRuns = ({ schedule: { nextRuns, zone, isPaused } }: ScheduleProps) => (
  <section className="stack" aria-labelledby="next-runs">
    <h2 id="next-runs">Next runs</h2>
    {nextRuns.length === 0 ? (
      <p className="secondary">{isPaused ? 'None while it is paused.' : 'None.'}</p>
    ) : (
      <ol className="schedule-times">
        {nextRuns.map((at) => (
          <li key={at}>
            <ZonedTime at={at} zone={zone} />
          </li>
        ))}
      </ol>
    )}
  </section>
);

function History({ schedule: { name, zone } }: ScheduleProps) {
  const { data, error, hasNextPage, fetchNextPage, isFetchingNextPage } = useInfiniteQuery(useHistory(name));
  const entries = data?.pages.flatMap((page) => page.entries);
  return (
    <section className="stack" aria-labelledby="schedule-history">
      <h2 id="schedule-history">History</h2>
      <Problem error={error} />
      {entries?.length === 0 && <p className="secondary">It has not fired yet.</p>}
      {entries && entries.length > 0 && (
        <ul className="schedule-history" aria-label="History">
          {entries.map((fire) => (
            <Fire key={`${fire.scheduledAt} ${fire.at}`} {...{ fire, zone }} />
          ))}
        </ul>
      )}
      {hasNextPage && (
        <p>
          <Button disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>
            {isFetchingNextPage ? 'Loading …' : 'Show older entries'}
          </Button>
        </p>
      )}
    </section>
  );
}

function Fire({ fire, zone }: { readonly fire: ScheduleFire; readonly zone: string }) {
  const [text, tone] = outcomeMark(fire);
  const reason = reasonOf(fire);
  return (
    <li>
      <Mark tone={tone}>{text}</Mark>
      <span className="schedule-fire">
        <ZonedTime at={fire.scheduledAt} zone={zone} />
        {reason !== '' && <span className="secondary">{reason}</span>}
      </span>
      {fire.agentId && <Link href={agentPage(fire.agentId)}>{pathOf(fire.agentId)}</Link>}
    </li>
  );
}
