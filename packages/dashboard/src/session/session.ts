import {
  type Caller,
  ConnectionError,
  FailedPreconditionError,
  MusterClient,
  type Retry,
  type SignedIn as SignIn,
  signIn,
  signInProviders,
  UnauthenticatedError,
} from '@muster/sdk';
import { paths, tenantNamed } from '@muster/sdk/contract';
import { createContext, useContext, useSyncExternalStore } from 'react';
import { Listeners } from '../parts/model/listeners.ts';
import { connection } from './connection.ts';

/**
 * The browser keeps the session in a cookie that scripts can't read. The page knows only the session's id and sends it
 * with every request, so a tab never acts for a person who signed in later in another tab.
 */
export type Session =
  | { readonly state: 'opening' }
  | { readonly state: 'out'; readonly reason: string }
  | {
      readonly state: 'in';
      readonly id: string;
      readonly client: MusterClient;
      readonly caller: Caller;
      /** The user opened a sign-in link of another account. */
      readonly switchTo?: { readonly code: string; readonly account: string };
    };

let session: Session = { state: 'opening' };
const listeners = new Listeners();

function setSession(next: Session): void {
  session = next;
  listeners.notify();
}

export const currentSession = (): Session => session;

/** What was seen is recorded even if the page is being closed. Browsers accept only small bodies then. */
const isMark = (url: RequestInfo | URL, init?: RequestInit): boolean =>
  url === location.origin + paths.markAgents.path && String(init?.body).length < 50_000;

/** A client for one session, or for the browser's current one. */
export const clientFor = (id?: string): MusterClient =>
  new MusterClient({
    url: location.origin,
    session: id,
    fetch: (url, init) => fetch(url, { ...init, keepalive: isMark(url, init) }),
    onRetry: ({ operation }: Retry) => connection.lost(operation),
  });

/** The tabs of this browser share the session. */
const tabs = new BroadcastChannel('muster.session');

function enter({ session: { id }, caller }: SignIn): void {
  setSession({ state: 'in', id, client: clientFor(id), caller });
  tabs.postMessage('signed in');
}

/** Follows a sign-in in another tab, and handles a link that is pasted into a tab where the page is already open. */
export function startSession(): void {
  void openSession();
  tabs.addEventListener('message', () => {
    if (session.state === 'out') void resume(session.reason);
  });
  addEventListener('hashchange', () => {
    if (codeInUrl() !== null) void openSession();
  });
}

/** Signs in with the code in the URL, or resumes the browser's session. */
async function openSession(): Promise<void> {
  // The sign-in page shows it, even if this browser still has a session.
  if (refusalInUrl() !== null) return setSession({ state: 'out', reason: '' });
  const { code, isRepeated } = takeCode();
  if (code === null) return resume('');
  try {
    enter(await signIn(location.origin, { code }, { fetch: fetchToTheEnd }));
    sessionStorage.removeItem(pendingCode);
  } catch (error) {
    if (!(error instanceof ConnectionError)) sessionStorage.removeItem(pendingCode);
    const account = error instanceof FailedPreconditionError && error.metadata?.account;
    if (session.state !== 'in')
      await resume(sentence((error as Error).message), isRepeated ? newCookieMs : 0);
    if (account && session.state === 'in') setSession({ ...session, switchTo: { code, account } });
  }
}

/** Switches to the account of the sign-in link, or stays. */
export async function answerSwitch(isAccepted: boolean): Promise<void> {
  if (session.state !== 'in' || !session.switchTo) return;
  const { switchTo, ...rest } = session;
  if (isAccepted) enter(await signIn(location.origin, { code: switchTo.code, switchAccount: true }));
  else setSession(rest);
}

async function resume(reason: string, patienceMs = 0): Promise<void> {
  try {
    enter(await clientFor().session());
  } catch (error) {
    if (error instanceof UnauthenticatedError && patienceMs > 0) {
      await new Promise((resolve) => setTimeout(resolve, patienceMs));
      return resume(reason);
    }
    setSession({
      state: 'out',
      reason: error instanceof UnauthenticatedError ? reason : (error as Error).message,
    });
  }
}

