import type { BrowserSession } from '@muster/sdk';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Button } from '../parts/button.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { Problem } from '../parts/problem.tsx';
import { Age, Moment } from '../parts/times.tsx';
import { browserName } from './browser-name.ts';
import { signOut } from './session.ts';
import { useClient, useSession } from './use-session.ts';
import './sessions-dialog.css';

const sessionsKey = ['sessions'];

/** Where this account is signed in with a browser. */
export function SessionsDialog({ onClose }: { readonly onClose: () => void }) {
  const client = useClient();
  const { data, error } = useQuery({
    queryKey: sessionsKey,
    queryFn: ({ signal }) => client.listSessions({}, { signal }),
  });
  return (
    <Dialog title="Sessions" onClose={onClose}>
      <p>Browsers in which you are signed in. A session ends after 12 hours without use, or after 7 days.</p>
      <Problem error={error} />
      <ul className="sessions" aria-label="Sessions">
        {data?.entries.map((entry) => (
          <SessionRow key={entry.id} entry={entry} />
        ))}
      </ul>
    </Dialog>
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
