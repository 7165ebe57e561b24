import type { Kind } from '@muster/sdk/contract';
import { ConfirmDialog } from './confirm-dialog.tsx';
import { EndDialog } from './secret/end-dialog.tsx';
import { RotateDialog } from './secret/rotate-dialog.tsx';

/** What the page of a resource is asking, if anything. */
export type Asked = 'rotate' | 'end' | 'discard' | { readonly bringBack: string } | null;

/** The questions that come before something ends or is lost. */
export function ResourceDialogs({
  kind,
  name,
  generation,
  asked,
  onClose,
  onSecret,
  onEnded,
  onDiscard,
  onBringBack,
}: {
  readonly kind: Kind;
  readonly name: string;
  readonly generation: string;
  readonly asked: Asked;
  readonly onClose: () => void;
  readonly onSecret: (secret: string) => void;
  readonly onEnded: () => void;
  readonly onDiscard: () => void;
  readonly onBringBack: (text: string) => void;
}) {
  const resource = { kind, name, generation, onClose };
  switch (asked) {
    case null:
      return null;
    case 'rotate':
      return (
        <RotateDialog
          {...resource}
          onRotated={(secret) => {
            onClose();
            onSecret(secret);
          }}
        />
      );
    case 'end':
      return <EndDialog {...resource} onEnded={onEnded} />;
    case 'discard':
      return (
        <ConfirmDialog
          title="Discard your changes?"
          yes="Discard them"
          no="Keep them"
          onNo={onClose}
          onYes={() => {
            onClose();
            onDiscard();
          }}
        >
          The text goes back to what it was when you began.
        </ConfirmDialog>
      );
    default:
      return (
        <ConfirmDialog
          title="Replace what you typed?"
          yes="Replace it"
          no="Keep it"
          onNo={onClose}
          onYes={() => {
            onClose();
            onBringBack(asked.bringBack);
          }}
        >
          You have changes that are not saved. The old text would take their place.
        </ConfirmDialog>
      );
  }
}
