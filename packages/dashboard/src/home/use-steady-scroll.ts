import { type RefObject, useEffect, useLayoutEffect, useRef } from 'react';
import { driftOf, type Layout } from './layout.ts';
import { listView } from './list-view.ts';

/**
 * When the order changes, what the reader looks at stays where it is: the agent that the keys are on, else most of what
 * is in view. At the very top nothing is kept in place, because what is new there is what one came for.
 */
export function useSteadyScroll(
  layout: Layout,
  list: RefObject<HTMLElement | null>,
  /** The agent that has the focus. */
  focused: () => string | null,
  onScroll: () => void,
): void {
  const before = useRef(layout);
  const isOwnScroll = useRef(false);

  useLayoutEffect(() => {
    const previous = before.current;
    before.current = layout;
    if (previous === layout || !list.current) return;
    const { top, bottom } = listView(list.current);
    const view = previous.within(top, bottom);
    const place = previous.placeOf(focused());
    const isFollowed = place !== undefined && place >= view.from && place < view.to;
    if (!isFollowed && top <= 0) return;
    const followed = isFollowed ? { from: place, to: place + 1 } : view;
    const drift = driftOf(previous, layout, followed);
    if (drift === 0) return;
    isOwnScroll.current = true;
    window.scrollBy(0, drift);
  }, [layout, list, focused]);

  useEffect(() => {
    const scrolled = () => {
      if (!isOwnScroll.current) onScroll();
      isOwnScroll.current = false;
    };
    addEventListener('scroll', scrolled, { passive: true });
    return () => removeEventListener('scroll', scrolled);
  }, [onScroll]);
}
