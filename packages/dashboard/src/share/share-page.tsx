import {
  type AgentId,
  type Caller,
  type MusterClient,
  NotFoundError,
  PermissionDeniedError,
  signIn,
  UnauthenticatedError,
} from '@muster/sdk';
import { agentPage } from '@muster/sdk/contract';
import { QueryClientProvider, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useMemo } from 'react';
import { statusKey } from '../agent/use-status.ts';
import { queryClientFor } from '../live/resources.ts';
import { Button } from '../parts/button.tsx';
import { Problem } from '../parts/problem.tsx';
import { clientFor } from '../session/session.ts';
import { SignedInContext } from '../session/use-session.ts';
import { showSession, useShareAddress } from './share-address.ts';
import { ShareNotice } from './share-notice.tsx';
import { SharedAgent } from './shared-agent.tsx';

/** How often the page asks whether its link still works, and so for how long it may outlive it. */
const lookMs = 3_000;

/** One agent for somebody who has a link to it and no key. */
export function SharePage() {
  const { secret, session } = useShareAddress();
  const queryClient = useMemo(queryClientFor, []);
  if (secret === '' && session === '')
    return (
      <ShareNotice title="There is no link in this address">
        <p>Copy the whole address that you were given, with everything behind the “#”.</p>
      </ShareNotice>
    );
  return (
    <QueryClientProvider client={queryClient}>
      {secret === '' ? (
        <OneLink key={session} session={session} />
      ) : (
        <Exchange key={secret} secret={secret} />
      )}
    </QueryClientProvider>
  );
}

/** Gets a session for the secret in the address, which is removed from there. */
function Exchange({ secret }: { readonly secret: string }) {
  const { error, mutate } = useMutation({
    mutationFn: () => signIn(location.origin, { key: secret, share: true }),
    onSuccess: ({ session: { id } }) => showSession(id),
  });
  useEffect(() => mutate(), [mutate]);
  if (isRefused(error)) return <NoSuchLink />;
  if (error instanceof PermissionDeniedError && error.reason === 'NOT_A_SHARE_LINK')
    return (
      <ShareNotice title="This is not a share link">
        <p>
          It holds the key of a person or a machine. The person who sent it to you should revoke that key.
        </p>
      </ShareNotice>
    );
  return <Opening error={error} onRetry={mutate} />;
}

const NoSuchLink = () => (
  <ShareNotice title="This link does not work">
    <p>
      It has expired, was revoked, was not copied as a whole, or was opened in another browser. Ask the person
      who shared it for a new one.
    </p>
  </ShareNotice>
);

function OneLink({ session }: { readonly session: string }) {
  const client = useMemo(() => clientFor(session), [session]);
  const {
    data: caller,
    error,
    refetch,
  } = useQuery({
    queryKey: ['whoami', session],
    queryFn: ({ signal }) => client.whoami({ signal }),
    refetchInterval: ({ state }) => (isRefused(state.error) ? false : lookMs),
  });
  if (isRefused(error) && !caller) return <NoSuchLink />;
  if (isRefused(error))
    return (
      <ShareNotice title="This link has ended">
        <p>It has expired or was revoked while you were here. Ask the person who shared it for a new one.</p>
      </ShareNotice>
    );
  if (!caller) return <Opening error={error} onRetry={refetch} />;
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
