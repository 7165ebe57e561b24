import type { Delivery, NotificationDelivery, ReplyOf } from '@muster/sdk';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type ReactNode, useEffect } from 'react';
import { Button } from '../../parts/button.tsx';
import type { Tone } from '../../parts/model/tone.ts';
import { Mark } from '../../parts/page.tsx';
import { Problem } from '../../parts/problem.tsx';
import { Moment } from '../../parts/times.tsx';

/** Deliveries come from outside, so nothing reports them to the page. */
const pollMs = 3_000;
export const shownDeliveries = 20;

type Tested = Pick<ReplyOf<'testIntegration'>, 'checks'> & { readonly account?: string };

interface ChecksProps {
  /** `integration/NAME`. */
  readonly id: string;
  readonly test: (signal: AbortSignal) => Promise<Tested>;
  readonly waiting: string;
  /** The check that the first delivery passes, and whether one has arrived. */
  readonly first?: string;
  readonly hasDelivery?: boolean;
}

/** What the service has checked, again when a person asks or the first delivery arrives. */
export function ChecksSection({ id, test: ask, waiting, first, hasDelivery = false }: ChecksProps) {
  const test = useQuery({
    queryKey: ['delivery-test', id],
    queryFn: ({ signal }) => ask(signal),
    // It may make calls to others, so only a person or the first delivery repeats it.
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnWindowFocus: false,
  });
  const { refetch, data } = test;
  const isTested = data?.checks.some((check) => check.name === first && check.ok) ?? true;
  useEffect(() => {
    if (hasDelivery && !isTested) void refetch();
  }, [hasDelivery, isTested, refetch]);
  return (
    <section aria-labelledby="delivery-checks" className="stack">
      <header className="wrap">
        <h2 id="delivery-checks">Checks</h2>
        <Button disabled={test.isFetching} onClick={() => void refetch()}>
          {test.isFetching ? 'Testing …' : 'Test'}
        </Button>
      </header>
      <Problem error={test.error} />
      {data ? <Checks reply={data} /> : <p className="secondary">{waiting}</p>}
    </section>
  );
}

const Checks = ({ reply }: { readonly reply: Tested }) => (
  <>
    {reply.account && (
      <p className="secondary">
        Acts as <b>{reply.account}</b>
      </p>
    )}
    <ul className="delivery-checks" aria-label="Checks" aria-live="polite">
      {reply.checks.map((check) => (
        <li key={check.name}>
          <Mark tone={check.ok ? 'good' : 'bad'}>{check.ok ? 'ok' : 'missing'}</Mark>
          <span>
            {check.name}
            {check.advice !== '' && <span className="secondary">{check.advice}</span>}
          </span>
        </li>
      ))}
    </ul>
  </>
);

/** A delivery that was received or sent. */
export interface ListedDelivery extends Pick<Delivery, 'deliveryId' | 'event' | 'reason' | 'receivedAt'> {
  readonly state: Delivery['state'] | NotificationDelivery['state'];
}

const deliveryMarks: Readonly<Record<ListedDelivery['state'], readonly [text: string, tone: Tone]>> = {
  RECEIVED: ['received', 'busy'],
  DONE: ['done', 'good'],
  IGNORED: ['ignored', 'quiet'],
  FAILED: ['failed', 'bad'],
  QUEUED: ['queued', 'busy'],
  SENDING: ['sending', 'busy'],
  SENT: ['sent', 'good'],
  DROPPED: ['dropped', 'quiet'],
};

/** The newest deliveries; they are read again every few seconds. */
export const useDeliveries = <D extends ListedDelivery>(
  id: string,
  list: (signal: AbortSignal) => Promise<{ readonly entries: readonly D[] }>,
) =>
  useQuery({
    queryKey: ['deliveries', id],
    queryFn: ({ signal }) => list(signal),
    refetchInterval: pollMs,
  });

interface DeliveriesProps<D extends ListedDelivery> {
  readonly id: string;
  readonly title: string;
  readonly deliveries: ReturnType<typeof useDeliveries<D>>;
  readonly redeliver: (deliveryId: string) => Promise<unknown>;
  /** What it was about, or led to. */
  readonly subjectOf: (delivery: D) => ReactNode;
}

export function DeliveriesSection<D extends ListedDelivery>(props: DeliveriesProps<D>) {
  const { id, title, deliveries, subjectOf } = props;
  const queries = useQueryClient();
  const redeliver = useMutation({
    mutationFn: props.redeliver,
    onSettled: () => queries.invalidateQueries({ queryKey: ['deliveries', id] }),
  });
  const entries = deliveries.data?.entries;
  return (
    <section aria-labelledby="deliveries" className="stack">
      <h2 id="deliveries">{title}</h2>
      <Problem error={deliveries.error ?? redeliver.error} />
      {entries?.length === 0 && (
        <p className="secondary">None yet. The first one appears here within seconds.</p>
      )}
      {entries !== undefined && entries.length > 0 && (
        <ul aria-label={title}>
          {entries.map((delivery) => {
            const { deliveryId, event, state, reason, receivedAt } = delivery;
            const [text, tone] = deliveryMarks[state];
            return (
              <li key={deliveryId}>
                <Mark tone={tone}>{text}</Mark>
                <span className="delivery-event">
                  {subjectOf(delivery)}
                  {reason !== '' && <span className="secondary">{reason}</span>}
                </span>
                <span className="secondary">
                  <Moment at={receivedAt} />
                </span>
                <Button
                  look="quiet"
                  disabled={state === 'RECEIVED' || redeliver.isPending}
                  aria-label={['Redeliver', event, deliveryId].filter(Boolean).join(' ')}
                  onClick={() => redeliver.mutate(deliveryId)}
                >
                  Redeliver
                </Button>
              </li>
            );
          })}
        </ul>
      )}
    </section>
  );
}
