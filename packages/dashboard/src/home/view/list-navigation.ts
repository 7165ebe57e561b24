import { defaultRangeExtractor, type Range, useWindowVirtualizer } from '@tanstack/react-virtual';
import {
  type KeyboardEvent,
  type RefObject,
  useCallback,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
  useSyncExternalStore,
} from 'react';
import { useShortcuts } from '../../parts/page.tsx';
import { type Layout, type Sizes, scrollShift } from '../model/layout.ts';

/** The visible part of the list, from its top. Sticky bars hide what is below them. */
function visibleRange(list: HTMLElement): { readonly top: number; readonly bottom: number } {
  const { top } = list.getBoundingClientRect();
  // The scroll margin of the list equals the height of the sticky bars.
  const barsHeight = Number.parseFloat(getComputedStyle(list).scrollMarginTop) || 0;
  return { top: barsHeight - top, bottom: window.innerHeight - top };
}

/** The heights of home.css in rem. */
const wideRem: Sizes = { row: 3.25, header: 2.25 };
const narrowRem: Sizes = { row: 5, header: 2.25 };

const narrowQuery = () => matchMedia('(max-width: 44rem)');

function subscribeNarrow(listener: () => void): () => void {
  const query = narrowQuery();
  query.addEventListener('change', listener);
  return () => query.removeEventListener('change', listener);
}

/** In pixels, with the user's font size. */
export function useSizes(): Sizes {
  const isNarrow = useSyncExternalStore(subscribeNarrow, () => narrowQuery().matches);
  return useMemo(() => {
    const rem = Number.parseFloat(getComputedStyle(document.documentElement).fontSize);
    const { row, header } = isNarrow ? narrowRem : wideRem;
    return { row: row * rem, header: header * rem };
  }, [isNarrow]);
}

/** Rows rendered above and below the visible ones. */
const overscan = 10;

/** The indexes of the rendered rows, in order: the visible rows, and the tab stop. */
export function useVirtualRows(
  layout: Layout,
  list: RefObject<HTMLElement | null>,
  tabStop: string | null,
): readonly number[] {
  const scrollMargin = useTopOf(list);
  const stop = layout.indexOf(tabStop);
  const virtualizer = useWindowVirtualizer({
    count: layout.rows.length,
    estimateSize: (index) => layout.heightOf(index),
    // The virtualizer computes all sizes again when this function changes.
    getItemKey: useCallback((index: number) => layout.rows[index] ?? index, [layout]),
    rangeExtractor: useCallback(
      (range: Range) => {
        const indexes = defaultRangeExtractor(range);
        if (stop === undefined || indexes.includes(stop)) return indexes;
        return [...indexes, stop].sort((a, b) => a - b);
      },
      [stop],
    ),
    overscan,
    scrollMargin,
  });
  return virtualizer.getVirtualItems().map(({ index }) => index);
}

/** The distance of the list from the top of the page. The overscan tolerates small errors. */
function useTopOf(list: RefObject<HTMLElement | null>): number {
  const [top, setTop] = useState(0);
  useEffect(() => {
    const measure = () =>
      list.current && setTop(Math.round(list.current.getBoundingClientRect().top + window.scrollY));
    measure();
    // What is above the list may appear later than the list.
    const observer = new ResizeObserver(measure);
    observer.observe(document.documentElement);
    addEventListener('resize', measure);
    return () => {
      observer.disconnect();
      removeEventListener('resize', measure);
    };
  }, [list]);
  return top;
}

/**
 * Keeps the rows that the user looks at in place when the order changes: the focused row, else most of the visible rows.
 * At the top of the page nothing is kept in place, so that new rows appear there.
 */
