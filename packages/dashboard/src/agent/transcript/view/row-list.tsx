import { defaultRangeExtractor, type Range, useVirtualizer, type Virtualizer } from '@tanstack/react-virtual';
import { type RefObject, useCallback, useEffect, useLayoutEffect, useRef } from 'react';
import type { Row } from '../model/rows.ts';
import type { AutoScroll } from './auto-scroll.ts';
import { matchesIn } from './match-marks.ts';
import { RowView } from './row-view.tsx';
import type { useTimeline } from './use-timeline.ts';

/** The next page is loaded when the view is this many rows from its edge. */
const loadAheadRows = 30;
/** Larger than any list, so the browser clamps it to the end. */
const farPx = 1e8;

interface RowListProps {
  readonly timeline: ReturnType<typeof useTimeline>;
  readonly scroller: RefObject<HTMLElement | null>;
  readonly autoScroll: AutoScroll;
  /** The entry in the address, highlighted and scrolled into view when it changes. */
  readonly target: { readonly sequence: number } | null;
  /** What is searched for: of a target that is larger than the screen, this text is shown. */
  readonly findText: string;
  readonly onRun: (run: number) => void;
}

/** A virtual list: only the rows on the screen are mounted. It is mounted again for another start position. */
export function RowList(props: RowListProps) {
  const { timeline, scroller, target, onRun } = props;
  const { window, view, rows, indexOf } = timeline;
  const virtualizer = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    getItemKey: useCallback((index: number) => rows[index]?.key ?? index, [rows]),
    estimateSize: (index) => (rows[index] ? estimatedHeight(rows[index]) : 32),
    rangeExtractor: (range) => mountedRows(range, scroller.current),
    overscan: 12,
    paddingStart: 32,
    paddingEnd: 24,
    initialRect: { width: 800, height: scroller.current?.clientHeight ?? 800 },
    initialOffset: view.position === 'end' ? farPx : 0,
    // An older page does not move the rows on the screen. AutoScroll keeps the view at the end.
    anchorTo: 'end',
    scrollEndThreshold: -1,
  });
  const targetIndex = target === null ? undefined : indexOf(target.sequence);
  useScrollPosition(props, virtualizer, targetIndex);

  const { startIndex = 0, endIndex = 0 } = virtualizer.range ?? {};
  const middle = (virtualizer.scrollOffset ?? 0) + (scroller.current?.clientHeight ?? 0) / 2;
  const shownRun = runOf(rows, virtualizer.getVirtualItemForOffset(middle)?.index ?? startIndex);
  useEffect(() => onRun(shownRun), [onRun, shownRun]);
  const isNearStart = startIndex < loadAheadRows;
  const isNearEnd = endIndex > rows.length - 1 - loadAheadRows;
  useEffect(() => {
    if (isNearStart && view.pageError === null) void window.loadOlder();
    if (isNearEnd && view.pageError === null) void window.loadNewer();
  });

  return (
    // biome-ignore lint/a11y/noRedundantRoles: without bullets, some browsers do not treat it as a list.
    <ol className="transcript-rows" role="list" style={{ height: virtualizer.getTotalSize() }}>
      {virtualizer.getVirtualItems().map(({ index, key, start }) => {
        const row = rows[index];
        return (
          row && (
            <li
              key={key}
              ref={virtualizer.measureElement}
              className="row"
              data-index={index}
              data-kind={row.kind}
              data-list={listEdges(rows, index)}
              data-target={index === targetIndex}
              aria-posinset={index + 1}
              aria-setsize={view.isAtStart && view.isAtEnd ? rows.length : -1}
              style={{ transform: `translateY(${start}px)` }}
            >
              <RowView row={row} isTimeShown={isNewMinute(rows[index - 1], row)} />
            </li>
          )
        );
      })}
    </ol>
  );
}

/** Starts at the position of the view, follows the end, and keeps each new target in view. */
function useScrollPosition(
  { timeline: { view }, scroller, autoScroll, target, findText }: RowListProps,
  virtualizer: Virtualizer<HTMLElement, Element>,
  targetIndex: number | undefined,
): void {
  const { position } = view;
  const height = virtualizer.getTotalSize();
  const items = virtualizer.getVirtualItems();

  // biome-ignore lint/correctness/useExhaustiveDependencies: runs once, for the start position.
  useLayoutEffect(() => {
    if (position === 'end') autoScroll.follow();
    else autoScroll.stopFollowing();
  }, []);
  // biome-ignore lint/correctness/useExhaustiveDependencies: runs after each change of the height.
  useLayoutEffect(() => autoScroll.onResize(), [autoScroll, height]);

  const isLoaded = targetIndex !== undefined;
  const isNewList = useRef(true);
  // biome-ignore lint/correctness/useExhaustiveDependencies: pins once per target, not when its row moves.
  useLayoutEffect(() => {
    if (!isLoaded) return;
    autoScroll.stopFollowing();
    const { scrollTop = 0, clientHeight = 0 } = scroller.current ?? {};
    const isVisible = items.some(
      ({ index, start, end }) =>
        index === targetIndex && start >= scrollTop && end <= scrollTop + clientHeight,
    );
    // Of a new list, no row is measured.
    if (!isVisible || isNewList.current) autoScroll.pin();
    isNewList.current = false;
  }, [target, isLoaded]);
  // The index and the offset of a row change while pages are loaded and rows are measured, so both are read each time.
  useLayoutEffect(() => {
    if (targetIndex === undefined || !autoScroll.isPinned) return;
    const item = virtualizer.measurementsCache[targetIndex];
    if (!item || !scroller.current) return;
    const match = item.size > scroller.current.clientHeight && matchIn(scroller.current, findText);
    const top = offsetInView(match || item, scroller.current);
    if (Math.abs(top - (virtualizer.scrollOffset ?? 0)) > 1) virtualizer.scrollToOffset(top);
  });
}

