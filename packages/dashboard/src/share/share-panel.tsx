import type { AgentId, AgentStatus } from '@muster/sdk';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { Panel } from '../agent/panels/view/panel.tsx';
import { Button } from '../parts/button.tsx';
import { Dialog, OneTimeSecret } from '../parts/dialog.tsx';
import { ExpiryField, TextField } from '../parts/field.tsx';
import { expiresAt, expiryInDays } from '../parts/model/expiry.ts';
import { Problem } from '../parts/problem.tsx';
import { Age, Countdown, useNow } from '../parts/times.tsx';
import { useClient, useSignedIn } from '../session/session.ts';
import { createShareLink, type ShareLink, shareLinksKey, shareLinksOf } from './share-links.ts';
import './share.css';

/** How often the panel looks who has opened a link. */
const lookMs = 30_000;

/** Links that give people without a key read-only access to this agent. */
export const SharePanel = ({ status }: { readonly status: AgentStatus }) => (
  <Panel title="Share">
    <Sharing agentId={status.agentId} agentCreatedAt={status.createdAt} />
  </Panel>
);

export const ShareDialog = ({
  status,
  onClose,
}: {
  readonly status: AgentStatus;
  readonly onClose: () => void;
}) => (
  <Dialog title="Share" onClose={onClose}>
    <Sharing agentId={status.agentId} agentCreatedAt={status.createdAt} />
  </Dialog>
);

function Sharing({
  agentId,
  agentCreatedAt,
}: {
  readonly agentId: AgentId;
  readonly agentCreatedAt: string;
}) {
  const client = useClient();
  const { caller } = useSignedIn();
  const [reason, setReason] = useState('');
  const links = useQuery({
    queryKey: shareLinksKey(agentId),
    queryFn: ({ signal }) => shareLinksOf(client, agentId, signal),
    refetchInterval: lookMs,
  });
  return (
    <>
      <p className="secondary">
        Anyone with a link sees this agent live, without a key. Read-only access; no other agent is visible.
      </p>
      {caller.role === 'operator' && (
        <TextField
          label="Reason"
          hint="Required for operators. It is recorded in the history."
          value={reason}
          onChange={setReason}
        />
      )}
      <NewLink agentId={agentId} reason={reason} />
      <Problem error={links.error} />
      {links.data && (
        <Links links={links.data} agentId={agentId} agentCreatedAt={agentCreatedAt} reason={reason} />
      )}
    </>
  );
}

function NewLink({ agentId, reason }: { readonly agentId: AgentId; readonly reason: string }) {
  const client = useClient();
  const queryClient = useQueryClient();
  const [expiry, setExpiry] = useState(expiryInDays(1));
  const { mutate, data, error, isPending, reset } = useMutation({
    mutationFn: (end: string | null) => createShareLink(client, agentId, end, reason),
    onSuccess: () => queryClient.invalidateQueries({ queryKey: shareLinksKey(agentId) }),
    // The URL is a secret: keep it on the page only.
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
          {isPending ? 'Creating …' : 'Create link'}
        </Button>
        <Problem error={error} />
      </form>
      {data !== undefined && <OneTimeSecret title="Share link" label="Link" secret={data} onClose={reset} />}
    </>
  );
}

interface LinksProps {
  readonly agentId: AgentId;
  readonly agentCreatedAt: string;
  readonly reason: string;
}

function Links({ links, ...rest }: LinksProps & { readonly links: readonly ShareLink[] }) {
  if (links.length === 0) return <p className="secondary">No links yet.</p>;
  return (
    <ul className="share-links" aria-label="Links to this agent">
      {links.map((link) => (
        <LinkRow key={link.name} link={link} {...rest} />
      ))}
    </ul>
  );
}

function LinkRow({ link, agentId, agentCreatedAt, reason }: LinksProps & { readonly link: ShareLink }) {
  const client = useClient();
  const queryClient = useQueryClient();
  const { name, generation, createdAt, createdBy, opens, openedAt } = link;
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
            <LinkExpiry link={link} /> · by {createdBy.split('/').at(-1)}, <Age since={createdAt} /> ago
          </small>
          <small>
            {openedAt === null ? (
              'Not opened yet'
            ) : (
              <>
                Opened {opens === 1 ? 'once' : `${opens} times`}, last <Age since={openedAt} /> ago
              </>
            )}
          </small>
          {createdAt < agentCreatedAt && (
            <small>Created before this agent. It may show an earlier agent with the same name.</small>
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

function LinkExpiry({ link: { expiresAt: end } }: { readonly link: ShareLink }) {
  const now = useNow();
  if (end === null) return 'never expires';
  if (Date.parse(end) <= now) return <span className="share-expired">expired</span>;
  return (
    <>
      expires <Countdown to={end} />
    </>
  );
}
