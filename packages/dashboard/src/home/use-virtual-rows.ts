import { defaultRangeExtractor, type Range, useWindowVirtualizer } from '@tanstack/react-virtual';
import { type RefObject, useCallback, useEffect, useState } from 'react';
import type { Layout } from './layout.ts';

/** So many rows above and below what is in view are there too. */
const overscan = 10;

/** The places of the rows that are drawn, in order: those in view, and the one that Tab leads to. */
export function useVirtualRows(
  layout: Layout,
  list: RefObject<HTMLElement | null>,
  tabStop: string | null,
): readonly number[] {
  const scrollMargin = useTopOf(list);
  const stop = layout.placeOf(tabStop);
  const virtualizer = useWindowVirtualizer({
    count: layout.rows.length,
    estimateSize: (place) => layout.sizeOf(place),
    // The virtualizer looks at all sizes again when this is another function.
    getItemKey: useCallback((place: number) => layout.rows[place] ?? place, [layout]),
    rangeExtractor: useCallback(
      (range: Range) => {
        const places = defaultRangeExtractor(range);
        if (stop === undefined || places.includes(stop)) return places;
        return [...places, stop].sort((a, b) => a - b);
      },
      [stop],
    ),
    overscan,
    scrollMargin,
  });
  return virtualizer.getVirtualItems().map(({ index }) => index);
}

/** How far down the page the list begins. The rows that are drawn beyond the view forgive a little. */
function useTopOf(list: RefObject<HTMLElement | null>): number {
  const [top, setTop] = useState(0);
  useEffect(() => {
    const measure = () =>
      list.current && setTop(Math.round(list.current.getBoundingClientRect().top + window.scrollY));
    measure();
    addEventListener('resize', measure);
    return () => removeEventListener('resize', measure);
  }, [list]);
  return top;
}
