import type { BrowserSession } from '@muster/sdk';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Button } from '../parts/button.tsx';
import { Dialog, DialogActions } from '../parts/dialog.tsx';
import { browserName } from '../parts/model/text.ts';
import { Problem } from '../parts/problem.tsx';
import { Age, Moment } from '../parts/times.tsx';
import { KeysSection } from './keys-section.tsx';
import { answerSwitch, signOut, useClient, useSession, useSignedIn } from './session.ts';
import './session.css';

const sessionsKey = ['sessions'];

export const SessionsDialog = ({ onClose }: { readonly onClose: () => void }) => (
  <Dialog title="Sessions and keys" onClose={onClose}>
    <h3>Sessions</h3>
    <OwnSessions />
    <KeysSection />
  </Dialog>
);

/** The browsers in which this account is signed in. */
export function OwnSessions() {
  const client = useClient();
  const { data, error } = useQuery({
    queryKey: sessionsKey,
    queryFn: ({ signal }) => client.listSessions({}, { signal }),
  });
  return (
    <>
      <p>Browsers where you are signed in. A session ends after 12 hours without use, or after 7 days.</p>
      <Problem error={error} />
      <ul className="sessions stack" aria-label="Sessions">
        {data?.entries.map((entry) => (
          <SessionRow key={entry.id} entry={entry} />
        ))}
      </ul>
    </>
  );
}

function SessionRow({ entry }: { readonly entry: BrowserSession }) {
  const client = useClient();
  const queryClient = useQueryClient();
  const session = useSession();
  const isThis = session.state === 'in' && session.id === entry.id;
  const { mutate, error, isPending } = useMutation({
    mutationFn: async () => {
      if (isThis) await signOut();
      else await client.revokeSession(entry.id);
    },
    onSuccess: () => queryClient.invalidateQueries({ queryKey: sessionsKey }),
  });
  const name = browserName(entry.userAgent);
  return (
    <li>
      <div className="session-row">
        <span>
          {name} {isThis && <strong>This browser</strong>}
          <small>
            signed in <Moment at={entry.createdAt} /> with <code>{entry.keyId}</code>
            {!isThis && (
              <>
                , last used <Age since={entry.lastSeenAt} /> ago
              </>
            )}
          </small>
        </span>
        <Button disabled={isPending} aria-label={`Sign out ${name}`} onClick={() => mutate()}>
          Sign out
        </Button>
      </div>
      <Problem error={error} />
    </li>
  );
}

/** Asks before a sign-in link switches accounts: the link may come from another person. */
export function SwitchDialog() {
  const session = useSession();
  const { caller } = useSignedIn();
  const [error, setError] = useState<unknown>(null);
  if (session.state !== 'in' || !session.switchTo) return null;
  const answer = (isAccepted: boolean) => void answerSwitch(isAccepted).catch(setError);
  return (
    <Dialog title="Switch account?" onClose={() => answer(false)}>
      <p>
        The link that you opened signs in as <strong>{session.switchTo.account}</strong>. You are signed in as{' '}
        <strong>{caller.account}</strong>. Switch only if you created this link yourself.
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
