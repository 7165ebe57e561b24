import { type ReactNode, useEffect, useId, useRef } from 'react';
import { Button } from './button.tsx';
import './dialog.css';

/**
 * A modal window. It is open as long as it is rendered; Escape and a click beside it close it. The focus begins at the
 * element with `data-autofocus`.
 */
export function Dialog({
  title,
  onClose,
  children,
  isWide = false,
}: {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ReactNode;
  readonly isWide?: boolean;
}) {
  const ref = useRef<HTMLDialogElement>(null);
  const titleId = useId();

  useEffect(() => {
    const dialog = ref.current;
    const before = document.activeElement;
    if (!dialog?.open) dialog?.showModal();
    // The browser would begin at the button that closes it; React sets no attribute for `autoFocus`.
    dialog?.querySelector<HTMLElement>('[data-autofocus]')?.focus();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);

  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape does from the keyboard what a click beside the window does.
    <dialog
      ref={ref}
      className={`dialog ${isWide ? 'dialog-wide' : ''}`}
      aria-labelledby={titleId}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => {
        if (event.target === ref.current) onClose();
      }}
    >
      <div className="dialog-body">
        <header>
          <h2 id={titleId}>{title}</h2>
          <Button look="quiet" aria-label="Close" onClick={onClose}>
            ✕
          </Button>
        </header>
        {children}
      </div>
    </dialog>
  );
}

/** What a dialog ends with: its buttons, the one that does it last. */
export const DialogActions = ({ children }: { readonly children: ReactNode }) => (
  <footer className="dialog-actions">{children}</footer>
);
