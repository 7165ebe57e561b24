import type { AgentStatus } from '@muster/sdk';
import { agentPage, isTerminal } from '@muster/sdk/contract';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Button } from '../parts/button.tsx';
import { useClient } from '../session/session.ts';
import { KillDialog } from './kill-dialog.tsx';
import { statusKey } from './use-status.ts';

const refreshMs = 10_000;

/** An agent that has ended can be killed as long as somebody below it lives. */
function useIsKillable({ agentId, phase, children }: AgentStatus): boolean {
  const client = useClient();
  const isEnded = isTerminal(phase);
  const { data } = useQuery({
    queryKey: [...statusKey(agentPage(agentId)), 'anybody-below'],
    enabled: isEnded && children.length > 0,
    refetchInterval: refreshMs,
    queryFn: async ({ signal }) => {
      const filter = { parent: agentId, tenant: agentId.tenant, account: '*', allDepths: true, pageSize: 1 };
      return (await client.list(filter, { signal })).entries.length > 0;
    },
  });
  return !isEnded || data === true;
}

export function KillControl({ status }: { readonly status: AgentStatus }) {
  const [isOpen, setOpen] = useState(false);
  const isKillable = useIsKillable(status);
  return (
    <>
      {isKillable && (
        <Button look="quiet" onClick={() => setOpen(true)}>
          Kill …
        </Button>
      )}
      {isOpen && <KillDialog status={status} onClose={() => setOpen(false)} />}
    </>
  );
}
