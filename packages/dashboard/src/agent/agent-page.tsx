import { type AgentId, NotFoundError, PermissionDeniedError } from '@muster/sdk';
import { agentOfPage, agentPage, pathOf } from '@muster/sdk/contract';
import { Link, useLocation } from 'wouter';
import { Button } from '../parts/button.tsx';
import { Empty } from '../parts/page.tsx';
import { problemText } from '../parts/problem.tsx';
import { AgentFrame } from './agent-frame.tsx';
import { useStatus } from './use-status.ts';

/** The page at an agent's `dashboardUrl`. */
export function AgentPage() {
  // The router's own path is decoded, and a name may have a percent sign in it; it only says that the address changed.
  useLocation();
  const agentId = agentOfPage(location.pathname);
  if (!agentId)
    return (
      <Empty title="This is not the address of an agent">
        <p>Such an address names the tenant, the owner, the workspace and the agent.</p>
        <HomeLink />
      </Empty>
    );
  return <OneAgent key={agentPage(agentId)} agentId={agentId} />;
}

function OneAgent({ agentId }: { readonly agentId: AgentId }) {
  const { query, refreshSoon } = useStatus(agentId);
  const { data, error, refetch } = query;
  if (error instanceof NotFoundError)
    return (
      <Empty title={`There is no agent ${pathOf(agentId)}`}>
        <p>
          {agentId.account} has none of that name in the workspace {agentId.workspace}. The address may be
          wrong, or the agent ended so long ago that it was removed.
        </p>
        <HomeLink />
      </Empty>
    );
  if (error instanceof PermissionDeniedError)
    return (
      <Empty title="You may not see this agent">
        <p>
          Its address names the tenant {agentId.tenant.org}, and your key is for another. Sign in with a key
          of that tenant.
        </p>
        <HomeLink />
      </Empty>
    );
  // What was there stays: that the service is away, the top of the page says.
  if (error && !data)
    return (
      <Empty title="The agent can't be shown">
        <p role="alert">{problemText(error)}</p>
        <Button onClick={() => void refetch()}>Try again</Button>
      </Empty>
    );
  return <AgentFrame agentId={agentId} status={data} refreshSoon={refreshSoon} />;
}

const HomeLink = () => (
  <p>
    <Link href="/">Go to agents</Link>
  </p>
);
