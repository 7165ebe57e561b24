import {
  type AgentId,
  type Caller,
  type MusterClient,
  NotFoundError,
  PermissionDeniedError,
  signIn,
  UnauthenticatedError,
} from '@muster/sdk';
import { agentPage, pathOf, statusText } from '@muster/sdk/contract';
import { QueryClientProvider, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { lazy, type ReactNode, Suspense, useEffect, useMemo } from 'react';
import { useLocation } from 'wouter';
import { isLiveRun } from '../agent/model/status-text.ts';
import { AgentPanels } from '../agent/panels/view/agent-panels.tsx';
import { Transcript } from '../agent/transcript/view/transcript.tsx';
import { Activity, AgentLayout, StatusLine } from '../agent/view/agent-layout.tsx';
import { statusKey, useStatus } from '../agent/view/use-agent.ts';
import iconUrl from '../icon.svg';
import { queryClientFor } from '../live/resources.ts';
import { Button } from '../parts/button.tsx';
import { Markdown } from '../parts/markdown.tsx';
import { useTitle } from '../parts/page.tsx';
import { Problem } from '../parts/problem.tsx';
import { ThemeChoice } from '../parts/theme.tsx';
import { Moment } from '../parts/times.tsx';
import { clientFor, SignedInContext, useClient } from '../session/session.ts';
import { ConnectionBanner } from '../shell/header.tsx';
import { showSession, useShareUrl } from './share-links.ts';
import './share.css';

const ReviewPage = lazy(async () => ({
  default: (await import('../agent/review/view/review-page.tsx')).ReviewPage,
}));

/** How often the page checks that its link still works. It may stay open this long after the link has ended. */
const checkMs = 3_000;

/** One agent, for a person who has a link and no key. */
export function SharePage() {
  const { secret, session } = useShareUrl();
  const queryClient = useMemo(queryClientFor, []);
  if (secret === '' && session === '')
    return (
      <ShareNotice title="This share link is incomplete">
        <p>Open the complete link, including the part after the “#”.</p>
      </ShareNotice>
    );
  return (
    <QueryClientProvider client={queryClient}>
      {secret === '' ? (
        <LinkSession key={session} session={session} />
      ) : (
        <SecretExchange key={secret} secret={secret} />
      )}
    </QueryClientProvider>
  );
}

/** Gets a session for the secret in the URL, which is then removed from the URL. */
function SecretExchange({ secret }: { readonly secret: string }) {
  const { error, mutate } = useMutation({
    mutationFn: () => signIn(location.origin, { key: secret, share: true }),
    onSuccess: ({ session: { id } }) => showSession(id),
  });
  useEffect(() => mutate(), [mutate]);
  if (isRefused(error)) return <InvalidLink />;
  if (error instanceof PermissionDeniedError && error.reason === 'NOT_A_SHARE_LINK')
    return (
      <ShareNotice title="This is not a share link">
        <p>
          It contains the key of a person or a machine. The person who sent it to you should revoke that key.
        </p>
      </ShareNotice>
    );
  return <Loading error={error} onRetry={mutate} />;
}

const InvalidLink = () => (
  <ShareNotice title="This link does not work">
    <p>
      It expired, was revoked, is incomplete, or was opened in another browser. Ask the person who shared it
      for a new link.
    </p>
  </ShareNotice>
);

function LinkSession({ session }: { readonly session: string }) {
  const client = useMemo(() => clientFor(session), [session]);
  const {
    data: caller,
    error,
    refetch,
  } = useQuery({
    queryKey: ['whoami', session],
    queryFn: ({ signal }) => client.whoami({ signal }),
    refetchInterval: ({ state }) => (isRefused(state.error) ? false : checkMs),
  });
  if (isRefused(error) && !caller) return <InvalidLink />;
  if (isRefused(error))
    return (
      <ShareNotice title="This link has ended">
        <p>It expired or was revoked. Ask the person who shared it for a new link.</p>
      </ShareNotice>
    );
  if (!caller) return <Loading error={error} onRetry={refetch} />;
  return <LinkedAgent client={client} caller={caller} />;
}

const isRefused = (error: unknown): boolean => error instanceof UnauthenticatedError;

/** The link does not name its agent; the service does. */
function LinkedAgent({ client, caller }: { readonly client: MusterClient; readonly caller: Caller }) {
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
      <ShareNotice title="Agent not found">
        <p>The shared agent does not exist or was removed. Ask the person who shared it.</p>
      </ShareNotice>
    );
  if (!agentId) return <Loading error={error} onRetry={refetch} />;
  return (
    <SignedInContext value={signedIn}>
      <SharedAgent agentId={agentId} until={caller.expiresAt} />
    </SignedInContext>
  );
}

const Loading = ({ error, onRetry }: { readonly error: unknown; readonly onRetry: () => unknown }) =>
  error === null ? (
    <p className="page-loading">Loading …</p>
  ) : (
    <ShareNotice title="The agent can't be loaded">
      <Problem error={error}>
        <Button onClick={() => onRetry()}>Try again</Button>
      </Problem>
    </ShareNotice>
  );

/** One agent, live and read-only. */
function SharedAgent({ agentId, until }: { readonly agentId: AgentId; readonly until: string | null }) {
  const client = useClient();
  const { query, onEntries } = useStatus(agentId);
  const status = query.data;
  const [address] = useLocation();
  useTitle([pathOf(agentId), status && statusText(status), 'Muster'].filter(Boolean).join(' · '));
  if (status && address.endsWith('/review'))
    return (
      <main className="shared-review">
        <ConnectionBanner />
        <Suspense fallback={<p className="page-loading">Loading …</p>}>
          <ReviewPage status={status} />
        </Suspense>
      </main>
    );
  return (
    <AgentLayout
      className="shared-agent"
      columns="main"
      header={
        <>
          <header>
            <img src={iconUrl} alt="Muster" width="24" height="24" />
            <h1>{pathOf(agentId)}</h1>
            {status && <StatusLine status={status} />}
            <p className="shared-until secondary">
              {until === null ? (
                'Shared with you until the link is revoked'
              ) : (
                <>
                  Shared with you until <Moment at={until} />
                </>
              )}
              . Read-only access.
            </p>
            <ThemeChoice />
          </header>
          <ConnectionBanner />
        </>
      }
      transcript={<Transcript agentId={agentId} client={client} onEntries={onEntries} isLinked={false} />}
      panels={
        status && (
          <>
            {status.description !== '' && <Task text={status.description} />}
            <AgentPanels status={status} />
          </>
        )
      }
      footer={status && isLiveRun(status.run) && <Activity status={status} />}
    />
  );
}

const Task = ({ text }: { readonly text: string }) => (
  // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable element must be reachable by keyboard.
  <section className="shared-task" tabIndex={0} aria-label="Description">
    <Markdown text={text} />
  </section>
);

/** Why the link shows no agent, and what to do. */
const ShareNotice = ({ title, children }: { readonly title: string; readonly children: ReactNode }) => (
  <main className="empty stack">
    <img src={iconUrl} alt="Muster" width="40" height="40" />
    <div className="stack" role="alert">
      <h1>{title}</h1>
      {children}
    </div>
  </main>
);
