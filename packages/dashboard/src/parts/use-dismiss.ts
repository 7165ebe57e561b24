import { type RefObject, useEffect } from 'react';

/** Closes what is open when somebody points elsewhere or presses Escape. */
export function useDismiss(ref: RefObject<HTMLElement | null>, isOpen: boolean, close: () => void): void {
  useEffect(() => {
    if (!isOpen) return;
    const onPointerDown = (event: PointerEvent) => {
      if (!ref.current?.contains(event.target as Node)) close();
    };
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.key === 'Escape') close();
    };
    addEventListener('pointerdown', onPointerDown);
    addEventListener('keydown', onKeyDown);
    return () => {
      removeEventListener('pointerdown', onPointerDown);
      removeEventListener('keydown', onKeyDown);
    };
  }, [ref, isOpen, close]);
}
