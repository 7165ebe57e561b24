import type { AgentStatus } from '@muster/sdk';
import { agentPage, isTerminal } from '@muster/sdk/contract';
import { lazy, Suspense, useEffect, useState } from 'react';
import { mayCommand } from '../../live/model/allowed-actions.ts';
import { Menu, type MenuItem } from '../../parts/menu.tsx';
import { useSignedIn } from '../../session/session.ts';
import { ShareDialog } from '../../share/share-panel.tsx';
import { maySpawn, openSpawn } from '../../spawn/open-spawn.ts';
import { KillDialog, useKillable } from './kill-dialog.tsx';

const ExportDialog = lazy(async () => ({
  default: (await import('../transcript/view/export-dialog.tsx')).ExportDialog,
}));

/** What can be done with an agent as a whole. */
export function AgentMenu({ status }: { readonly status: AgentStatus }) {
  const { agentId } = status;
  const { caller, client } = useSignedIn();
  const [opened, setOpened] = useState<'export' | 'share' | 'kill' | null>(null);
  const { notice, copyLink } = useCopiedLink(agentPage(agentId));
  const may = mayCommand(caller, agentId);
  const isKillable = useKillable(status, may);
  const close = () => setOpened(null);
  const items: MenuItem[] = [
    { title: 'Copy link', onSelect: copyLink },
    { title: 'Export transcript', onSelect: () => setOpened('export') },
    ...(may ? [{ title: 'Share', onSelect: () => setOpened('share') }] : []),
    ...(maySpawn(caller) && !isTerminal(status.phase)
      ? [{ title: 'Spawn a copy', onSelect: () => openSpawn(presetOf(status)) }]
      : []),
    ...(isKillable ? [{ title: 'Kill agent', isDanger: true, onSelect: () => setOpened('kill') }] : []),
  ];
  return (
    <>
      <span className="agent-menu-notice secondary" role="status">
        {notice}
      </span>
      <Menu label="More actions" items={items}>
        <svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
          <path d="M3 8h.01M8 8h.01M13 8h.01" stroke="currentColor" strokeWidth="2.4" strokeLinecap="round" />
        </svg>
      </Menu>
      {opened === 'export' && (
        <Suspense>
          <ExportDialog {...{ agentId, client }} onClose={close} />
        </Suspense>
      )}
      {opened === 'share' && <ShareDialog status={status} onClose={close} />}
      {opened === 'kill' && <KillDialog status={status} onClose={close} />}
    </>
  );
}

/** Everything but the name, which is taken. */
export const presetOf = (status: AgentStatus) => ({
  description: status.description,
  expectedOutput: status.expectedOutput,
  workspace: status.agentId.workspace,
  persona: status.persona,
  model: status.model,
  reasoningEffort: status.reasoningEffort,
  serviceTier: status.serviceTier,
  fastMode: status.fastMode,
  outputSchema: status.outputSchema,
});

const noticeMs = 2_500;

function useCopiedLink(page: string) {
  const [notice, setNotice] = useState('');
  useEffect(() => {
    if (notice === '') return;
    const timer = setTimeout(() => setNotice(''), noticeMs);
    return () => clearTimeout(timer);
  }, [notice]);
  const copyLink = () =>
    void navigator.clipboard.writeText(new URL(page, location.origin).href).then(
      () => setNotice('Link copied'),
      () => setNotice('Copy failed. Copy the address of this page.'),
    );
  return { notice, copyLink };
}
