import { type Caller, MusterClient, type Retry, signIn, UnauthenticatedError } from '@muster/sdk';
import { connection } from '../live/connection.ts';

/**
 * Who is signed in. The key is kept in memory, so it is gone with the page; only if asked does it stay in the tab's own
 * session storage, which a reload survives and the closing of the tab does not. It is never part of an address.
 */
export type Session =
  | { readonly state: 'opening' }
  | { readonly state: 'out'; readonly why: string }
  | {
      readonly state: 'in';
      readonly client: MusterClient;
      readonly caller: Caller;
      readonly isKept: boolean;
    };

const storageKey = 'muster.key';

let session: Session = { state: 'opening' };
let key = '';
const listeners = new Set<() => void>();

function become(next: Session): void {
  session = next;
  for (const listener of listeners) listener();
}

export const subscribeSession = (listener: () => void): (() => void) => {
  listeners.add(listener);
  return () => listeners.delete(listener);
};
export const currentSession = (): Session => session;

export const clientFor = (apiKey: string): MusterClient =>
  new MusterClient({
    url: location.origin,
    apiKey,
    onRetry: ({ operation }: Retry) => connection.lost(operation),
  });

/** On the first look at the page, and whenever an address with a code is pasted into the tab that shows it already. */
export function startSession(): void {
  void openSession();
  addEventListener('hashchange', () => {
    if (codeInAddress() !== null) void openSession();
  });
}

/** With the code in the address of the page, or the key that the tab kept. */
async function openSession(): Promise<void> {
  const code = takeCode();
  if (code !== undefined) {
    try {
      return await signInWithKey(await signIn(location.origin, code), false);
    } catch (error) {
      if (session.state === 'in') return;
      if (!kept()) return become({ state: 'out', why: sentence((error as Error).message) });
    }
  }
  const remembered = kept();
  if (remembered === null) return become({ state: 'out', why: '' });
  await signInWithKey(remembered, true).catch((error: Error) => {
    if (error instanceof UnauthenticatedError) signOut('The key that this tab kept no longer works.');
    else become({ state: 'out', why: error.message });
  });
}

/** Throws when the service does not take the key. */
export async function signInWithKey(apiKey: string, isKept: boolean): Promise<void> {
  const client = clientFor(apiKey);
  const caller = await client.whoami();
  if (['runner', 'agent', 'share'].includes(caller.role)) {
    throw new Error(`This is the key of a machine (${caller.role}). Sign in with a person's key.`);
  }
  key = apiKey;
  become({ state: 'in', client, caller, isKept });
  keepInTab(isKept);
}

export function keepInTab(isKept: boolean): void {
  if (isKept) sessionStorage.setItem(storageKey, key);
  else sessionStorage.removeItem(storageKey);
  if (session.state === 'in' && session.isKept !== isKept) become({ ...session, isKept });
}

export function signOut(why = ''): void {
  key = '';
  sessionStorage.removeItem(storageKey);
  become({ state: 'out', why });
}

/** For whatever a call or a stream was refused with: a key that has ended ends the session. */
export function noteRefusal(error: unknown): void {
  if (error instanceof UnauthenticatedError && session.state === 'in')
    signOut('Your key has expired or was revoked.');
}

const kept = (): string | null => sessionStorage.getItem(storageKey);

/** The code leaves the address at once: it is good for one sign-in, and nobody should copy it. */
function takeCode(): string | undefined {
  const code = codeInAddress() ?? undefined;
  if (code !== undefined) history.replaceState(history.state, '', location.pathname + location.search);
  return code;
}

const codeInAddress = (): string | null => new URLSearchParams(location.hash.slice(1)).get('code');

const sentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
