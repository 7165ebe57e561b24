import { type KeyboardEvent, type ReactNode, useCallback, useEffect, useId, useRef, useState } from 'react';
import { Button } from './button.tsx';
import { useDismiss } from './dialog.tsx';
import './menu.css';

export interface MenuItem {
  readonly title: string;
  /** Why it is not possible, or what it does. */
  readonly note?: string | undefined;
  readonly isDisabled?: boolean;
  readonly isDanger?: boolean;
  readonly onSelect: () => void;
}

interface MenuProps {
  /** The name for screen readers, also of the button. */
  readonly label: string;
  readonly items: readonly MenuItem[];
  readonly children: ReactNode;
}

interface Place {
  readonly right: number;
  readonly top?: number;
  readonly bottom?: number;
}

/** Below the button, or above it if there is more room. The list is not cut off by a parent that scrolls. */
function placeAt({ right, top, bottom }: DOMRect): Place {
  const aside = { right: Math.max(8, innerWidth - right) };
  return bottom > innerHeight / 2
    ? { ...aside, bottom: innerHeight - top + 4 }
    : { ...aside, top: bottom + 4 };
}

/** A button that opens a list of actions. The arrow keys move in it, Escape closes it. */
export function Menu({ label, items, children }: MenuProps) {
  const [place, setPlace] = useState<Place | null>(null);
  const id = useId();
  const ref = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const isOpen = place !== null;
  const close = useCallback(() => {
    setPlace(null);
    // The focused element is removed with the list.
    if (ref.current?.contains(document.activeElement)) button.current?.focus();
  }, []);
  useDismiss(ref, isOpen, close);
  useEffect(() => {
    if (!isOpen) return;
    ref.current?.querySelector<HTMLElement>('[role="menuitem"]')?.focus();
    addEventListener('resize', close);
    return () => removeEventListener('resize', close);
  }, [isOpen, close]);

  return (
    <div className="menu" ref={ref}>
      <Button
        ref={button}
        look="quiet"
        aria-label={label}
        title={label}
        aria-haspopup="menu"
        aria-expanded={isOpen}
        aria-controls={isOpen ? id : undefined}
        onClick={() =>
          isOpen ? close() : setPlace(placeAt(button.current?.getBoundingClientRect() as DOMRect))
        }
      >
        {children}
      </Button>
      {place && <MenuList {...{ id, label, items, place, close }} />}
    </div>
  );
}

interface MenuListProps extends Pick<MenuProps, 'label' | 'items'> {
  readonly id: string;
  readonly place: Place;
  readonly close: () => void;
}

function MenuList({ id, label, items, place, close }: MenuListProps) {
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Tab') return close();
    const all = [...event.currentTarget.querySelectorAll<HTMLElement>('[role="menuitem"]')];
    const at = all.indexOf(document.activeElement as HTMLElement);
    const moves: Readonly<Record<string, number>> = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 };
    const next = moves[event.key];
    if (next === undefined) return;
    event.preventDefault();
    all.at(next % all.length)?.focus();
  };
  return (
    <div id={id} className="menu-list" role="menu" aria-label={label} style={place} onKeyDown={onKeyDown}>
      {items.map(({ title, note, isDisabled = false, isDanger = false, onSelect }) => (
        <button
          key={title}
          type="button"
          role="menuitem"
          tabIndex={-1}
          data-danger={isDanger}
          aria-disabled={isDisabled}
          onClick={() => {
            if (isDisabled) return;
            close();
            onSelect();
          }}
        >
          {title}
          {note !== undefined && <small>{note}</small>}
        </button>
      ))}
    </div>
  );
}
