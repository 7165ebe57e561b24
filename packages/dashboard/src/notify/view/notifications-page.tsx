import type { NotificationDelivery, PushSubscription } from '@muster/sdk';
import { agentPage } from '@muster/sdk/contract';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link } from 'wouter';
import { Button } from '../../parts/button.tsx';
import { browserName } from '../../parts/model/text.ts';
import { Mark, useTitle } from '../../parts/page.tsx';
import { Problem } from '../../parts/problem.tsx';
import { Age, Moment } from '../../parts/times.tsx';
import { useClient, useSignedIn } from '../../session/session.ts';
import { pushKey } from '../model/push.ts';
import { EmailCard } from './email-card.tsx';
import { ThisBrowser } from './this-browser.tsx';
import '../notify.css';

/** How a person is notified: in this browser, on other devices, by email, and what was sent. */
export function NotificationsPage() {
  const client = useClient();
  const { caller } = useSignedIn();
  const { data, error, refetch } = useQuery({
    queryKey: pushKey,
    queryFn: ({ signal }) => client.pushSubscriptions({ signal }),
  });
  useTitle('Notifications · Muster');
  const current = data?.subscriptions.find(({ isCurrent }) => isCurrent) ?? null;
  const others = data?.subscriptions.filter(({ isCurrent }) => !isCurrent) ?? [];
  return (
    <div className="notify-page stack">
      <header className="stack">
        <h1>Notifications</h1>
        <p className="secondary">
          For <strong>{caller.account}</strong>: when an agent asks a question, is blocked, fails or finishes.
        </p>
      </header>
      <Problem error={error}>
        <Button onClick={() => void refetch()}>Try again</Button>
      </Problem>
      {!data && !error && <p className="page-loading">Loading …</p>}
      {data && (
        <>
          <ThisBrowser key={current?.id ?? ''} current={current} />
          {others.length > 0 && <OtherDevices devices={others} />}
          <EmailCard hasMail={data.hasMail} />
          <SentLately subscriptions={data.subscriptions} />
        </>
      )}
    </div>
  );
}

const OtherDevices = ({ devices }: { readonly devices: readonly PushSubscription[] }) => (
  <section className="notify-card stack" aria-label="Other devices">
    <h2>Other devices</h2>
    <ul className="notify-list stack">
      {devices.map((device) => (
        <Device key={device.id} device={device} />
      ))}
    </ul>
  </section>
);

function Device({ device }: { readonly device: PushSubscription }) {
  const client = useClient();
  const queries = useQueryClient();
  const { mutate, error, isPending } = useMutation({
    mutationFn: () => client.unsubscribePush(device.id),
    onSuccess: () => queries.invalidateQueries({ queryKey: pushKey }),
  });
  const name = browserName(device.userAgent);
  return (
    <li>
      <div className="notify-row">
        <span>
          {name}
          <small>
            {device.scope === 'MINE' ? 'my agents' : 'all agents'}, signed in <Moment at={device.createdAt} />
          </small>
        </span>
        <Button disabled={isPending} aria-label={`Remove ${name}`} onClick={() => mutate()}>
          Remove
        </Button>
      </div>
      <Problem error={error} />
    </li>
  );
}

const mostShown = 12;

function SentLately({ subscriptions }: { readonly subscriptions: readonly PushSubscription[] }) {
  const sent = subscriptions
    .flatMap(({ recent, isCurrent, userAgent }) =>
      recent.map((delivery) => ({ delivery, to: isCurrent ? 'this browser' : browserName(userAgent) })),
    )
    .sort((a, b) => (a.delivery.at < b.delivery.at ? 1 : -1))
    .slice(0, mostShown);
  if (sent.length === 0) return null;
  return (
    <section className="notify-card stack" aria-label="Sent lately">
      <h2>Sent lately</h2>
      <ul className="notify-list stack">
        {sent.map(({ delivery, to }) => (
          <li key={`${to} ${delivery.deliveryId}`} className="notify-row">
            <span>
              <DeliveryTitle delivery={delivery} />
              <small>
                <Age since={delivery.at} /> ago, to {to}
                {delivery.error && `: ${delivery.error}`}
              </small>
            </span>
            <DeliveryState delivery={delivery} />
          </li>
        ))}
      </ul>
    </section>
  );
}

const titles: Readonly<Record<string, string>> = {
  'agent.needs_input': 'needs input',
  'agent.blocked': 'is blocked',
  'agent.budget': 'is out of budget',
  'agent.completed': 'has finished',
  'agent.failed': 'failed',
  'agent.idle': 'is idle',
  digest: 'Several at a time',
  test: 'Test',
};

function DeliveryTitle({ delivery: { agentId, type, name } }: { readonly delivery: NotificationDelivery }) {
  const title = titles[type] ?? `${name} ${type}`.trim();
  if (!agentId) return title;
  return (
    <>
      <Link href={agentPage(agentId)}>{agentId.agent.join(' / ')}</Link> {title}
    </>
  );
}

const states = {
  QUEUED: ['waiting', 'quiet'],
  SENDING: ['sending', 'quiet'],
  SENT: ['sent', 'good'],
  FAILED: ['failed', 'bad'],
  DROPPED: ['not needed', 'quiet'],
} as const;

export function DeliveryState({
  delivery: { state },
}: {
  readonly delivery: Pick<NotificationDelivery, 'state'>;
}) {
  const [title, tone] = states[state];
  return <Mark tone={tone}>{title}</Mark>;
}
