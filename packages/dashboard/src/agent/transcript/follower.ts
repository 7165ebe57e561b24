/** So near to the end one is at it. */
const nearPx = 32;
const inputMs = 600;
const foldMs = 600;

/**
 * Keeps the reader at the end of what grows, until he goes away from it, and again once he is back.
 *
 * A scroll event does not tell who scrolled: rows that turn out lower than thought move the view up, too. So going away
 * is what follows the reader's own input, or an upward move for which the layout is no reason. Coming back is being
 * near the end after a downward move. A selection holds the view as it is: what moves can't be selected.
 */
export class Follower {
  readonly #scroller: HTMLElement;
  readonly #isEndHere: () => boolean;
  readonly #onChange: () => void;
  #isFollowing = true;
  #isHeld = false;
  #top = 0;
  #height = 0;
  #inputMs = Number.NEGATIVE_INFINITY;
  #foldMs = Number.NEGATIVE_INFINITY;
  #touchY = 0;

  /** `isEndHere` tells whether the end of what can be scrolled is the end of everything. */
  constructor(scroller: HTMLElement, isEndHere: () => boolean, onChange: () => void) {
    this.#scroller = scroller;
    this.#isEndHere = isEndHere;
    this.#onChange = onChange;
  }

  get isFollowing(): boolean {
    return this.#isFollowing;
  }

  /** At the end, and nothing keeps the view from going along. */
  get isAlong(): boolean {
    return this.#isFollowing && !this.#isHeld;
  }

  follow(): void {
    this.#foldMs = Number.NEGATIVE_INFINITY;
    this.#set(true);
    this.settle();
  }

  leave(): void {
    this.#set(false);
  }

  /** To the first row; where everything is on the screen, that is the end as well. */
  toTop(): void {
    this.#scroller.scrollTop = 0;
    this.#set(this.#isWithin(1));
  }

  /** What is on the screen is about to be folded or unfolded: its place matters more than the end. */
  keepPlace(): void {
    this.#foldMs = performance.now();
    this.#set(false);
  }

  /** After what is in the view, or the view itself, has another height. */
  settle(): void {
    if (performance.now() - this.#foldMs < foldMs) return this.#set(this.#isWithin(1));
    if (!this.isAlong) return;
    this.#scroller.scrollTop = this.#scroller.scrollHeight;
    this.#remember();
  }

  attach(): () => void {
    const stop = new AbortController();
    const options = { signal: stop.signal, passive: true };
    const scroller = this.#scroller;
    scroller.addEventListener('scroll', () => this.#scrolled(), options);
    scroller.addEventListener('wheel', ({ deltaY }) => this.#pushed(deltaY < 0), options);
    scroller.addEventListener('touchstart', (event) => this.#touched(event), options);
    scroller.addEventListener('touchmove', (event) => this.#touched(event), options);
    scroller.addEventListener('pointerdown', () => this.#pushed(false), options);
    scroller.addEventListener(
      'pointermove',
      ({ buttons }) => {
        if (buttons !== 0) this.#pushed(false);
      },
      options,
    );
    scroller.addEventListener('keydown', ({ key }) => this.#pushed(/^(ArrowUp|PageUp)$/.test(key)), options);
    document.addEventListener('selectionchange', () => this.#selected(), options);
    const observer = new ResizeObserver(() => this.settle());
    observer.observe(scroller);
    this.#remember();
    return () => {
      stop.abort();
      observer.disconnect();
    };
  }

  #pushed(isUp: boolean): void {
    this.#inputMs = performance.now();
    if (isUp && this.#scroller.scrollTop > 0) this.#set(false);
  }

  #touched(event: TouchEvent): void {
    const y = event.touches[0]?.clientY ?? 0;
    this.#pushed(event.type === 'touchmove' && y > this.#touchY + 2);
    this.#touchY = y;
  }

  #scrolled(): void {
    const { scrollTop, scrollHeight } = this.#scroller;
    const isUp = scrollTop < this.#top - 1;
    const isInput = performance.now() - this.#inputMs < inputMs;
    const isLayout = scrollHeight < this.#height;
    this.#remember();
    if (isUp && (isInput || !isLayout) && !this.#isWithin(1)) this.#set(false);
    else if (!isUp && this.#isWithin(nearPx) && performance.now() - this.#foldMs >= foldMs) this.#set(true);
  }

  #selected(): void {
    const selection = getSelection();
    const isHeld =
      selection !== null && !selection.isCollapsed && this.#scroller.contains(selection.anchorNode);
    if (isHeld === this.#isHeld) return;
    this.#isHeld = isHeld;
    this.#onChange();
    this.settle();
  }

  #remember(): void {
    this.#top = this.#scroller.scrollTop;
    this.#height = this.#scroller.scrollHeight;
  }

  #isWithin(px: number): boolean {
    const { scrollTop, scrollHeight, clientHeight } = this.#scroller;
    return scrollHeight - clientHeight - scrollTop <= px && this.#isEndHere();
  }

  #set(isFollowing: boolean): void {
    if (isFollowing === this.#isFollowing) return;
    this.#isFollowing = isFollowing;
    this.#onChange();
  }
}
