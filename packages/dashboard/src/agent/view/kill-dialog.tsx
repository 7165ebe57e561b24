import type { AgentEntry, AgentStatus, MusterClient } from '@muster/sdk';
import { agentPage, isTerminal, pathOf } from '@muster/sdk/contract';
import { useQuery } from '@tanstack/react-query';
import { type Attended, attentionOf, reasonText } from '../../live/model/attention.ts';
import { StatusIcon } from '../../live/status-icon.tsx';
import { Button } from '../../parts/button.tsx';
import { Dialog, DialogActions } from '../../parts/dialog.tsx';
import { plural, unpushedNote } from '../../parts/model/text.ts';
import { Problem } from '../../parts/problem.tsx';
import { useNow } from '../../parts/times.tsx';
import { useClient } from '../../session/session.ts';
import { statusKey, useCommand } from './use-agent.ts';

/** The status does not report changes of descendants, so they are polled. */
const buttonPollMs = 10_000;
const dialogPollMs = 2_000;

const descendantsOf = ({ agentId }: AgentStatus) => ({
  parent: agentId,
  tenant: agentId.tenant,
  account: '*',
  allDepths: true,
});

/** An ended agent can be killed while one of its descendants is live. */
export function useKillable(status: AgentStatus, may: boolean): boolean {
  const client = useClient();
  const isEnded = isTerminal(status.phase);
  const { data: hasDescendants = false } = useQuery({
    queryKey: [...statusKey(agentPage(status.agentId)), 'has-descendants'],
    enabled: may && isEnded && status.children.length > 0,
    refetchInterval: buttonPollMs,
    queryFn: async ({ signal }) => {
      const { entries } = await client.list({ ...descendantsOf(status), pageSize: 1 }, { signal });
      return entries.length > 0;
    },
  });
  return may && (!isEnded || hasDescendants);
}

async function liveDescendants(client: MusterClient, status: AgentStatus, signal: AbortSignal) {
  const entries: AgentEntry[] = [];
  for await (const entry of client.listAll(descendantsOf(status), { signal })) entries.push(entry);
  return entries.sort((a, b) => (agentPage(a.agentId) < agentPage(b.agentId) ? -1 : 1));
}

/** Lists every agent that the kill would end. */
export function KillDialog({
  status,
  onClose,
}: {
  readonly status: AgentStatus;
  readonly onClose: () => void;
}) {
  const { agentId } = status;
  const client = useClient();
  const below = useQuery({
    queryKey: [...statusKey(agentPage(agentId)), 'descendants'],
    queryFn: ({ signal }) => liveDescendants(client, status, signal),
    refetchInterval: dialogPollMs,
    staleTime: 0,
  });
  const kill = useCommand(agentId, () => client.kill(agentId));
  const isEnded = isTerminal(status.phase);
  const killed: readonly KilledAgent[] = [...(isEnded ? [] : [killedAgentOf(status)]), ...(below.data ?? [])];
  const messages = killed.reduce((sum, { queued }) => sum + queued, 0);
  const killText = killed.length === 0 ? 'No live agents' : `Kill ${plural(killed.length, 'agent')}`;
  return (
    <Dialog title={`Kill ${isEnded ? 'agents below ' : ''}${pathOf(agentId)}`} onClose={onClose}>
      <p>
        {isEnded
          ? 'The agent itself has already ended. Every live agent below it ends immediately.'
          : 'The agent and every agent below it end immediately.'}{' '}
        This can’t be undone. Pushed branches and transcripts stay.
        {killed.some(isRunning) &&
          ' A turn in progress may have changed more than its last checkpoint shows.'}
        {killed.some((agent) => isRunning(agent) || unpushedNote(agent.unpushed) !== '') &&
          ' Unpushed work is kept only in a last checkpoint, for 30 days.'}
      </p>
      <Problem error={below.error ?? kill.error} />
      {below.data && <KilledAgentList killed={killed} />}
      {below.data && messages > 0 && <p>{plural(messages, 'undelivered message')} will be cleared.</p>}
      <DialogActions>
        <Button onClick={onClose}>Cancel</Button>
        <Button
          look="danger"
          disabled={!below.data || killed.length === 0 || kill.isPending}
          onClick={() => kill.mutate(undefined, { onSuccess: onClose })}
        >
          {below.data ? killText : 'Loading …'}
        </Button>
      </DialogActions>
    </Dialog>
  );
}

const isRunning = ({ phase }: Pick<AgentEntry, 'phase'>): boolean => phase === 'PHASE_RUNNING';

type KilledAgent = Attended & Pick<AgentEntry, 'agentId' | 'queued' | 'unpushed'>;

const killedAgentOf = (status: AgentStatus): KilledAgent => ({
  ...status,
  error: status.error?.message ?? '',
  sequence: '0',
  queued: status.followUps.length,
});

function KilledAgentList({ killed }: { readonly killed: readonly KilledAgent[] }) {
  const now = useNow();
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable area must be reachable by keyboard.
    <ul className="kill-list" aria-label="Agents to kill" tabIndex={0}>
      {killed.map((agent) => (
        <li className="wrap" key={agentPage(agent.agentId)}>
          <StatusIcon attention={attentionOf(agent, false)} />
          <strong dir="auto">{pathOf(agent.agentId)}</strong>
          <span>{reasonText(agent, now)}</span>
          {agent.queued > 0 && <span>{plural(agent.queued, 'message')}</span>}
          {unpushedNote(agent.unpushed) !== '' && <span>{unpushedNote(agent.unpushed)}</span>}
        </li>
      ))}
    </ul>
  );
}
