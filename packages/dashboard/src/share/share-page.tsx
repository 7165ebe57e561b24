import {
  type AgentId,
  type Caller,
  type MusterClient,
  NotFoundError,
  PermissionDeniedError,
  UnauthenticatedError,
} from '@muster/sdk';
import { agentPage } from '@muster/sdk/contract';
import { QueryClientProvider, useQuery, useQueryClient } from '@tanstack/react-query';
import { useMemo } from 'react';
import { statusKey } from '../agent/use-status.ts';
import { queryClientFor } from '../live/query-client.ts';
import { Button } from '../parts/button.tsx';
import { Problem } from '../parts/problem.tsx';
import { clientFor } from '../session/session.ts';
import { SignedInContext } from '../session/use-session.ts';
import { useShareKey } from './share-key.ts';
import { ShareNotice } from './share-notice.tsx';
import { SharedAgent } from './shared-agent.tsx';

/** How often the page asks whether its link still works, and so for how long it may outlive it. */
const lookMs = 3_000;

/** One agent for somebody who has a link to it and no key. */
export function SharePage() {
  const key = useShareKey();
  const queryClient = useMemo(queryClientFor, []);
  if (key === '')
    return (
      <ShareNotice title="There is no link in this address">
        <p>Copy the whole address that you were given, with everything behind the “#”.</p>
      </ShareNotice>
    );
  return (
    <QueryClientProvider client={queryClient}>
      <OneLink key={key} apiKey={key} />
    </QueryClientProvider>
  );
}

function OneLink({ apiKey }: { readonly apiKey: string }) {
  const client = useMemo(() => clientFor(apiKey), [apiKey]);
  const {
    data: caller,
    error,
    refetch,
  } = useQuery({
    queryKey: ['whoami', apiKey],
    queryFn: ({ signal }) => client.whoami({ signal }),
    refetchInterval: ({ state }) => (isRefused(state.error) ? false : lookMs),
  });
  if (isRefused(error))
    return (
      <ShareNotice title={caller ? 'This link has ended' : 'This link does not work'}>
        <p>
          {caller
            ? 'It has expired or was revoked while you were here.'
            : 'It has expired, was revoked, or was not copied as a whole.'}{' '}
          Ask whoever shared it for a new one.
        </p>
      </ShareNotice>
    );
  if (!caller) return <Opening error={error} onRetry={refetch} />;
  if (caller.role !== 'share')
    return (
      <ShareNotice title="This is not a share link">
        <p>It holds the key of a person or a machine. Whoever sent it to you should revoke that key.</p>
      </ShareNotice>
    );
  return <OneAgent client={client} caller={caller} />;
}

const isRefused = (error: unknown): boolean => error instanceof UnauthenticatedError;

/** A link names no agent; the service knows which one it shows. */
function OneAgent({ client, caller }: { readonly client: MusterClient; readonly caller: Caller }) {
  const signedIn = useMemo(() => ({ client, caller }), [client, caller]);
  const queryClient = useQueryClient();
  const {
    data: agentId,
    error,
    refetch,
  } = useQuery({
    queryKey: ['shared', caller.keyId],
    queryFn: async ({ signal }): Promise<AgentId> => {
      const status = await client.status({}, { signal });
      queryClient.setQueryData(statusKey(agentPage(status.agentId)), status);
      return status.agentId;
    },
    staleTime: Number.POSITIVE_INFINITY,
  });
  if (error instanceof NotFoundError || error instanceof PermissionDeniedError)
    return (
      <ShareNotice title="There is nothing behind this link">
        <p>The agent that it was made for does not exist, or is gone. Ask whoever shared it.</p>
      </ShareNotice>
    );
  if (!agentId) return <Opening error={error} onRetry={refetch} />;
  return (
    <SignedInContext value={signedIn}>
      <SharedAgent agentId={agentId} until={caller.expiresAt} />
    </SignedInContext>
  );
}

const Opening = ({ error, onRetry }: { readonly error: unknown; readonly onRetry: () => unknown }) =>
  error === null ? (
    <p className="page-loading">Loading …</p>
  ) : (
    <ShareNotice title="The agent could not be shown">
      <Problem error={error}>
        <Button onClick={() => onRetry()}>Try again</Button>
      </Problem>
    </ShareNotice>
  );
