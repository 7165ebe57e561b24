import type { TriggerDelivery } from '@muster/sdk';
import { agentPage, type TriggerDocument } from '@muster/sdk/contract';
import { Link } from 'wouter';
import { CopyButton } from '../../parts/button.tsx';
import { useClient } from '../../session/session.ts';
import { requestCommands } from '../model/curl.ts';
import { ChecksSection, DeliveriesSection, shownDeliveries, useDeliveries } from './deliveries.tsx';

interface TriggerViewProps {
  readonly name: string;
  readonly url: string;
  readonly document: TriggerDocument;
}

/** How to send requests to a trigger, whether it has what it needs, and what became of the last requests. */
export function TriggerView({ name, url, document }: TriggerViewProps) {
  const client = useClient();
  const id = `trigger/${name}`;
  const deliveries = useDeliveries(id, (signal) =>
    client.triggers.listDeliveries(name, { pageSize: shownDeliveries }, { signal }),
  );
  return (
    <div className="connection stack">
      <section aria-labelledby="connection-address" className="stack">
        <h2 id="connection-address">Address</h2>
        <p className="connection-url wrap">
          <code>{url}</code>
          <CopyButton text={url} what="address" />
        </p>
        <p className="secondary">{howToSign(document)}</p>
      </section>
      <RequestExample
        {...{ url, document }}
        secret={document.webhookSecret ? 'the key of the sender' : 'whsec_…'}
      />
      <ChecksSection
        id={id}
        test={(signal) => client.triggers.test(name, { signal })}
        waiting="Checking …"
        first="request"
        hasDelivery={(deliveries.data?.entries.length ?? 0) > 0}
      />
      <DeliveriesSection
        {...{ id, deliveries }}
        title="Requests"
        redeliver={(deliveryId) => client.triggers.redeliver(name, deliveryId)}
        subjectOf={resultOf}
      />
    </div>
  );
}

interface RequestExampleProps extends Omit<TriggerViewProps, 'name'> {
  readonly secret: string;
}

/** Commands that send a request, to copy. */
export function RequestExample({ url, document, secret }: RequestExampleProps) {
  const commands = requestCommands(url, document, secret);
  return (
    <section aria-labelledby="request-example" className="stack">
      <header className="wrap">
        <h2 id="request-example">Send a request</h2>
        <CopyButton text={commands} what="commands" />
      </header>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls */}
      <pre className="request-example" tabIndex={0}>
        {commands}
      </pre>
    </section>
  );
}

function howToSign({ auth = 'standard-webhooks', signatureHeader, webhookSecret }: TriggerDocument): string {
  const key = webhookSecret ? `the value of the secret ${webhookSecret.fromSecret}` : 'its secret';
  if (auth === 'bearer') return `Requests carry ${key} in the header ${signatureHeader || 'authorization'}.`;
  if (auth === 'hmac-sha256')
    return `Requests carry an HMAC-SHA256 of the body with ${key} in the header ${signatureHeader || 'x-hub-signature-256'}.`;
  return `Requests are signed with ${key} as Standard Webhooks describes it.`;
}

function resultOf({ event, deliveryId, subject, agentId }: TriggerDelivery) {
  const what = event || deliveryId.slice(0, 24);
  if (subject === '') return what;
  return (
    <>
      {what} → {agentId ? <Link href={agentPage(agentId)}>{subject}</Link> : subject}
    </>
  );
}
