import {
  type AgentId,
  type AgentStatus,
  compareInt64,
  NotFoundError,
  PermissionDeniedError,
  type TimelineEntry,
} from '@muster/sdk';
import { agentOfPage, agentPage, pathOf, statusText } from '@muster/sdk/contract';
import {
  lazy,
  type ReactNode,
  Suspense,
  useCallback,
  useEffect,
  useRef,
  useState,
  useSyncExternalStore,
} from 'react';
import { Link, useLocation } from 'wouter';
import { useFleet, useFleetEntry } from '../../live/fleet.ts';
import { useInbox } from '../../live/inbox.ts';
import { isOwn } from '../../live/model/allowed-actions.ts';
import { stepFrom } from '../../live/model/inbox.ts';
import { Button } from '../../parts/button.tsx';
import { Empty, useShortcuts, useTitle } from '../../parts/page.tsx';
import { problemText } from '../../parts/problem.tsx';
import { useSignedIn } from '../../session/session.ts';
import { reviewedPage } from '../model/review-address.ts';
import { AgentPanels } from '../panels/view/agent-panels.tsx';
import { Transcript } from '../transcript/view/transcript.tsx';
import { OpenQuestionContext } from '../transcript/view/transcript-context.ts';
import { AgentHeader } from './agent-header.tsx';
import { AgentLayout } from './agent-layout.tsx';
import { AgentMenu } from './agent-menu.tsx';
import { Dock } from './dock.tsx';
import { useStatus } from './use-agent.ts';

/** The diff of a review needs a highlighter. */
const ReviewPage = lazy(async () => ({
  default: (await import('../review/view/review-page.tsx')).ReviewPage,
}));
const loading = <p className="page-loading">Loading …</p>;

/** The page at an agent's `dashboardUrl`, and the review of its changes below it. */
export function AgentPage() {
  // Only to render again when the address changes: the router decodes the path, and a name may contain a percent sign.
  useLocation();
  const reviewed = reviewedPage(location.pathname);
  const agentId = agentOfPage(reviewed ?? location.pathname);
  if (!agentId)
    return (
      <NoAgent title="Not an agent address">
        This address is incomplete or mistyped. Open the agent from the list of agents, or copy its link
        again.
      </NoAgent>
    );
  return <OneAgent key={agentPage(agentId)} agentId={agentId} isReview={reviewed !== undefined} />;
}

function OneAgent({ agentId, isReview }: { readonly agentId: AgentId; readonly isReview: boolean }) {
  const { query, onEntries } = useStatus(agentId);
  const { data, error, refetch } = query;
  if (error instanceof NotFoundError)
    return (
      <NoAgent title={`No agent named ${pathOf(agentId)}`}>
        {agentId.account} has no agent with this name in workspace {agentId.workspace}. The address may be
        wrong, or the agent ended and was removed.
      </NoAgent>
    );
  if (error instanceof PermissionDeniedError)
    return (
      <NoAgent title="No access to this agent">
        This link belongs to the organization “{agentId.tenant.org}”. Sign in with an account of that
        organization.
      </NoAgent>
    );
  // With data the page stays; the banner reports that the service is unavailable.
  if (error && !data)
    return (
      <Empty title="Agent unavailable">
        <p role="alert">{problemText(error)}</p>
        <Button onClick={() => void refetch()}>Try again</Button>
      </Empty>
    );
  if (isReview)
    return <Suspense fallback={loading}>{data ? <ReviewPage status={data} /> : loading}</Suspense>;
  return <LoadedAgent agentId={agentId} status={data} onEntries={onEntries} />;
}

const NoAgent = ({ title, children }: { readonly title: string; readonly children: ReactNode }) => (
  <Empty title={title}>
    <p>{children}</p>
    <p>
      <Link href="/">Go to agents</Link>
    </p>
  </Empty>
);

