import { useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';
import { usePerson, useSignedIn } from '../session/session.ts';

/** Loaded only where notifications were turned on. */
export function useRenewedNotifications(): void {
  const { client } = useSignedIn();
  const person = usePerson();
  const queries = useQueryClient();
  useEffect(() => {
    if (localStorage.getItem(`muster.push ${person}`) === null) return;
    // Without them the page works as well; the page of notifications shows that they are off.
    void import('./model/push.ts')
      .then(async ({ renew, pushKey }) => {
        await renew(client, person);
        await queries.invalidateQueries({ queryKey: pushKey });
      })
      .catch(() => {});
  }, [client, person, queries]);
}
