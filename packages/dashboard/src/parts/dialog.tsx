import { type ReactNode, type RefObject, useEffect, useId, useRef } from 'react';
import { Button, CopyButton } from './button.tsx';
import { Field } from './field.tsx';

interface DialogProps {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ReactNode;
  readonly isWide?: boolean;
}

/**
 * A modal dialog, open as long as it is rendered. Escape and a click outside close it. The element with `data-autofocus`
 * gets the focus.
 */
export function Dialog({ title, onClose, children, isWide = false }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null);
  const titleId = useId();

  useEffect(() => {
    const dialog = ref.current;
    const before = document.activeElement;
    if (!dialog?.open) dialog?.showModal();
    // The browser would focus the close button; React sets no attribute for `autoFocus`.
    dialog?.querySelector<HTMLElement>('[data-autofocus]')?.focus();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);

  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape is the keyboard's way to close the dialog.
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
      <div className="dialog-body stack">
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

/** The buttons of a dialog, the main one last. */
export const DialogActions = ({ children }: { readonly children: ReactNode }) => (
  <footer className="dialog-actions wrap">{children}</footer>
);

interface OneTimeSecretProps {
  readonly title: string;
  /** `Key`, `Link`, `Signing key`. */
  readonly label: string;
  readonly secret: string;
  readonly onClose: () => void;
  /** How to use it. */
  readonly children?: ReactNode;
}

/**
 * Shows a secret once. The caller holds it in component state and drops it in `onClose`, so that it is never in a query
 * cache, a URL or storage.
 */
export function OneTimeSecret({ title, label, secret, onClose, children }: OneTimeSecretProps) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <Dialog title={title} onClose={onClose}>
      <div className="one-time-secret wrap">
        <Field label={label} hint="Copy it now. It won't be shown again.">
          {(attributes) => (
            <input
              {...attributes}
              ref={input}
              readOnly
              value={secret}
              spellCheck={false}
              autoComplete="off"
              onFocus={() => input.current?.select()}
            />
          )}
        </Field>
        <CopyButton text={secret} label={`Copy ${label.toLowerCase()}`} />
      </div>
      {children}
      <DialogActions>
        <Button look="primary" onClick={onClose}>
          Done
        </Button>
      </DialogActions>
    </Dialog>
  );
}

/** Closes an open menu on a click outside and on Escape. */
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