/** The transcript does not wait for the status. */
function LoadedAgent({
  agentId,
  status,
  onEntries: refresh,
}: {
  readonly agentId: AgentId;
  readonly status: AgentStatus | undefined;
  readonly onEntries: (entries: readonly TimelineEntry[]) => void;
}) {
  const { client } = useSignedIn();
  const [newest, setNewest] = useState('0');
  const [delivered, setDelivered] = useState<ReadonlySet<string>>(new Set());
  const onEntries = useCallback(
    (entries: readonly TimelineEntry[]) => {
      const ids = entries.flatMap(({ type, followUpId }) =>
        type === 'FOLLOW_UP_DELIVERED' ? [followUpId] : [],
      );
      if (ids.length > 0) setDelivered((before) => new Set([...before, ...ids]));
      setNewest((before) => entries.at(-1)?.sequence ?? before);
      refresh(entries);
    },
    [refresh],
  );
  const name = agentId.agent.at(-1) ?? '';
  useTitle([name, status && statusText(status), 'Muster'].filter(Boolean).join(' · '));
  const generation = useGeneration(status?.createdAt);
  return (
    <OpenQuestionContext value={status?.phaseReason === 'QUESTION' ? status.needsInput : ''}>
      <AgentLayout
        header={
          status ? <Header status={status} newest={newest} /> : <h1 className="agent-loading">{name}</h1>
        }
        transcript={<Transcript key={generation} agentId={agentId} client={client} onEntries={onEntries} />}
        panels={status && <AgentPanels key={generation} status={status} />}
        footer={status && <Dock key={generation} {...{ status, delivered }} />}
      />
    </OpenQuestionContext>
  );
}

function Header({ status, newest }: { readonly status: AgentStatus; readonly newest: string }) {
  useMarkSeen(status, newest);
  return (
    <AgentHeader status={status}>
      <NextAgent agentId={status.agentId} />
      <PinButton agentId={status.agentId} />
      <AgentMenu status={status} />
    </AgentHeader>
  );
}

/** Leads to the next agent that needs the person: among those of everyone, if this one belongs to somebody else. */
function NextAgent({ agentId }: Pick<AgentStatus, 'agentId'>) {
  const { caller } = useSignedIn();
  const [, navigate] = useLocation();
  const inbox = useInbox();
  const items = inbox[isOwn({ agentId }, caller) ? 'mine' : 'everyone'];
  const page = agentPage(agentId);
  const step = (by: 1 | -1) => () => {
    const next = stepFrom(items, page, by);
    if (next !== null) navigate(next);
  };
  useShortcuts({ ']': step(1), '[': step(-1) });
  const count = items.filter((item) => item.page !== page).length;
  if (count === 0) return null;
  return (
    <Button onClick={step(1)} title="Next agent that needs you (])">
      Next <span className="agent-next-count">{count.toLocaleString()}</span>
    </Button>
  );
}

function PinButton({ agentId }: Pick<AgentStatus, 'agentId'>) {
  const fleet = useFleet();
  const page = agentPage(agentId);
  const entry = useFleetEntry(page);
  if (!entry) return null;
  const { pinned } = entry;
  return (
    <Button
      look="quiet"
      aria-pressed={pinned}
      onClick={() => fleet.mark([[page, { agentId, pinned: !pinned }]])}
    >
      {pinned ? 'Unpin' : 'Pin'}
    </Button>
  );
}

/** Counts the agents that had this address while the page was open: a new agent may reuse the name of an ended one. */
function useGeneration(createdAt: string | undefined): number {
  const known = useRef({ createdAt, count: 0 });
  const { current } = known;
  if (createdAt !== undefined && createdAt !== current.createdAt) {
    known.current = { createdAt, count: current.createdAt === undefined ? 0 : current.count + 1 };
  }
  return known.current.count;
}

const subscribeToVisibility = (listener: () => void): (() => void) => {
  document.addEventListener('visibilitychange', listener);
  return () => document.removeEventListener('visibilitychange', listener);
};

/** While the page is visible, the agent counts as seen up to its newest known entry. */
function useMarkSeen({ agentId, createdAt }: AgentStatus, newest: string): void {
  const fleet = useFleet();
  const page = agentPage(agentId);
  const listed = useFleetEntry(page)?.sequence ?? '0';
  const sequence = compareInt64(listed, newest) > 0 ? listed : newest;
  const isVisible = useSyncExternalStore(subscribeToVisibility, () => !document.hidden);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new agent may have the same address; the address is that of the id.
  useEffect(() => {
    if (isVisible && sequence !== '0') fleet.mark([[page, { agentId, seen: sequence }]]);
  }, [fleet, isVisible, page, sequence, createdAt]);
}
