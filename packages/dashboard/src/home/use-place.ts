import { type RefObject, useCallback, useEffect, useLayoutEffect, useRef } from 'react';
import { keepPlace, keptPlace } from './place.ts';

/** A browser lets a page change its history only so often. */
const keepMs = 150;

/**
 * Brings the reader back to the place that this entry of the history has, once the list is whole, and keeps the place
 * up to date from then on. The returned function keeps it now, for who is about to leave.
 */
export function usePlace(
  isLoaded: boolean,
  marked: string | null,
  markedRow: RefObject<HTMLElement | null>,
): () => void {
  const isRestored = useRef(false);
  const isFocusDue = useRef(false);

  useLayoutEffect(() => {
    if (keptPlace() === null && window.scrollY > 0) window.scrollTo(0, 0);
    // Whoever leaves the list leaves its height behind: the next page begins at its top.
    return () => window.scrollTo(0, 0);
  }, []);

  useLayoutEffect(() => {
    if (!isLoaded || isRestored.current) return;
    isRestored.current = true;
    const place = keptPlace();
    if (place === null) return;
    window.scrollTo(0, place.scrollTop);
    isFocusDue.current = place.marked !== null && document.activeElement === document.body;
  }, [isLoaded]);

  useLayoutEffect(() => {
    // The list draws its first rows only when it knows how much of it is in view.
    if (!isFocusDue.current || !markedRow.current) return;
    isFocusDue.current = false;
    markedRow.current.focus({ preventScroll: true });
  });

  const keep = useCallback(() => {
    if (isRestored.current) keepPlace({ scrollTop: Math.round(window.scrollY), marked });
  }, [marked]);

  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const keepSoon = () => {
      clearTimeout(timer);
      timer = setTimeout(keep, keepMs);
    };
    if (marked !== null) keepSoon();
    addEventListener('scroll', keepSoon, { passive: true });
    return () => {
      clearTimeout(timer);
      removeEventListener('scroll', keepSoon);
    };
  }, [keep, marked]);

  return keep;
}
