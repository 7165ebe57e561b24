import { useVirtualizer } from '@tanstack/react-virtual';
import { type RefObject, useCallback, useEffect, useLayoutEffect } from 'react';
import type { Follower } from './follower.ts';
import { keptRows } from './kept-rows.ts';
import { estimatedHeight } from './row-height.ts';
import { RowView } from './row-view.tsx';
import type { Row } from './rows.ts';
import type { Place } from './timeline-window.ts';

/** So many rows before an edge of the window its next page is asked for. */
const aheadRows = 30;
/** More than any page is high: the browser makes of it the end. */
const farPx = 1e8;

interface RowListProps {
  readonly rows: readonly Row[];
  readonly scroller: RefObject<HTMLElement | null>;
  readonly follower: Follower;
  readonly place: Place;
  /** Where the row of an entry is. */
  readonly placeOf: (sequence: number) => number | undefined;
  /** The entry that the address names, marked and, whenever that changes, brought into view. */
  readonly target: { readonly sequence: number } | null;
  readonly isWhole: boolean;
  readonly onNearStart: () => void;
  readonly onNearEnd: () => void;
}

/** The rows on the screen, each where it belongs in the height of all of them. */
export function RowList(props: RowListProps) {
  const { rows, scroller, follower, place, placeOf, target, isWhole, onNearStart, onNearEnd } = props;
  const virtualizer = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    getItemKey: useCallback((at: number) => rows[at]?.key ?? at, [rows]),
    estimateSize: (at) => (rows[at] ? estimatedHeight(rows[at]) : 32),
    rangeExtractor: (range) => keptRows(range, scroller.current),
    overscan: 12,
    paddingStart: 32,
    paddingEnd: 24,
    initialRect: { width: 800, height: scroller.current?.clientHeight ?? 800 },
    initialOffset: place === 'end' ? farPx : 0,
    // An older page leaves the rows on the screen where they are. Staying at the end is the follower's business.
    anchorTo: 'end',
    scrollEndThreshold: -1,
  });
  const height = virtualizer.getTotalSize();
  const items = virtualizer.getVirtualItems();

  // biome-ignore lint/correctness/useExhaustiveDependencies: this list is made for one place, and begins there.
  useLayoutEffect(() => {
    if (place === 'end') return follower.follow();
    follower.leave();
    const begin = typeof place === 'number' ? placeOf(place) : undefined;
    if (begin !== undefined) virtualizer.scrollToIndex(begin, { align: 'center' });
  }, []);
  // biome-ignore lint/correctness/useExhaustiveDependencies: whatever changes the height is to be followed.
  useLayoutEffect(() => follower.settle(), [follower, height]);

  const targetRow = target === null ? undefined : placeOf(target.sequence);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a row that moves is not to be brought into view again.
  useLayoutEffect(() => {
    if (targetRow === undefined) return;
    follower.leave();
    const { scrollTop = 0, clientHeight = 0 } = scroller.current ?? {};
    const isSeen = items.some(
      ({ index, start, end }) => index === targetRow && start >= scrollTop && end <= scrollTop + clientHeight,
    );
    if (!isSeen) virtualizer.scrollToIndex(targetRow, { align: 'center' });
  }, [target]);

  const { startIndex = 0, endIndex = 0 } = virtualizer.range ?? {};
  const isNearStart = startIndex < aheadRows;
  const isNearEnd = endIndex > rows.length - 1 - aheadRows;
  useEffect(() => {
    if (isNearStart) onNearStart();
    if (isNearEnd) onNearEnd();
  });

  return (
    // biome-ignore lint/a11y/noRedundantRoles: a list without marks is none to some browsers.
    <ol className="transcript-rows" role="list" style={{ height }}>
      {items.map(({ index, key, start }) => {
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
              data-target={index === targetRow}
              aria-posinset={index + 1}
              aria-setsize={isWhole ? rows.length : -1}
              style={{ transform: `translateY(${start}px)` }}
            >
              <RowView row={row} isTimed={isNewMinute(rows[index - 1], row)} />
            </li>
          )
        );
      })}
    </ol>
  );
}

const isListed = (row: Row | undefined): boolean => row?.kind === 'tool' || row?.kind === 'setup';

/** Calls that follow one another are drawn as one list. */
function listEdges(rows: readonly Row[], at: number): string | undefined {
  if (!isListed(rows[at])) return undefined;
  return [isListed(rows[at - 1]) ? '' : 'first', isListed(rows[at + 1]) ? '' : 'last'].join(' ').trim();
}

const minute = (row: Row): string => row.at.slice(0, 16);
const isNewMinute = (before: Row | undefined, row: Row): boolean =>
  before === undefined || minute(before) !== minute(row);
