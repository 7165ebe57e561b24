import type { ListedKey } from '@muster/sdk';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Button } from '../parts/button.tsx';
import { Problem } from '../parts/problem.tsx';
import { Age, Moment } from '../parts/times.tsx';
import { useClient } from './session.ts';

const keysKey = ['keys'];

export const KeysSection = () => (
  <section className="keys-section" aria-labelledby="keys-title">
    <h3 id="keys-title">Keys</h3>
    <OwnKeys />
  </section>
);

/** The keys of this account: tokens, command lines and sign-ins. */
export function OwnKeys() {
  const client = useClient();
  const { data, error } = useQuery({
    queryKey: keysKey,
    queryFn: async ({ signal }) => {
      const keys: ListedKey[] = [];
      for await (const key of client.keys({}, { signal })) keys.push(key);
      return keys.sort((a, b) => ((a.lastUsedAt ?? '') > (b.lastUsedAt ?? '') ? -1 : 1));
    },
  });
  return (
    <>
      <p>Command lines that signed in, and tokens of the catalog. The sessions of a key end with it.</p>
      <Problem error={error} />
      <ul className="sessions stack" aria-label="Keys">
        {data?.map((entry) => (
          <KeyRow key={entry.keyId} entry={entry} />
        ))}
      </ul>
    </>
  );
}

const kindNames: Readonly<Record<string, string>> = {
  login: 'Command line',
  token: 'Token',
  'sign-in': 'Sign-in',
};

function KeyRow({ entry }: { readonly entry: ListedKey }) {
  const client = useClient();
  const queryClient = useQueryClient();
  const [isAsking, setAsking] = useState(false);
  const { mutate, error, isPending } = useMutation({
    mutationFn: () => client.revokeKey(entry.keyId),
    onSuccess: () => queryClient.invalidateQueries({ queryKey: keysKey }),
  });
  const { keyId, kind, name, role, lastUsedAt, expiresAt, isCurrent } = entry;
  const title = `${kindNames[kind] ?? kind} ${name || entry.client}`.trim();
  return (
    <li>
      <div className="session-row">
        <span>
          {title} {isCurrent && <strong>This session</strong>}
          <small>
            <code>{keyId}</code>, {role}
            {lastUsedAt && (
              <>
                , last used within <Age since={lastUsedAt} />
              </>
            )}
            {expiresAt && (
              <>
                , expires <Moment at={expiresAt} />
              </>
            )}
          </small>
        </span>
        {isAsking ? (
          <Button
            look="danger"
            autoFocus
            disabled={isPending}
            onBlur={() => setAsking(false)}
            onClick={() => mutate()}
          >
            {isCurrent ? 'Revoke and sign out' : kind === 'token' ? 'Delete token' : 'Revoke now'}
          </Button>
        ) : (
          <Button aria-label={`Revoke ${title}`} onClick={() => setAsking(true)}>
            Revoke
          </Button>
        )}
      </div>
      <Problem error={error} />
    </li>
  );
}
