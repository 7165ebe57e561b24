import { type KeyboardEvent, type RefObject, useCallback, useLayoutEffect, useRef, useState } from 'react';
import { useShortcuts } from '../parts/shortcuts.ts';
import type { Layout } from './layout.ts';
import { listView } from './list-view.ts';
import { keptPlace } from './place.ts';

export interface Marker {
  readonly marked: string | null;
  /** The row that the Tab key leads to: the marked one, else the first. */
  readonly tabStop: string | null;
  readonly tabStopRow: RefObject<HTMLAnchorElement | null>;
  /** The agent whose row has the focus. */
  readonly focused: () => string | null;
  readonly mark: (page: string) => void;
  readonly onBlur: () => void;
  readonly onKeyDown: (event: KeyboardEvent) => void;
}

/**
 * The marker is the focus itself, on the link of a row, so Enter opens the agent and screen readers say where one is. It
 * belongs to an agent and not to a place: when the agent moves, the marker goes with it.
 */
export function useMarker(layout: Layout, list: RefObject<HTMLElement | null>, onMove: () => void): Marker {
  const [marked, setMarked] = useState(() => keptPlace()?.marked ?? null);
  const tabStopRow = useRef<HTMLAnchorElement>(null);
  const isFocusDue = useRef(false);
  const hasFocus = useRef(false);
  const place = layout.placeOf(marked);

  const goTo = (next: number) => {
    const page = layout.rows[Math.max(0, Math.min(next, layout.rows.length - 1))];
    if (page === undefined) return;
    isFocusDue.current = true;
    onMove();
    if (page === marked) focusRow(tabStopRow.current);
    setMarked(page);
  };

  /** From where the reader looks: a marker that was scrolled out of view begins anew at the top of the view. */
  const step = (by: number) => {
    if (!list.current) return;
    const { top, bottom } = listView(list.current);
    const view = layout.within(top, bottom);
    const isInView = place !== undefined && place >= view.from - 1 && place <= view.to;
    goTo(isInView ? place + by : view.from);
  };

  useLayoutEffect(() => {
    // A row that moves into another section is a new element there, and the old one took the focus with it.
    const isLost = hasFocus.current && document.activeElement === document.body;
    if (isFocusDue.current) focusRow(tabStopRow.current);
    else if (isLost) tabStopRow.current?.focus({ preventScroll: true });
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

  const markedNow = useRef(marked);
  markedNow.current = marked;
  return {
    marked,
    tabStop: (place === undefined ? layout.rows[0] : marked) ?? null,
    tabStopRow,
    focused: useCallback(() => (hasFocus.current ? markedNow.current : null), []),
    mark: useCallback((page: string) => {
      hasFocus.current = true;
      setMarked(page);
    }, []),
    // React tells of no blur while it takes an element away, so this one was the reader's.
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
