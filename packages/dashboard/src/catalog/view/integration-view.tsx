import type { Delivery, ReplyOf } from '@muster/sdk';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';
import { Button, CopyButton } from '../../parts/button.tsx';
import type { Tone } from '../../parts/model/tone.ts';
import { Mark } from '../../parts/page.tsx';
import { Problem } from '../../parts/problem.tsx';
import { Moment } from '../../parts/times.tsx';
import { useClient } from '../../session/session.ts';

/** Deliveries come from outside, so nothing reports them to the page. */
const pollMs = 3_000;
const shownDeliveries = 20;

interface IntegrationViewProps {
  readonly name: string;
  readonly webhookUrl: string;
}

/** How the integration is connected to its code host: the webhook, what the host allows, and what it delivered. */
export function IntegrationView({ name, webhookUrl }: IntegrationViewProps) {
  const client = useClient();
  const deliveries = useQuery({
    queryKey: ['deliveries', name],
    queryFn: ({ signal }) => client.listDeliveries(name, { pageSize: shownDeliveries }, { signal }),
    refetchInterval: pollMs,
  });
  const test = useQuery({
    queryKey: ['integration-test', name],
    queryFn: ({ signal }) => client.testIntegration(name, { signal }),
    // It makes calls to the host, so only a person or the first delivery repeats it.
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnWindowFocus: false,
  });
  const { refetch } = test;
  const hasDelivery = (deliveries.data?.entries.length ?? 0) > 0;
  const isWebhookTested = test.data?.checks.some((check) => check.name === 'webhook' && check.ok) ?? true;
  useEffect(() => {
    if (hasDelivery && !isWebhookTested) void refetch();
  }, [hasDelivery, isWebhookTested, refetch]);
  return (
    <div className="integration stack">
      <section aria-labelledby="integration-webhook" className="stack">
        <h2 id="integration-webhook">Webhook</h2>
        <p className="secondary">
          Add this address at the code host, with content type JSON and the signing key as its secret. The
          signing key is shown once, when it is created.
        </p>
        <p className="integration-url wrap">
          <code>{webhookUrl}</code>
          <CopyButton text={webhookUrl} what="webhook address" />
        </p>
      </section>
      <section aria-labelledby="integration-checks" className="stack">
        <header className="wrap">
          <h2 id="integration-checks">Checks</h2>
          <Button disabled={test.isFetching} onClick={() => void refetch()}>
            {test.isFetching ? 'Testing …' : 'Test'}
          </Button>
        </header>
        <Problem error={test.error} />
        <Checks reply={test.data} />
      </section>
      <section aria-labelledby="integration-deliveries" className="stack">
        <h2 id="integration-deliveries">Deliveries</h2>
        <Problem error={deliveries.error} />
        {deliveries.data && <Deliveries name={name} deliveries={deliveries.data.entries} />}
      </section>
    </div>
  );
}

function Checks({ reply }: { readonly reply: ReplyOf<'testIntegration'> | undefined }) {
  if (!reply) return <p className="secondary">Asking the code host …</p>;
  return (
    <>
      {reply.account !== '' && (
        <p className="secondary">
          Acts as <b>{reply.account}</b>
        </p>
      )}
      <ul className="integration-checks" aria-label="Checks" aria-live="polite">
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
}

const deliveryMarks: Readonly<Record<Delivery['state'], readonly [text: string, tone: Tone]>> = {
  RECEIVED: ['received', 'busy'],
  DONE: ['done', 'good'],
  IGNORED: ['ignored', 'quiet'],
  FAILED: ['failed', 'bad'],
};

function Deliveries({
  name,
  deliveries,
}: {
  readonly name: string;
  readonly deliveries: readonly Delivery[];
}) {
  const client = useClient();
  const queries = useQueryClient();
  const redeliver = useMutation({
    mutationFn: (deliveryId: string) => client.redeliver(name, deliveryId),
    onSettled: () => queries.invalidateQueries({ queryKey: ['deliveries', name] }),
  });
  if (deliveries.length === 0)
    return <p className="secondary">None yet. The first delivery appears here within seconds.</p>;
  return (
    <>
      <Problem error={redeliver.error} />
      <ul className="deliveries" aria-label="Deliveries">
        {deliveries.map(({ deliveryId, event, subject, state, reason, receivedAt }) => {
          const [text, tone] = deliveryMarks[state];
          return (
            <li key={deliveryId}>
              <Mark tone={tone}>{text}</Mark>
              <span className="delivery-event">
                {subject === '' ? event : `${event} ${subject}`}
                {reason !== '' && <span className="secondary">{reason}</span>}
              </span>
              <span className="secondary">
                <Moment at={receivedAt} />
              </span>
              <Button
                look="quiet"
                disabled={state === 'RECEIVED' || redeliver.isPending}
                aria-label={`Redeliver ${event} ${deliveryId}`}
                onClick={() => redeliver.mutate(deliveryId)}
              >
                Redeliver
              </Button>
            </li>
          );
        })}
      </ul>
    </>
  );
}
