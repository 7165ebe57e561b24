import { useState } from 'react';
import { Button } from '../parts/button.tsx';
import { Dialog, DialogActions } from '../parts/dialog.tsx';
import { Problem } from '../parts/problem.tsx';
import { answerOffer } from './session.ts';
import { useSession, useSignedIn } from './use-session.ts';

/** Asks before a link with a code signs in as another account: the link may have come from somebody else. */
export function SwitchDialog() {
  const session = useSession();
  const { caller } = useSignedIn();
  const [error, setError] = useState<unknown>(null);
  if (session.state !== 'in' || !session.offer) return null;
  const answer = (isTaken: boolean) => void answerOffer(isTaken).catch(setError);
  return (
    <Dialog title="Switch account?" onClose={() => answer(false)}>
      <p>
        The link that you opened signs in as <strong>{session.offer.account}</strong>. You are signed in as{' '}
        <strong>{caller.account}</strong>. Switch only if you made this link yourself.
      </p>
      <Problem error={error} />
      <DialogActions>
        <Button onClick={() => answer(true)}>Switch account</Button>
        <Button look="primary" onClick={() => answer(false)}>
          Stay signed in as {caller.account}
        </Button>
      </DialogActions>
    </Dialog>
  );
}
