import { type TouchEvent, useRef } from 'react';

const leastPx = 70;

/** A finger that moves sideways shows the next or the previous agent. Text and code that scroll sideways keep their own. */
export function useSwipe(onSwipe: (by: 1 | -1) => void) {
  const start = useRef<{ readonly x: number; readonly y: number } | null>(null);
  return {
    onTouchStart: ({ touches, target }: TouchEvent) => {
      const touch = touches.length === 1 ? touches[0] : undefined;
      const isFree =
        target instanceof Element && !target.closest('textarea, input, select') && !scrolls(target);
      start.current = touch && isFree ? { x: touch.clientX, y: touch.clientY } : null;
    },
    onTouchEnd: ({ changedTouches }: TouchEvent) => {
      const touch = changedTouches[0];
      const from = start.current;
      start.current = null;
      if (!touch || !from) return;
      const across = touch.clientX - from.x;
      if (Math.abs(across) >= leastPx && Math.abs(across) > 2 * Math.abs(touch.clientY - from.y))
        onSwipe(across < 0 ? 1 : -1);
    },
  };
}

function scrolls(target: Element): boolean {
  for (let element: Element | null = target; element; element = element.parentElement) {
    const isWider = element.scrollWidth > element.clientWidth + 1;
    if (isWider && /auto|scroll/.test(getComputedStyle(element).overflowX)) return true;
  }
  return false;
}
