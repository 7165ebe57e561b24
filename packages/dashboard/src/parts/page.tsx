import { type ReactNode, useEffect, useLayoutEffect, useRef } from 'react';
import type { Tone } from './model/tone.ts';

interface EmptyProps {
  readonly title: string;
  readonly isPage?: boolean;
  readonly children?: ReactNode;
}

/** An empty state: what belongs here, and the first action. `isPage` when it is the whole page. */
export function Empty({ title, isPage = false, children }: EmptyProps) {
  const Heading = isPage ? 'h1' : 'h2';
  return (
    <div className="empty stack">
      <Heading>{title}</Heading>
      {children}
    </div>
  );
}

let title = 'Muster';
let titleCount = 0;

const showTitle = (): void => {
  document.title = titleCount > 0 ? `(${titleCount}) ${title}` : title;
};

/** The title of a background tab shows a number; 0 shows none. */
export function setTitleCount(count: number): void {
  titleCount = count;
  showTitle();
}

function setTitle(next: string): void {
  title = next;
  showTitle();
}

/** Sets the title of the browser tab. The cleanup of the previous page runs before the next page sets its title. */
export function useTitle(name: string): void {
  useLayoutEffect(() => setTitle(name), [name]);
  useLayoutEffect(() => () => setTitle('Muster'), []);
}

export const Label = ({ text }: { readonly text: string }) => (
  <span className="label secondary" dir="auto" title={text}>
    {text}
  </span>
);

/** By `KeyboardEvent.key`. */
type Shortcuts = Readonly<Record<string, () => void>>;

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement &&
  (target.isContentEditable ||
    target.matches('input:not([type="checkbox"], [type="radio"]), textarea, select'));

/**
 * Single-key shortcuts. They are off while the user types in a field and while a dialog is open. `areFirst`: for a page
 * whose keys mean something else on other pages.
 */
export function useShortcuts(shortcuts: Shortcuts, { areFirst = false } = {}): void {
  const current = useRef(shortcuts);
  current.current = shortcuts;
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      if (isTyping(event.target) || document.querySelector('dialog[open]')) return;
      const act = current.current[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    };
    addEventListener('keydown', onKeyDown, areFirst);
    return () => removeEventListener('keydown', onKeyDown, areFirst);
  }, [areFirst]);
}

/** A state in one or two words. */
export const Mark = ({
  tone,
  title,
  children,
}: {
  readonly tone: Tone;
  readonly title?: string;
  readonly children: ReactNode;
}) => (
  <span className="mark" data-tone={tone} title={title}>
    {children}
  </span>
);
