import type { ReactNode } from 'react';
import { Button } from '../parts/button.tsx';
import { Dialog, DialogActions } from '../parts/dialog.tsx';

/** Asks before something that was typed is lost. */
export const ConfirmDialog = ({
  title,
  children,
  yes,
  no,
  onYes,
  onNo,
}: {
  readonly title: string;
  readonly children: ReactNode;
  readonly yes: string;
  readonly no: string;
  readonly onYes: () => void;
  readonly onNo: () => void;
}) => (
  <Dialog title={title} onClose={onNo}>
    <p>{children}</p>
    <DialogActions>
      <Button look="danger" onClick={onYes}>
        {yes}
      </Button>
      <Button look="primary" onClick={onNo}>
        {no}
      </Button>
    </DialogActions>
  </Dialog>
);
