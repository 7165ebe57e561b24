import type { Caller, MusterClient } from '@muster/sdk';
import { createContext, useContext, useSyncExternalStore } from 'react';
import { currentSession, type Session, subscribeSession } from './session.ts';

export const useSession = (): Session => useSyncExternalStore(subscribeSession, currentSession);

interface SignedIn {
  readonly client: MusterClient;
  readonly caller: Caller;
}

/** What everything behind the sign-in works with; a share link's page gives its own. */
export const SignedInContext = createContext<SignedIn | null>(null);

export function useSignedIn(): SignedIn {
  const signedIn = useContext(SignedInContext);
  if (!signedIn) throw new Error('this part of the page is behind the sign-in');
  return signedIn;
}

export const useClient = (): MusterClient => useSignedIn().client;

/** Who is signed in, whichever of their keys it is with. What was begun and not sent is kept for nobody else. */
export function usePerson(): string {
  const { tenant, ownerProvider, account } = useSignedIn().caller;
  return [tenant.provider, tenant.org, ownerProvider, account].join('/');
}
