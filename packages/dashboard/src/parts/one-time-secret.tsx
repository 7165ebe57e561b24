import { useRef } from 'react';
import { Button } from './button.tsx';
import { CopyButton } from './copy-button.tsx';
import { Dialog, DialogActions } from './dialog.tsx';
import { Field } from './field.tsx';
import './one-time-secret.css';

/**
 * A secret that can be read this once. Whoever shows it keeps it in the state of one component and drops it in
 * `onClose`: it is in no query, no address and no storage, and a reload has forgotten it.
 */
export function OneTimeSecret({
  title,
  label,
  secret,
  onClose,
}: {
  readonly title: string;
  /** What it is: `Key`, `Link`, `Signing key`. */
  readonly label: string;
  readonly secret: string;
  readonly onClose: () => void;
}) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <Dialog title={title} onClose={onClose}>
      <div className="one-time-secret">
        <Field label={label} hint="Copy it now and keep it safe. It can't be shown again.">
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
        <CopyButton text={secret} label={`Copy the ${label.toLowerCase()}`} />
      </div>
      <DialogActions>
        <Button look="primary" onClick={onClose}>
          Done
        </Button>
      </DialogActions>
    </Dialog>
  );
}