/** Throws if the service rejects the key. */
export async function signInWithKey(key: string): Promise<void> {
  enter(await signIn(location.origin, { key }));
}

/** Signs out all tabs of this browser. Throws if the service is unavailable: the session then still exists. */
export async function signOut(): Promise<void> {
  if (session.state === 'in') await session.client.signOut();
  setSession({ state: 'out', reason: '' });
}

let isChecking = false;

/** A sign-in in another tab ends the session before the browser has the cookie of the new one. */
const newCookieMs = 1_000;

/**
 * Every call and stream reports its errors here. An authentication error means that the session has ended, or that a
 * person signed in again in another tab: the page then continues as that person.
 */
export function reportError(error: unknown): void {
  if (!(error instanceof UnauthenticatedError) || session.state !== 'in' || isChecking) return;
  isChecking = true;
  void resume('Your session has ended. Sign in again.', newCookieMs).finally(() => {
    isChecking = false;
  });
}

/** The code of a sign-in that the service has not answered yet. */
const pendingCode = 'muster.sign-in';

/** A reload does not cut it: the browser keeps the cookie in the reply. */
const fetchToTheEnd: typeof fetch = (url, init) => fetch(url, { ...init, keepalive: true });

/**
 * Removes the code from the URL immediately: it works once and should not be copied. A page that is reloaded before the
 * answer sends it again: either the first request was not received, or its cookie is about to arrive.
 */
function takeCode(): { readonly code: string | null; readonly isRepeated: boolean } {
  const code = codeInUrl();
  if (code === null) {
    const pending = sessionStorage.getItem(pendingCode);
    return { code: pending, isRepeated: pending !== null };
  }
  sessionStorage.setItem(pendingCode, code);
  history.replaceState(history.state, '', location.pathname + location.search);
  return { code, isRepeated: false };
}

const codeInUrl = (): string | null => new URLSearchParams(location.hash.slice(1)).get('code');

/** The providers of the tenant that the address names, and why a sign-in with one was refused. */
export async function readProviders(): Promise<Providers> {
  const tenant = tenantNamed(new URLSearchParams(location.search).get('tenant') ?? '');
  const refusal = refusalInUrl();
  if (refusal !== null) history.replaceState(history.state, '', location.pathname + location.search);
  const found = await signInProviders(location.origin, {
    ...(tenant && { tenant }),
    ...(refusal !== null && { refusal }),
  });
  const page = location.pathname === '/sign-in' ? '/' : location.pathname + location.search;
  return {
    refusal: found.refusal,
    providers: found.providers.map(({ name, title, startPath }) => ({
      ...{ name, title },
      address: `${startPath}?return=${encodeURIComponent(page)}`,
    })),
  };
}

interface Providers {
  readonly refusal: string;
  readonly providers: readonly {
    readonly name: string;
    readonly title: string;
    readonly address: string;
  }[];
}

const refusalInUrl = (): string | null => new URLSearchParams(location.hash.slice(1)).get('refusal');

const sentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;

export const useSession = (): Session => useSyncExternalStore(listeners.subscribe, currentSession);

interface SignedIn {
  readonly client: MusterClient;
  readonly caller: Caller;
}

/** The client and the caller of a signed-in page. The page of a share link provides its own. */
export const SignedInContext = createContext<SignedIn | null>(null);

export function useSignedIn(): SignedIn {
  const signedIn = useContext(SignedInContext);
  if (!signedIn) throw new Error('useSignedIn needs a SignedInContext above it');
  return signedIn;
}

export const useClient = (): MusterClient => useSignedIn().client;

/** Identifies the signed-in person, with any of their keys. Drafts are stored per person. */
export function usePerson(): string {
  const { tenant, ownerProvider, account } = useSignedIn().caller;
  return [tenant.provider, tenant.org, ownerProvider, account].join('/');
}
