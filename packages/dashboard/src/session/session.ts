import {
  type Caller,
  FailedPreconditionError,
  MusterClient,
  type Retry,
  type SignedIn,
  signIn,
  UnauthenticatedError,
} from '@muster/sdk';
import { connection } from '../live/connection.ts';

/**
 * Who is signed in. The browser keeps the session in a cookie that no script can read; the page knows only its id, and
 * names it in every request. So a tab never acts for somebody who signed in later in another tab of this browser.
 */
export type Session =
  | { readonly state: 'opening' }
  | { readonly state: 'out'; readonly why: string }
  | {
      readonly state: 'in';
      readonly id: string;
      readonly client: MusterClient;
      readonly caller: Caller;
      /** A link was opened that signs in as another account. */
      readonly offer?: { readonly code: string; readonly account: string };
    };

let session: Session = { state: 'opening' };
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

/** A client of one session, or of whichever this browser has. */
export const clientFor = (id?: string): MusterClient =>
  new MusterClient({
    url: location.origin,
    session: id,
    onRetry: ({ operation }: Retry) => connection.lost(operation),
  });

const enter = ({ session: { id }, caller }: SignedIn): void =>
  become({ state: 'in', id, client: clientFor(id), caller });

/** On the first look at the page, and whenever an address with a code is pasted into the tab that shows it already. */
export function startSession(): void {
  void openSession();
  addEventListener('hashchange', () => {
    if (codeInAddress() !== null) void openSession();
  });
}

/** With the code in the address of the page, or the session that the browser has. */
async function openSession(): Promise<void> {
  const code = takeCode();
  if (code !== undefined) {
    try {
      return enter(await signIn(location.origin, { code }));
    } catch (error) {
      const account = error instanceof FailedPreconditionError && error.metadata?.account;
      if (session.state !== 'in') await resume(sentence((error as Error).message));
      if (account && session.state === 'in') become({ ...session, offer: { code, account } });
      return;
    }
  }
  await resume('');
}

/** Takes the account of the link that was opened, or stays. */
export async function answerOffer(isTaken: boolean): Promise<void> {
  if (session.state !== 'in' || !session.offer) return;
  const { offer, ...rest } = session;
  if (isTaken) enter(await signIn(location.origin, { code: offer.code, switchAccount: true }));
  else become(rest);
}

async function resume(why: string): Promise<void> {
  try {
    enter(await clientFor().session());
  } catch (error) {
    become({ state: 'out', why: error instanceof UnauthenticatedError ? why : (error as Error).message });
  }
}

/** Throws when the service does not take the key. */
export async function signInWithKey(key: string): Promise<void> {
  enter(await signIn(location.origin, { key }));
}

/** Everywhere in this browser. Throws when the service can't be reached: the session is still there then. */
export async function signOut(): Promise<void> {
  if (session.state === 'in') await session.client.signOut();
  become({ state: 'out', why: '' });
}

let isChecking = false;

/**
 * For whatever a call or a stream was refused with. The session has ended, or somebody has signed in again in another
 * tab: then the page goes on as that person.
 */
export function noteRefusal(error: unknown): void {
  if (!(error instanceof UnauthenticatedError) || session.state !== 'in' || isChecking) return;
  isChecking = true;
  void resume('Your session has ended. Sign in again.').finally(() => {
    isChecking = false;
  });
}

/** The code is removed from the address immediately: it is good for one sign-in, and nobody should copy it. */
function takeCode(): string | undefined {
  const code = codeInAddress() ?? undefined;
  if (code !== undefined) history.replaceState(history.state, '', location.pathname + location.search);
  return code;
}

const codeInAddress = (): string | null => new URLSearchParams(location.hash.slice(1)).get('code');

const sentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
