import { type RefObject, useLayoutEffect, useState } from 'react';
import type { TimelineWindow } from '../model/timeline-window.ts';

/** Within this distance the view counts as being at the end. */
const nearPx = 32;
const inputMs = 600;
const holdMs = 600;

/**
 * Keeps the view at the end of a growing list until the reader scrolls away, and again once the reader is back.
 *
 * A scroll event does not tell its cause: rows that are lower than estimated move the view up, too. So the reader
 * scrolled away if the event follows user input, or if the view moved up although the height did not shrink. The reader
 * is back when the view is near the end after a downward move. While text is selected the view does not move.
 *
 * After a jump the view is pinned to an entry instead, until the reader scrolls: rows above it are measured, images are
 * loaded and pages are added long after the jump.
 */
export class AutoScroll {
  readonly #scroller: HTMLElement;
  readonly #isAtTimelineEnd: () => boolean;
  readonly #onChange: () => void;
  #isFollowing = true;
  #isSelecting = false;
  #isPinned = false;
  #top = 0;
  #height = 0;
  #inputMs = Number.NEGATIVE_INFINITY;
  #holdMs = Number.NEGATIVE_INFINITY;
  #touchY = 0;

  /** `isAtTimelineEnd` is false while the list ends before the end of the timeline. */
  constructor(scroller: HTMLElement, isAtTimelineEnd: () => boolean, onChange: () => void) {
    this.#scroller = scroller;
    this.#isAtTimelineEnd = isAtTimelineEnd;
    this.#onChange = onChange;
  }

  get isFollowing(): boolean {
    return this.#isFollowing;
  }

  /** Following, and not stopped by a selection. */
  get isActive(): boolean {
    return this.#isFollowing && !this.#isSelecting;
  }

  /** The view stays at one entry, wherever its row is. */
  get isPinned(): boolean {
    return this.#isPinned;
  }

  follow(): void {
    this.#holdMs = Number.NEGATIVE_INFINITY;
    this.#isPinned = false;
    this.#set(true);
    this.onResize();
  }

  stopFollowing(): void {
    this.#isPinned = false;
    this.#set(false);
  }

  pin(): void {
    this.#isPinned = true;
    this.#set(false);
  }

  /** Scrolls to the first row. If everything fits on the screen, that is also the end. */
  toTop(): void {
    this.#isPinned = false;
    this.#scroller.scrollTop = 0;
    this.#set(this.#isWithin(1));
  }

  /** Stays at this offset while a row on the screen expands or collapses. */
  holdPosition(): void {
    this.#holdMs = performance.now();
    this.#isPinned = false;
    this.#set(false);
  }

  /** Called after the height of the list or of the view changed. */
  onResize(): void {
    if (performance.now() - this.#holdMs < holdMs) return this.#set(this.#isWithin(1));
    if (!this.isActive) return;
    this.#scroller.scrollTop = this.#scroller.scrollHeight;
    this.#remember();
  }

  attach(): () => void {
    const stop = new AbortController();
    const options = { signal: stop.signal, passive: true };
    const scroller = this.#scroller;
    scroller.addEventListener('scroll', () => this.#onScroll(), options);
    scroller.addEventListener('wheel', ({ deltaY }) => this.#onInput(deltaY < 0), options);
    scroller.addEventListener('touchstart', (event) => this.#onTouch(event), options);
    scroller.addEventListener('touchmove', (event) => this.#onTouch(event), options);
    scroller.addEventListener('pointerdown', () => this.#onInput(false), options);
    scroller.addEventListener('pointermove', ({ buttons }) => buttons && this.#onInput(false), options);
    scroller.addEventListener('keydown', ({ key }) => this.#onInput(/^(ArrowUp|PageUp)$/.test(key)), options);
    document.addEventListener('selectionchange', () => this.#onSelection(), options);
    const observer = new ResizeObserver(() => this.onResize());
    observer.observe(scroller);
    this.#remember();
    return () => {
      stop.abort();
      observer.disconnect();
    };
  }

  #onInput(isUp: boolean): void {
    this.#inputMs = performance.now();
    this.#isPinned = false;
    if (isUp && this.#scroller.scrollTop > 0) this.#set(false);
  }

  #onTouch(event: TouchEvent): void {
    const y = event.touches[0]?.clientY ?? 0;
    this.#onInput(event.type === 'touchmove' && y > this.#touchY + 2);
    this.#touchY = y;
  }

  #onScroll(): void {
    const { scrollTop, scrollHeight } = this.#scroller;
    const isUp = scrollTop < this.#top - 1;
    const isInput = performance.now() - this.#inputMs < inputMs;
    const isLayout = scrollHeight < this.#height;
    this.#remember();
    if (this.#isPinned) return;
    if (isUp && (isInput || !isLayout) && !this.#isWithin(1)) this.#set(false);
    else if (!isUp && this.#isWithin(nearPx) && performance.now() - this.#holdMs >= holdMs) this.#set(true);
  }

  #onSelection(): void {
    const selection = getSelection();
    const isSelecting =
      selection !== null && !selection.isCollapsed && this.#scroller.contains(selection.anchorNode);
    if (isSelecting === this.#isSelecting) return;
    this.#isSelecting = isSelecting;
    this.#onChange();
    this.onResize();
  }

  #remember(): void {
    this.#top = this.#scroller.scrollTop;
    this.#height = this.#scroller.scrollHeight;
  }

  #isWithin(px: number): boolean {
    const { scrollTop, scrollHeight, clientHeight } = this.#scroller;
    return scrollHeight - clientHeight - scrollTop <= px && this.#isAtTimelineEnd();
  }

  #set(isFollowing: boolean): void {
    if (isFollowing === this.#isFollowing) return;
    this.#isFollowing = isFollowing;
    this.#onChange();
  }
}

export function useAutoScroll(scroller: RefObject<HTMLElement | null>, window: TimelineWindow) {
  const [autoScroll, setAutoScroll] = useState<AutoScroll | null>(null);
  /** The newest entry when the view stopped following; null while it follows. */
  const [stoppedAt, setStoppedAt] = useState<number | null>(null);
  useLayoutEffect(() => {
    if (!scroller.current) return;
    const isAtTimelineEnd = () => window.view().isAtEnd;
    const created = new AutoScroll(scroller.current, isAtTimelineEnd, () => {
      window.isFollowed = created.isFollowing;
      setStoppedAt((before) => (created.isActive ? null : (before ?? window.view().newest)));
    });
    setAutoScroll(created);
    return created.attach();
  }, [scroller, window]);
  return { autoScroll, stoppedAt };
}
