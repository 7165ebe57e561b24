import { type MouseEvent, memo, type ReactNode, useId, useMemo, useRef } from 'react';
import { useLocation } from 'wouter';
import { attentionTitles } from '../../live/model/attention.ts';
import { PinIcon, StatusIcon } from '../../live/status-icon.tsx';
import { Button } from '../../parts/button.tsx';
import { useShortcuts } from '../../parts/page.tsx';
import type { Section } from '../model/arrange.ts';
import { Layout, type PositionedSection } from '../model/layout.ts';
import { AgentRow } from './agent-row.tsx';
import {
  useRowFocus,
  useSavedPosition,
  useScrollAnchor,
  useSizes,
  useVirtualRows,
} from './list-navigation.ts';

interface AgentListProps {
  readonly sections: readonly Section[];
  readonly isLoaded: boolean;
  readonly showsOwner: boolean;
  readonly showsWorkspace: boolean;
  /** The user moves the pointer over the list, scrolls it or moves the selection. */
  readonly onBusy: () => void;
  readonly onToggleSeen: (page: string) => void;
  readonly onTogglePin: (page: string) => void;
  readonly onMarkAllSeen: (pages: readonly string[]) => void;
}

/** All sections. Only the visible rows are rendered; each section has the height of all of its rows. */
export const AgentList = memo(function AgentList(props: AgentListProps) {
  const { sections, isLoaded, showsOwner, showsWorkspace, onBusy, onToggleSeen, onTogglePin, onMarkAllSeen } =
    props;
  const sizes = useSizes();
  const layout = useMemo(() => new Layout(sections, sizes), [sections, sizes]);
  const list = useRef<HTMLDivElement>(null);
  const focus = useRowFocus(layout, list, onBusy);
  const indexes = useVirtualRows(layout, list, focus.tabStop);
  // After the virtualizer, which restores the scroll position when it starts.
  useScrollAnchor(layout, list, focus.focusedPage, onBusy);
  const savePosition = useSavedPosition(isLoaded, focus.selected, focus.tabStopRow);
  const onFocused = (act: (page: string) => void) => () => {
    const page = focus.focusedPage();
    if (page !== null) act(page);
  };
  useShortcuts({ s: onFocused(onToggleSeen), p: onFocused(onTogglePin) });
  const onClick = useOpenLink(savePosition);
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the rows have the focus; the list handles their keys.
    <div
      ref={list}
      className="agent-list"
      onKeyDown={focus.onKeyDown}
      onBlur={focus.onBlur}
      onPointerMove={onBusy}
      onClick={onClick}
    >
      {layout.sections.map((section) => (
        <ListSection key={section.attention} section={section} onMarkAllSeen={onMarkAllSeen}>
          {indexes
            .filter((index) => index >= section.first && index < section.first + section.pages.length)
            .map((index) => {
              const page = layout.rows[index] ?? '';
              const isTabStop = page === focus.tabStop;
              return (
                <AgentRow
                  key={page}
                  page={page}
                  top={(index - section.first) * sizes.row}
                  position={index - section.first + 1}
                  setSize={section.pages.length}
                  showsOwner={showsOwner}
                  showsWorkspace={showsWorkspace}
                  isTabStop={isTabStop}
                  linkRef={isTabStop ? focus.tabStopRow : null}
                  onFocus={focus.onFocus}
                  onToggleSeen={onToggleSeen}
                  onTogglePin={onTogglePin}
                />
              );
            })}
        </ListSection>
      ))}
    </div>
  );
});

/** One listener for the links of all rows, which makes each row cheaper to render. */
function useOpenLink(onLeave: () => void) {
  const [, navigate] = useLocation();
  return (event: MouseEvent) => {
    const href = (event.target as Element).closest('a')?.getAttribute('href');
    const isPlain =
      event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
    if (!href || !isPlain) return;
    event.preventDefault();
    onLeave();
    navigate(href);
  };
}

interface ListSectionProps {
  readonly section: PositionedSection;
  readonly onMarkAllSeen: (pages: readonly string[]) => void;
  readonly children: ReactNode;
}

function ListSection({ section: { attention, pages, height }, onMarkAllSeen, children }: ListSectionProps) {
  const titleId = useId();
  return (
    <section aria-labelledby={titleId} style={{ height }}>
      <header>
        {attention === 'pinned' ? <PinIcon /> : <StatusIcon attention={attention} />}
        <h2 id={titleId}>
          {attention === 'pinned' ? 'Pinned' : attentionTitles[attention]}{' '}
          <span className="agent-list-count">{pages.length.toLocaleString()}</span>
        </h2>
        {attention === 'finished' && (
          <Button look="quiet" onClick={() => onMarkAllSeen(pages)}>
            Mark all seen
          </Button>
        )}
      </header>
      <ul>{children}</ul>
    </section>
  );
}
