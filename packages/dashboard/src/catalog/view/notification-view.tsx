import type { NotificationDelivery } from '@muster/sdk';
import { agentPage, pathOf } from '@muster/sdk/contract';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { Link } from 'wouter';
import { Button } from '../../parts/button.tsx';
import { Mark } from '../../parts/page.tsx';
import { Problem } from '../../parts/problem.tsx';
import { useClient } from '../../session/session.ts';
import { DeliveriesSection, shownDeliveries, useDeliveries } from './deliveries.tsx';

/** What a notification sent, and whether a test message arrives. */
export function NotificationView({ name }: { readonly name: string }) {
  const client = useClient();
  const id = `notification/${name}`;
  const deliveries = useDeliveries(id, async (signal) => {
    const { entries } = await client.notifications.listDeliveries(
      name,
      { pageSize: shownDeliveries },
      { signal },
    );
    return { entries: entries.map(listed) };
  });
  return (
    <div className="connection stack">
      <TestSection {...{ id, name }} />
      <DeliveriesSection
        {...{ id, deliveries }}
        title="Messages"
        redeliver={(deliveryId) => client.notifications.redeliver(name, deliveryId)}
        subjectOf={({ event, agentId, name: about }) => (
          <>
            {event} {agentId ? <Link href={agentPage(agentId)}>{pathOf(agentId)}</Link> : about}
          </>
        )}
      />
    </div>
  );
}

const listed = (delivery: NotificationDelivery) => ({
  ...delivery,
  event: delivery.type,
  reason: delivery.error,
  receivedAt: delivery.at,
});

function TestSection({ id, name }: { readonly id: string; readonly name: string }) {
  const client = useClient();
  const queries = useQueryClient();
  const test = useMutation({
    mutationFn: () => client.notifications.test(name),
    onSettled: () => queries.invalidateQueries({ queryKey: ['deliveries', id] }),
  });
  return (
    <section aria-labelledby="notification-test" className="stack">
      <header className="wrap">
        <h2 id="notification-test">Test</h2>
        <Button disabled={test.isPending} onClick={() => test.mutate()}>
          {test.isPending ? 'Sending …' : 'Send test message'}
        </Button>
      </header>
      <Problem error={test.error} />
      <p className="secondary" role="status">
        {test.data ? (
          <>
            <Mark tone={test.data.state === 'SENT' ? 'good' : 'bad'}>{test.data.state.toLowerCase()}</Mark>{' '}
            {test.data.error}
          </>
        ) : (
          'Sends a message now and shows whether it arrived.'
        )}
      </p>
    </section>
  );
}
