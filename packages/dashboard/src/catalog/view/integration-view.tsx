import { CopyButton } from '../../parts/button.tsx';
import { useClient } from '../../session/session.ts';
import { ChecksSection, DeliveriesSection, shownDeliveries, useDeliveries } from './deliveries.tsx';

interface IntegrationViewProps {
  readonly name: string;
  readonly webhookUrl: string;
}

/** How the integration is connected to its code host: the webhook, what the host allows, and what it delivered. */
export function IntegrationView({ name, webhookUrl }: IntegrationViewProps) {
  const client = useClient();
  const id = `integration/${name}`;
  const deliveries = useDeliveries(id, (signal) =>
    client.listDeliveries(name, { pageSize: shownDeliveries }, { signal }),
  );
  return (
    <div className="connection stack">
      <section aria-labelledby="connection-address" className="stack">
        <h2 id="connection-address">Webhook</h2>
        <p className="secondary">
          Add this address at the code host, with content type JSON and the signing key as its secret. The
          signing key is shown once, when it is created.
        </p>
        <p className="connection-url wrap">
          <code>{webhookUrl}</code>
          <CopyButton text={webhookUrl} what="webhook address" />
        </p>
      </section>
      <ChecksSection
        id={id}
        test={(signal) => client.testIntegration(name, { signal })}
        waiting="Asking the code host …"
        first="webhook"
        hasDelivery={(deliveries.data?.entries.length ?? 0) > 0}
      />
      <DeliveriesSection
        {...{ id, deliveries }}
        title="Deliveries"
        redeliver={(deliveryId) => client.redeliver(name, deliveryId)}
        subjectOf={({ event, subject }) => (subject === '' ? event : `${event} ${subject}`)}
      />
    </div>
  );
}
