import type { AgentStatus, EntryType } from '@muster/sdk';
import { agentPage } from '@muster/sdk/contract';
import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useId, useState } from 'react';
import { ExpandIcon, LineButton } from '../../../parts/button.tsx';
import { ErrorBoundary } from '../../../parts/problem.tsx';
import { useClient, useSignedIn } from '../../../session/session.ts';
import { isLiveRun } from '../../model/status-text.ts';

/** A collapsible section with a summary in its heading. */
export function Panel({
  title,
  summary,
  isOpenAtFirst = false,
  children,
}: {
  readonly title: string;
  readonly summary?: ReactNode;
  readonly isOpenAtFirst?: boolean;
  readonly children: ReactNode;
}) {
  const [isOpen, setOpen] = useOpenPanel(title, isOpenAtFirst);
  const titleId = useId();
  const bodyId = useId();
  return (
    <section className="panel" aria-labelledby={titleId}>
      <h2>
        <LineButton aria-expanded={isOpen} aria-controls={bodyId} onClick={() => setOpen(!isOpen)}>
          <ExpandIcon />
          <span id={titleId}>{title}</span>
          {summary !== undefined && <span className="panel-summary secondary">{summary}</span>}
        </LineButton>
      </h2>
      <div id={bodyId} className="panel-body stack" hidden={!isOpen}>
        {isOpen && (
          <ErrorBoundary fallback={<p className="secondary">This panel can't be displayed.</p>}>
            {children}
          </ErrorBoundary>
        )}
      </div>
    </section>
  );
}

/** A share link shows one agent, so nothing links to other pages, agents or entries. */
export const useIsLinked = (): boolean => useSignedIn().caller.role !== 'share';

/** A link to an entry of the transcript; plain text without the entry. */
export function EntryLink({
  sequence,
  children,
}: {
  readonly sequence: string | undefined;
  readonly children: ReactNode;
}) {
  if (!useIsLinked() || sequence === undefined) return children;
  return (
    <a href={`#e${sequence}`} title="Show in transcript">
      {children}
    </a>
  );
}

export const PanelText = ({ label, children }: { readonly label: string; readonly children: ReactNode }) => (
  // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable area must be reachable by keyboard.
  <section className="text-box" tabIndex={0} aria-label={label}>
    {children}
  </section>
);

const storageKey = 'muster.panels';

function storedChoices(): Readonly<Record<string, boolean>> {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(storageKey) ?? '{}');
    return typeof stored === 'object' && stored !== null ? (stored as Record<string, boolean>) : {};
  } catch {
    return {};
  }
}

/** The browser remembers which panels are open, for all agents. */
function useOpenPanel(name: string, isOpenAtFirst: boolean): [boolean, (isOpen: boolean) => void] {
  const [isOpen, setOpen] = useState(() => storedChoices()[name] ?? isOpenAtFirst);
  const choose = (next: boolean) => {
    localStorage.setItem(storageKey, JSON.stringify({ ...storedChoices(), [name]: next }));
    setOpen(next);
  };
  return [isOpen, choose];
}

const pollMs = 5_000;
const maxEntries = 1000;

/** The newest timeline entries of one type, newest first. */
export function useEntries(
  { agentId, run, runCount, branch, diffStat }: AgentStatus,
  type: EntryType,
  { isNeeded = true } = {},
) {
  const client = useClient();
  const isLive = isLiveRun(run);
  const isPush = type === 'PUSH';
  return useQuery({
    queryKey: ['entries', agentPage(agentId), type, runCount, isLive, isPush && { branch, diffStat }],
    queryFn: async ({ signal }) => {
      const entries = await client.timelineNewest(agentId, { types: [type], limit: maxEntries, signal });
      return entries.toReversed();
    },
    enabled: isNeeded,
    placeholderData: (previous) => previous,
    // A push that leaves the diff statistics unchanged is not visible in the status.
    refetchInterval: isLive && isPush ? pollMs : false,
  });
}
