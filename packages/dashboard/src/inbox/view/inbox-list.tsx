import { Fragment, type RefObject } from 'react';
import { messageDrafts } from '../../agent/model/message-draft.ts';
import { useFleetEntry } from '../../live/fleet.ts';
import { isOwn } from '../../live/model/allowed-actions.ts';
import { attentionOf, rowText } from '../../live/model/attention.ts';
import { type InboxItem, inboxSectionOf, inboxTitle } from '../../live/model/inbox.ts';
import { StatusIcon } from '../../live/status-icon.tsx';
import { Age, useNow } from '../../parts/times.tsx';
import { usePerson, useSignedIn } from '../../session/session.ts';
import type { InboxControl } from './use-inbox-list.ts';

/** The others follow when these are done. */
const listedItems = 200;

interface InboxListProps {
  readonly control: InboxControl;
  readonly currentRow: RefObject<HTMLAnchorElement | null>;
  readonly onOpen: (page: string) => void;
}

export function InboxList({ control: { items, current, scope, hold }, currentRow, onOpen }: InboxListProps) {
  const person = usePerson();
  if (items.length === 0) return null;
  const at = items.findIndex(({ page }) => page === current);
  const from = Math.max(0, Math.min(at - listedItems / 2, items.length - listedItems));
  const listed = items.slice(from, from + listedItems);
  return (
    <nav
      className="inbox-list"
      aria-label="Agents that need you"
      onPointerEnter={() => hold('pointing', true)}
      onPointerLeave={() => hold('pointing', false)}
    >
      {from > 0 && <p className="inbox-more">{from.toLocaleString()} earlier</p>}
      <ul>
        {listed.map((item, index) => (
          <Fragment key={item.page}>
            {item.section !== listed[index - 1]?.section && (
              <li className="inbox-section">
                <h2>{inboxTitle(item.section)}</h2>
              </li>
            )}
            <InboxRow
              item={item}
              scope={scope}
              isCurrent={item.page === current}
              hasDraft={messageDrafts.get(`${person} ${item.page}`).text.trim() !== ''}
              linkRef={item.page === current ? currentRow : null}
              onOpen={onOpen}
            />
          </Fragment>
        ))}
      </ul>
      {from + listed.length < items.length && (
        <p className="inbox-more">{(items.length - from - listed.length).toLocaleString()} more</p>
      )}
    </nav>
  );
}

interface InboxRowProps {
  readonly item: InboxItem;
  readonly scope: InboxControl['scope'];
  readonly isCurrent: boolean;
  readonly hasDraft: boolean;
  readonly linkRef: RefObject<HTMLAnchorElement | null> | null;
  readonly onOpen: (page: string) => void;
}

function InboxRow({ item, scope, isCurrent, hasDraft, linkRef, onOpen }: InboxRowProps) {
  const { page, section } = item;
  const { caller } = useSignedIn();
  const entry = useFleetEntry(page);
  const now = useNow();
  if (!entry) return null;
  const { agentId } = entry;
  const attention = attentionOf(entry, false);
  const isOver = inboxSectionOf(entry) === null;
  const heading = section === 'seen' || isOver ? null : section;
  const query = new URLSearchParams({ ...(scope === 'everyone' && { scope }), agent: page });
  return (
    <li className="inbox-row" data-attention={attention} data-over={isOver}>
      <a
        ref={linkRef}
        href={`/inbox?${query}`}
        {...(isCurrent && { 'aria-current': 'true' as const })}
        onClick={(event) => {
          if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
          event.preventDefault();
          onOpen(page);
        }}
      >
        <StatusIcon attention={attention} />
        <span className="inbox-row-name" dir="auto">
          {agentId.agent.join(' / ')}
        </span>
        <span className="inbox-row-age secondary">
          <Age since={entry.phaseSince} />
        </span>
        <span className="inbox-row-news" dir="auto">
          {hasDraft && <span className="inbox-row-draft">Draft </span>}
          {rowText(entry, heading, now)}
        </span>
        {!isOwn(entry, caller) && <span className="inbox-row-owner secondary">{agentId.account}</span>}
      </a>
    </li>
  );
}