/** The first match in the target, as if it was a row. */
function matchIn(scroller: HTMLElement, text: string): { start: number; size: number } | undefined {
  const content = scroller.querySelector('[data-target="true"] .row-content');
  const [match] = content ? matchesIn(content, text, 1) : [];
  if (!match) return undefined;
  const { top, height } = match.getBoundingClientRect();
  return { start: top - scroller.getBoundingClientRect().top + scroller.scrollTop, size: height };
}

const topMarginPx = 32;

/** In the middle of the view, or with its beginning at the top if it does not fit. */
function offsetInView({ start, size }: { start: number; size: number }, scroller: HTMLElement): number {
  const { clientHeight, scrollHeight } = scroller;
  const top = start - Math.max(topMarginPx, (clientHeight - size) / 2);
  return Math.max(0, Math.min(top, scrollHeight - clientHeight));
}

/** The run of the row, or of the next row that has one. */
function runOf(rows: readonly Row[], index: number): number {
  for (const row of rows.slice(index, index + loadAheadRows)) {
    const entries =
      'entry' in row ? [row.entry] : 'entries' in row ? row.entries : [row.call ?? row.results[0]];
    const run = Number(entries.at(-1)?.runId ?? 0);
    if (run > 0) return run;
  }
  return 0;
}

const isToolRow = (row: Row | undefined): boolean => row?.kind === 'tool' || row?.kind === 'setup';

/** Consecutive tool rows are drawn as one box. */
function listEdges(rows: readonly Row[], index: number): string | undefined {
  if (!isToolRow(rows[index])) return undefined;
  return [isToolRow(rows[index - 1]) ? '' : 'first', isToolRow(rows[index + 1]) ? '' : 'last']
    .join(' ')
    .trim();
}

const minuteOf = (row: Row): string => row.at.slice(0, 16);
const isNewMinute = (before: Row | undefined, row: Row): boolean =>
  before === undefined || minuteOf(before) !== minuteOf(row);

const linePx = 21;
const lineLength = 90;

/** The height of a row before it is measured. A good estimate avoids a second render and a jumping scroll bar. */
function estimatedHeight(row: Row): number {
  switch (row.kind) {
    case 'tool':
    case 'setup':
      return 33;
    case 'system':
      return 28;
    case 'run-start':
    case 'run-end':
      return 40;
    case 'user':
      return 62 + textHeight(row.text ?? '');
    case 'question':
    case 'error':
      return 62 + textHeight(row.entry.text);
    case 'message':
      return 25 + textHeight(row.entry.text);
    case 'child':
      return 35;
    default:
      return 36;
  }
}

function textHeight(text: string): number {
  let lines = 0;
  for (const line of text.split('\n', 400)) lines += Math.max(0.6, Math.ceil(line.length / lineLength));
  return lines * linePx;
}

const maxSelected = 400;

/** The rows on the screen, and rows with the focus or the selection, which unmounting would lose. */
function mountedRows(range: Range, scroller: HTMLElement | null): number[] {
  const shown = defaultRangeExtractor(range);
  const held = scroller ? focusedAndSelected(scroller).filter((index) => index < range.count) : [];
  if (held.length === 0) return shown;
  return [...new Set([...shown, ...held])].sort((a, b) => a - b);
}

function focusedAndSelected(scroller: HTMLElement): number[] {
  const focused = rowIndexOf(document.activeElement, scroller);
  const selection = getSelection();
  const isSelected = selection !== null && !selection.isCollapsed;
  const ends = isSelected ? [selection.anchorNode, selection.focusNode] : [];
  const indexes = ends.map((node) => rowIndexOf(node, scroller)).filter((index) => index !== undefined);
  const first = Math.min(...indexes);
  const count = indexes.length === 0 ? 0 : Math.min(Math.max(...indexes) - first + 1, maxSelected);
  const selected = Array.from({ length: count }, (_, at) => first + at);
  return focused === undefined ? selected : [focused, ...selected];
}

function rowIndexOf(node: Node | null, scroller: HTMLElement): number | undefined {
  const element = node instanceof Element ? node : node?.parentElement;
  const row = element?.closest('[data-index]');
  if (!row || !scroller.contains(row)) return undefined;
  return Number(row.getAttribute('data-index'));
}
