import type { AgentId, AgentStatus } from '@muster/sdk';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { Panel } from '../agent/panels/panel.tsx';
import { Button } from '../parts/button.tsx';
import { OneTimeSecret } from '../parts/dialog.tsx';
import { ExpiryField, Field } from '../parts/field.tsx';
import { expiresAt, expiryInDays } from '../parts/model/expiry.ts';
import { Problem } from '../parts/problem.tsx';
import { Age, Countdown, useNow } from '../parts/times.tsx';
import { useClient, useSignedIn } from '../session/use-session.ts';
import { makeShareLink, type ShareLink, shareLinksKey, shareLinksOf } from './share-links.ts';
import './share-panel.css';

/** Links by which somebody without a key may look at this agent, and at nothing else. */
export const SharePanel = ({ status }: { readonly status: AgentStatus }) => (
  <Panel title="Share">
    <Sharing agentId={status.agentId} bornAt={status.createdAt} />
  </Panel>
);

function Sharing({ agentId, bornAt }: { readonly agentId: AgentId; readonly bornAt: string }) {
  const client = useClient();
  const { caller } = useSignedIn();
  const [reason, setReason] = useState('');
  const links = useQuery({
    queryKey: shareLinksKey(agentId),
    queryFn: ({ signal }) => shareLinksOf(client, agentId, signal),
  });
  return (
    <>
      <p className="panel-empty">
        A link shows this agent, live and read-only, to whoever has it. It needs no key and shows nothing
        else.
      </p>
      {caller.role === 'operator' && (
        <Field label="Reason" hint="Of an operator the service asks for one. It goes on record.">
          {(attributes) => (
            <input {...attributes} value={reason} onChange={(event) => setReason(event.target.value)} />
          )}
        </Field>
      )}
      <NewLink agentId={agentId} reason={reason} />
      <Problem error={links.error} />
      {links.data && <Links links={links.data} agentId={agentId} bornAt={bornAt} reason={reason} />}
    </>
  );
}

function NewLink({ agentId, reason }: { readonly agentId: AgentId; readonly reason: string }) {
  const client = useClient();
  const queryClient = useQueryClient();
  const [expiry, setExpiry] = useState(expiryInDays(1));
  const { mutate, data, error, isPending, reset } = useMutation({
    mutationFn: (end: string | null) => makeShareLink(client, agentId, end, reason),
    onSuccess: () => queryClient.invalidateQueries({ queryKey: shareLinksKey(agentId) }),
    // The address is nowhere but on the page.
    gcTime: 0,
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const end = expiresAt(expiry);
    if (end !== undefined) mutate(end);
  };
  return (
    <>
      <form className="share-form" onSubmit={submit}>
        <ExpiryField value={expiry} onChange={setExpiry} />
        <Button type="submit" look="primary" disabled={isPending || expiresAt(expiry) === undefined}>
          {isPending ? 'Making it …' : 'Make a link'}
        </Button>
        <Problem error={error} />
      </form>
      {data !== undefined && (
        <OneTimeSecret title="A link to this agent" label="Link" secret={data} onClose={reset} />
      )}
    </>
  );
}

interface LinksProps {
  readonly agentId: AgentId;
  readonly bornAt: string;
  readonly reason: string;
}

function Links({ links, ...rest }: LinksProps & { readonly links: readonly ShareLink[] }) {
  if (links.length === 0) return <p className="panel-empty">Nobody has a link to this agent.</p>;
  return (
    <ul className="share-links" aria-label="Links to this agent">
      {links.map((link) => (
        <LinkRow key={link.name} link={link} {...rest} />
      ))}
    </ul>
  );
}

function LinkRow({ link, agentId, bornAt, reason }: LinksProps & { readonly link: ShareLink }) {
  const client = useClient();
  const queryClient = useQueryClient();
  const { name, generation, createdAt, createdBy } = link;
  const { mutate, error, isPending } = useMutation({
    mutationFn: () =>
      client.catalog.delete('share-link', name, {
        tenant: agentId.tenant,
        ifGenerationMatch: generation,
        justification: reason,
      }),
    onSuccess: () => queryClient.invalidateQueries({ queryKey: shareLinksKey(agentId) }),
  });
  return (
    <li>
      <div className="panel-row">
        <span>
          <code>{name}</code>
          <small>
            <End of={link} /> · by {createdBy.split('/').at(-1)}, <Age since={createdAt} /> ago
          </small>
          {createdAt < bornAt && (
            <small>Older than this agent: it may show one that had the name before.</small>
          )}
        </span>
        <Button disabled={isPending} onClick={() => mutate()} aria-label={`Revoke ${name}`}>
          Revoke
        </Button>
      </div>
      <Problem error={error} />
    </li>
  );
}

function End({ of: { expiresAt: end } }: { readonly of: ShareLink }) {
  const now = useNow();
  if (end === null) return 'until it is revoked';
  if (Date.parse(end) <= now) return <span className="share-over">expired</span>;
  return (
    <>
      ends <Countdown to={end} />
    </>
  );
}
