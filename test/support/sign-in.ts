import type { SignedIn, SignInCode } from '@muster/sdk/contract';
import type { Api } from './api.ts';
import { expectOk } from './expect-reply.ts';
import { type RawAnswer, sendRaw } from './raw-requests.ts';

export const codeOf = async (api: Api): Promise<string> =>
  expectOk(await api.post<SignInCode>('/v1/sign-in/code')).code;

/** Signs in with a code as a page of the service does: without a key, and with the headers that a browser adds. */
export const signInWithCode = (
  url: string,
  code: unknown,
  headers: Readonly<Record<string, string>> = {},
): Promise<RawAnswer> =>
  sendRaw(url, {
    path: '/v1/sign-in',
    headers: { 'content-type': 'application/json', origin: new URL(url).origin, ...headers },
    body: JSON.stringify({ code }),
  });

/** Signs in with a key as the sign-in page does. */
export const signInWithKey = (
  url: string,
  key: string,
  body: Record<string, unknown> = {},
  headers: Readonly<Record<string, string>> = {},
): Promise<RawAnswer> =>
  sendRaw(url, {
    path: '/v1/sign-in',
    headers: {
      'content-type': 'application/json',
      origin: new URL(url).origin,
      authorization: `Bearer ${key}`,
      ...headers,
    },
    body: JSON.stringify(body),
  });

/** A browser with a session: it sends its cookie and, where it may, its origin. */
export interface SignedInBrowser extends SignedIn {
  readonly cookie: string;
  /** Without a body a GET. A header that is `undefined` is left out. */
  send(
    path: string,
    body?: unknown,
    headers?: Readonly<Record<string, string | undefined>>,
  ): Promise<RawAnswer>;
}

export const cookieIn = (answer: RawAnswer): string =>
  (answer.headers.get('set-cookie') ?? '').split(';')[0] ?? '';

export async function browserOf(url: string, key: string, body = {}): Promise<SignedInBrowser> {
  const answer = await signInWithKey(url, key, body);
  return signedIn(url, cookieIn(answer), expectOk(answer) as SignedIn);
}

export const signedIn = (url: string, cookie: string, reply: SignedIn): SignedInBrowser => ({
  ...reply,
  cookie,
  send: (path, body, headers = {}) => {
    const all = { cookie, origin: new URL(url).origin, 'content-type': 'application/json', ...headers };
    const sent = Object.fromEntries(
      Object.entries(all).filter((entry): entry is [string, string] => entry[1] !== undefined),
    );
    if (body === undefined) return sendRaw(url, { method: 'GET', path, headers: sent });
    return sendRaw(url, { path, headers: sent, body: JSON.stringify(body) });
  },
});
