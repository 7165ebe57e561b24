import { type KeyboardEvent, type RefObject, useCallback, useLayoutEffect, useRef, useState } from 'react';
import { useShortcuts } from '../../parts/shortcuts.ts';
import type { Layout } from '../model/layout.ts';
import { savedPosition, visibleRange } from './list-scroll.ts';

export interface RowFocus {
  readonly selected: string | null;
  /** The row that the Tab key reaches: the selected one, else the first. */
  readonly tabStop: string | null;
  readonly tabStopRow: RefObject<HTMLAnchorElement | null>;
  /** The agent whose row has the focus. */
  readonly focusedPage: () => string | null;
  readonly onFocus: (page: string) => void;
  readonly onBlur: () => void;
  readonly onKeyDown: (event: KeyboardEvent) => void;
}

/**
 * The selected row is the row whose link has the focus, so that Enter opens the agent and screen readers announce it. The
 * selection belongs to an agent: when the agent moves in the list, the focus moves with it.
 */
export function useRowFocus(
  layout: Layout,
  list: RefObject<HTMLElement | null>,
  onMove: () => void,
): RowFocus {
  const [selected, setSelected] = useState(() => savedPosition()?.selected ?? null);
  const tabStopRow = useRef<HTMLAnchorElement>(null);
  const isFocusDue = useRef(false);
  const hasFocus = useRef(false);
  const index = layout.indexOf(selected);

  const goTo = (next: number) => {
    const page = layout.rows[Math.max(0, Math.min(next, layout.rows.length - 1))];
    if (page === undefined) return;
    isFocusDue.current = true;
    onMove();
    if (page === selected) focusRow(tabStopRow.current);
    setSelected(page);
  };

  /** If the selected row was scrolled out of view, starts at the top of the view. */
  const step = (by: number) => {
    if (!list.current) return;
    const { top, bottom } = visibleRange(list.current);
    const visible = layout.rowsWithin(top, bottom);
    const isVisible = index !== undefined && index >= visible.from - 1 && index <= visible.to;
    goTo(isVisible ? index + by : visible.from);
  };

  useLayoutEffect(() => {
    // A row that moves into another section is a new element, and the old element lost the focus.
    const isFocusLost = hasFocus.current && document.activeElement === document.body;
    if (isFocusDue.current) focusRow(tabStopRow.current);
    else if (isFocusLost) tabStopRow.current?.focus({ preventScroll: true });
    isFocusDue.current = false;
  });

  useShortcuts({ j: () => step(1), k: () => step(-1) });

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const act = {
      ArrowDown: () => step(1),
      ArrowUp: () => step(-1),
      Home: () => goTo(0),
      End: () => goTo(layout.rows.length - 1),
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  };

  const currentSelected = useRef(selected);
  currentSelected.current = selected;
  return {
    selected,
    tabStop: (index === undefined ? layout.rows[0] : selected) ?? null,
    tabStopRow,
    focusedPage: useCallback(() => (hasFocus.current ? currentSelected.current : null), []),
    onFocus: useCallback((page: string) => {
      hasFocus.current = true;
      setSelected(page);
    }, []),
    // React sends no blur event when it removes an element, so the user moved the focus.
    onBlur: useCallback(() => {
      hasFocus.current = false;
    }, []),
    onKeyDown,
  };
}

function focusRow(link: HTMLAnchorElement | null): void {
  link?.focus({ preventScroll: true });
  link?.closest('li')?.scrollIntoView({ block: 'nearest' });
}