export function useScrollAnchor(
  layout: Layout,
  list: RefObject<HTMLElement | null>,
  focusedPage: () => string | null,
  onScroll: () => void,
): void {
  const before = useRef(layout);
  const isOwnScroll = useRef(false);

  useLayoutEffect(() => {
    const previous = before.current;
    before.current = layout;
    if (previous === layout || !list.current) return;
    const { top, bottom } = visibleRange(list.current);
    const visible = previous.rowsWithin(top, bottom);
    const focused = previous.indexOf(focusedPage());
    const isFocusVisible = focused !== undefined && focused >= visible.from && focused < visible.to;
    if (!isFocusVisible && top <= 0) return;
    const shift = scrollShift(
      previous,
      layout,
      isFocusVisible ? { from: focused, to: focused + 1 } : visible,
    );
    if (shift === 0) return;
    isOwnScroll.current = true;
    window.scrollBy(0, shift);
  }, [layout, list, focusedPage]);

  useEffect(() => {
    const scrolled = () => {
      if (!isOwnScroll.current) onScroll();
      isOwnScroll.current = false;
    };
    addEventListener('scroll', scrolled, { passive: true });
    return () => removeEventListener('scroll', scrolled);
  }, [onScroll]);
}

/** The scroll position and the selected row, saved in the browser's history so that "back" restores them. */
interface SavedPosition {
  readonly scrollTop: number;
  readonly selected: string | null;
}

function savedPosition(): SavedPosition | null {
  const { position } = (history.state ?? {}) as { position?: Partial<SavedPosition> };
  if (typeof position?.scrollTop !== 'number') return null;
  const { scrollTop, selected } = position;
  return { scrollTop, selected: typeof selected === 'string' ? selected : null };
}

const savePosition = (position: SavedPosition): void =>
  history.replaceState({ ...history.state, position }, '');

/** Browsers limit how often a page may change its history. */
const saveMs = 150;

/**
 * Restores the saved position once the list is loaded, and saves it from then on. The returned function saves it
 * immediately, before the user leaves the page.
 */
export function useSavedPosition(
  isLoaded: boolean,
  selected: string | null,
  selectedRow: RefObject<HTMLElement | null>,
): () => void {
  const isRestored = useRef(false);
  const isFocusDue = useRef(false);

  useLayoutEffect(() => {
    if (savedPosition() === null && window.scrollY > 0) window.scrollTo(0, 0);
    // The next page starts at its top.
    return () => window.scrollTo(0, 0);
  }, []);

  useLayoutEffect(() => {
    if (!isLoaded || isRestored.current) return;
    isRestored.current = true;
    const position = savedPosition();
    if (position === null) return;
    window.scrollTo(0, position.scrollTop);
    isFocusDue.current = position.selected !== null && document.activeElement === document.body;
  }, [isLoaded]);

  useLayoutEffect(() => {
    // The first rows are rendered only after the list knows how much of it is visible.
    if (!isFocusDue.current || !selectedRow.current) return;
    isFocusDue.current = false;
    selectedRow.current.focus({ preventScroll: true });
  });

  const save = useCallback(() => {
    if (isRestored.current) savePosition({ scrollTop: Math.round(window.scrollY), selected });
  }, [selected]);

  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const saveSoon = () => {
      clearTimeout(timer);
      timer = setTimeout(save, saveMs);
    };
    if (selected !== null) saveSoon();
    addEventListener('scroll', saveSoon, { passive: true });
    return () => {
      clearTimeout(timer);
      removeEventListener('scroll', saveSoon);
    };
  }, [save, selected]);

  return save;
}

interface RowFocus {
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

  const onKeyDown = useMoveKeys(step, goTo, layout.rows.length - 1);
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

/** j and k everywhere; arrows, Home and End where the returned listener is. */
function useMoveKeys(step: (by: number) => void, goTo: (index: number) => void, last: number) {
  useShortcuts({ j: () => step(1), k: () => step(-1) });
  return (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const act = {
      ArrowDown: () => step(1),
      ArrowUp: () => step(-1),
      Home: () => goTo(0),
      End: () => goTo(last),
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  };
}

function focusRow(link: HTMLAnchorElement | null): void {
  link?.focus({ preventScroll: true });
  link?.closest('li')?.scrollIntoView({ block: 'nearest' });
}
