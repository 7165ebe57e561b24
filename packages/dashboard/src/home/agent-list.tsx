import { type MouseEvent, memo, type ReactNode, useId, useMemo, useRef } from 'react';
import { useLocation } from 'wouter';
import { attentionTitles } from '../live/model/attention.ts';
import { StatusIcon } from '../live/status-icon.tsx';
import { Button } from '../parts/button.tsx';
import { useShortcuts } from '../parts/shortcuts.ts';
import { AgentRow } from './agent-row.tsx';
import type { Section } from './arrange.ts';
import { type LaidSection, Layout } from './layout.ts';
import { useSizes } from './sizes.ts';
import { useMarker } from './use-marker.ts';
import { usePlace } from './use-place.ts';
import { useSteadyScroll } from './use-steady-scroll.ts';
import { useVirtualRows } from './use-virtual-rows.ts';
import './agent-list.css';

/** Every agent under its section. Only the rows in view are drawn; the sections are as high as all of their rows. */
export const AgentList = memo(function AgentList({
  sections,
  isLoaded,
  showsOwner,
  showsWorkspace,
  onBusy,
  onToggleSeen,
  onSeeAll,
}: {
  readonly sections: readonly Section[];
  readonly isLoaded: boolean;
  readonly showsOwner: boolean;
  readonly showsWorkspace: boolean;
  /** The reader points at the list, scrolls it or goes through it. */
  readonly onBusy: () => void;
  readonly onToggleSeen: (page: string) => void;
  readonly onSeeAll: (pages: readonly string[]) => void;
}) {
  const sizes = useSizes();
  const layout = useMemo(() => new Layout(sections, sizes), [sections, sizes]);
  const list = useRef<HTMLDivElement>(null);
  const marker = useMarker(layout, list, onBusy);
  const places = useVirtualRows(layout, list, marker.tabStop);
  // After the virtualizer, which on its first look scrolls to where the page was before.
  useSteadyScroll(layout, list, marker.focused, onBusy);
  const keepPlace = usePlace(isLoaded, marker.marked, marker.tabStopRow);
  useShortcuts({
    s: () => {
      const page = marker.focused();
      if (page !== null) onToggleSeen(page);
    },
  });
  const [, navigate] = useLocation();
  // One ear for all links: each row of thousands that are scrolled past is cheaper by its own.
  const onClick = (event: MouseEvent) => {
    const href = (event.target as Element).closest('a')?.getAttribute('href');
    const isPlain =
      event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
    if (!href || !isPlain) return;
    event.preventDefault();
    keepPlace();
    navigate(href);
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the rows have the focus; their list hears their keys.
    <div
      ref={list}
      className="agent-list"
      onKeyDown={marker.onKeyDown}
      onBlur={marker.onBlur}
      onPointerMove={onBusy}
      onClick={onClick}
    >
      {layout.sections.map((section) => (
        <ListSection key={section.attention} section={section} onSeeAll={onSeeAll}>
          {places
            .filter((place) => place >= section.first && place < section.first + section.pages.length)
            .map((place) => {
              const page = layout.rows[place] ?? '';
              const isTabStop = page === marker.tabStop;
              return (
                <AgentRow
                  key={page}
                  page={page}
                  top={(place - section.first) * sizes.row}
                  position={place - section.first + 1}
                  setSize={section.pages.length}
                  showsOwner={showsOwner}
                  showsWorkspace={showsWorkspace}
                  isTabStop={isTabStop}
                  linkRef={isTabStop ? marker.tabStopRow : null}
                  onFocus={marker.mark}
                  onToggleSeen={onToggleSeen}
                />
              );
            })}
        </ListSection>
      ))}
    </div>
  );
});

function ListSection({
  section: { attention, pages, height },
  onSeeAll,
  children,
}: {
  readonly section: LaidSection;
  readonly onSeeAll: (pages: readonly string[]) => void;
  readonly children: ReactNode;
}) {
  const titleId = useId();
  return (
    <section aria-labelledby={titleId} style={{ height }}>
      <header>
        <StatusIcon attention={attention} />
        <h2 id={titleId}>
          {attentionTitles[attention]}{' '}
          <span className="agent-list-count">{pages.length.toLocaleString()}</span>
        </h2>
        {attention === 'finished' && (
          <Button look="quiet" onClick={() => onSeeAll(pages)}>
            Mark all seen
          </Button>
        )}
      </header>
      <ul>{children}</ul>
    </section>
  );
}
