import { type MouseEvent, memo, type ReactNode, useId, useMemo, useRef } from 'react';
import { useLocation } from 'wouter';
import { PinIcon, StatusIcon } from '../../live/status-icon.tsx';
import { Button } from '../../parts/button.tsx';
import { useShortcuts } from '../../parts/page.tsx';
import type { Section } from '../model/arrange.ts';
import type { Grouping } from '../model/filter.ts';
import { sectionTitle, statusOfSection } from '../model/grouping.ts';
import { Layout, type PositionedSection } from '../model/layout.ts';
import { AgentRow } from './agent-row.tsx';
import {
  useRowFocus,
  useSavedPosition,
  useScrollAnchor,
  useSizes,
  useVirtualRows,
} from './list-navigation.ts';
import type { Selection } from './use-selection.ts';

interface AgentListProps {
  readonly sections: readonly Section[];
  readonly group: Grouping;
  readonly owners: readonly string[];
  readonly selection: Selection;
  readonly isLoaded: boolean;
  readonly showsOwner: boolean;
  readonly showsWorkspace: boolean;
  /** Rehearsals are the exception. */
  readonly showsRehearsals: boolean;
  /** The user moves the pointer over the list, scrolls it or moves the selection. */
  readonly onBusy: () => void;
  readonly onToggleSeen: (page: string) => void;
  readonly onTogglePin: (page: string) => void;
  readonly onMarkAllSeen: (pages: readonly string[]) => void;
}

/** All sections. Only the visible rows are rendered; each section has the height of all of its rows. */
export const AgentList = memo(function AgentList(props: AgentListProps) {
  const { sections, group, owners, selection, isLoaded, onBusy, onMarkAllSeen } = props;
  const { onToggleSeen, onTogglePin } = props;
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
  const { toggle, setAll } = selection;
  useShortcuts({
    s: onFocused(onToggleSeen),
    p: onFocused(onTogglePin),
    x: onFocused((page) => toggle(page, false)),
    X: onFocused((page) => toggle(page, true)),
  });
  const onClick = useOpenLink(savePosition);
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the rows have the focus; the list handles their keys.
    <div
      ref={list}
      className="agent-list"
      data-selecting={selection.pages.size > 0}
      onKeyDown={focus.onKeyDown}
      onBlur={focus.onBlur}
      onPointerMove={onBusy}
      onClick={onClick}
    >
      {layout.sections.map((section) => (
        <ListSection
          key={section.id}
          section={section}
          title={sectionTitle(section.id, group, owners)}
          selected={selection.pages}
          onSelectAll={setAll}
          onMarkAllSeen={onMarkAllSeen}
        >
          {indexes
            .filter((index) => index >= section.first && index < section.first + section.pages.length)
            .map((index) => rowAt(index, section, layout, sizes.row, focus, props))}
        </ListSection>
      ))}
    </div>
  );
});

function rowAt(
  index: number,
  section: PositionedSection,
  layout: Layout,
  rowHeight: number,
  focus: ReturnType<typeof useRowFocus>,
  { selection, showsOwner, showsWorkspace, showsRehearsals, onToggleSeen, onTogglePin }: AgentListProps,
): ReactNode {
  const page = layout.rows[index] ?? '';
  const isTabStop = page === focus.tabStop;
  const place = index - section.first;
  return (
    <AgentRow
      key={page}
      page={page}
      top={place * rowHeight}
      position={place + 1}
      setSize={section.pages.length}
      heading={statusOfSection(section.id)}
      isSelected={selection.pages.has(page)}
      isTabStop={isTabStop}
      linkRef={isTabStop ? focus.tabStopRow : null}
      onFocus={focus.onFocus}
      onSelect={selection.toggle}
      {...{ showsOwner, showsWorkspace, showsRehearsals, onToggleSeen, onTogglePin }}
    />
  );
}

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
  readonly title: string;
  readonly selected: ReadonlySet<string>;
  readonly onSelectAll: (pages: readonly string[], isSelected: boolean) => void;
  readonly onMarkAllSeen: (pages: readonly string[]) => void;
  readonly children: ReactNode;
}

function ListSection({ section, title, selected, onSelectAll, onMarkAllSeen, children }: ListSectionProps) {
  const { id, pages, height } = section;
  const titleId = useId();
  const status = statusOfSection(id);
  return (
    <section aria-labelledby={titleId} style={{ height }}>
      <header>
        <SelectAll title={title} pages={pages} selected={selected} onSelectAll={onSelectAll} />
        {id === 'pinned' && <PinIcon />}
        {status && <StatusIcon attention={status} />}
        <h2 id={titleId} dir="auto">
          {title} <span className="agent-list-count">{pages.length.toLocaleString()}</span>
        </h2>
        {status === 'finished' && (
          <Button look="quiet" onClick={() => onMarkAllSeen(pages)}>
            Mark all seen
          </Button>
        )}
      </header>
      <ul>{children}</ul>
    </section>
  );
}

type SelectAllProps = Pick<ListSectionProps, 'title' | 'selected' | 'onSelectAll'> & {
  readonly pages: readonly string[];
};

function SelectAll({ title, pages, selected, onSelectAll }: SelectAllProps) {
  const count = selected.size === 0 ? 0 : pages.filter((page) => selected.has(page)).length;
  const isAll = count === pages.length;
  return (
    <input
      type="checkbox"
      className="agent-list-select"
      aria-label={`Select all in ${title}`}
      title="Select all"
      checked={isAll}
      ref={(box) => {
        if (box) box.indeterminate = count > 0 && !isAll;
      }}
      onChange={() => onSelectAll(pages, !isAll)}
    />
  );
}
