import type { SignInCode } from '@muster/sdk/contract';
import { expectOk } from './answers.ts';
import type { Api } from './api.ts';
import { type RawAnswer, sendRaw } from './raw.ts';

export const codeOf = async (api: Api): Promise<string> =>
  expectOk(await api.post<SignInCode>('/v1/sign-in/code')).code;

/** Gives a code back as a page of the service does: without a key, and with the headers that a browser adds. */
export const giveBack = (
  url: string,
  code: unknown,
  headers: Readonly<Record<string, string>> = {},
): Promise<RawAnswer> =>
  sendRaw(url, {
    path: '/v1/sign-in',
    headers: { 'content-type': 'application/json', origin: new URL(url).origin, ...headers },
    body: JSON.stringify({ code }),
  });
