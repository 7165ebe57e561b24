import type { AgentEntry, AgentStatus, MusterClient } from '@muster/sdk';
import { agentPage, isTerminal } from '@muster/sdk/contract';
import { useQuery } from '@tanstack/react-query';
import { attentionOf, reasonText } from '../live/model/attention.ts';
import { StatusIcon } from '../live/status-icon.tsx';
import { Button } from '../parts/button.tsx';
import { Dialog, DialogActions } from '../parts/dialog.tsx';
import { plural } from '../parts/model/text.ts';
import { Problem } from '../parts/problem.tsx';
import { useNow } from '../parts/times.tsx';
import { useClient } from '../session/session.ts';
import { useCommand } from './use-command.ts';
import { statusKey } from './use-status.ts';
import './kill-dialog.css';

/** What stands below an agent changes without its page being told. */
const refreshMs = 2_000;

async function liveBelow(client: MusterClient, { agentId }: AgentStatus, signal: AbortSignal) {
  const entries: AgentEntry[] = [];
  const filter = { parent: agentId, tenant: agentId.tenant, account: '*', allDepths: true };
  for await (const entry of client.listAll(filter, { signal })) entries.push(entry);
  return entries.sort((a, b) => (agentPage(a.agentId) < agentPage(b.agentId) ? -1 : 1));
}

/** Shows who dies before anybody does. */
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
    queryKey: [...statusKey(agentPage(agentId)), 'all-below'],
    queryFn: ({ signal }) => liveBelow(client, status, signal),
    refetchInterval: refreshMs,
    staleTime: 0,
  });
  const kill = useCommand(agentId, () => client.kill(agentId));
  const isEnded = isTerminal(status.phase);
  const doomed: readonly Doomed[] = [...(isEnded ? [] : [ownEntry(status)]), ...(below.data ?? [])];
  const messages = doomed.reduce((sum, { queued }) => sum + queued, 0);
  const name = agentId.agent.join('/');
  return (
    <Dialog title={isEnded ? `Kill what is below ${name}` : `Kill ${name}`} onClose={onClose}>
      <p>
        {isEnded
          ? 'The agent itself has ended. Every agent below it that still lives ends at once.'
          : 'It ends at once, and with it every agent below it.'}{' '}
        This can't be taken back. Branches that were pushed and the transcripts stay.
      </p>
      <Problem error={below.error ?? kill.error} />
      {below.data && <DoomedList doomed={doomed} />}
      {below.data && messages > 0 && (
        <p>
          {plural(messages, 'message')} that {messages === 1 ? 'is' : 'are'} not delivered yet will be
          cleared.
        </p>
      )}
      <DialogActions>
        <Button onClick={onClose}>Keep</Button>
        <Button
          look="danger"
          disabled={!below.data || doomed.length === 0 || kill.isPending}
          onClick={() => kill.mutate(undefined, { onSuccess: onClose })}
        >
          {!below.data
            ? 'Looking who is below …'
            : doomed.length === 0
              ? 'Nobody is left to kill'
              : `Kill ${plural(doomed.length, 'agent')}`}
        </Button>
      </DialogActions>
    </Dialog>
  );
}

type Doomed = Pick<
  AgentEntry,
  | 'agentId'
  | 'phase'
  | 'phaseReason'
  | 'phaseSince'
  | 'needsInput'
  | 'wakesAt'
  | 'error'
  | 'sequence'
  | 'queued'
>;

const ownEntry = (status: AgentStatus): Doomed => ({
  ...status,
  error: status.error?.message ?? '',
  sequence: '0',
  queued: status.followUps.length,
});

function DoomedList({ doomed }: { readonly doomed: readonly Doomed[] }) {
  const now = useNow();
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached from the keyboard.
    <ul className="doomed" aria-label="Who dies" tabIndex={0}>
      {doomed.map((agent) => (
        <li key={agentPage(agent.agentId)}>
          <StatusIcon attention={attentionOf(agent, false)} />
          <strong>{agent.agentId.agent.join('/')}</strong>
          <span>{reasonText(agent, now)}</span>
          {agent.queued > 0 && <span>{plural(agent.queued, 'message')}</span>}
        </li>
      ))}
    </ul>
  );
}
