import type { SignedIn } from '../contract/sign-in.ts';
import { Connection, type ConnectionOptions } from './connection.ts';
import type { StreamSettings } from './inputs.ts';

export interface SignInSettings extends StreamSettings, Pick<ConnectionOptions, 'fetch'> {}

const timeoutMs = 30_000;

/**
 * For a page of the service: signs this browser in with a key, the secret of a share link, or a one-time code. The
 * browser keeps the session in a cookie that no script can read; a client without a key uses it. It is sent once,
 * because a code is good once: after a lost reply only another code helps.
 */
export function signIn(
  url: string,
  credential:
    | { readonly code: string; readonly switchAccount?: boolean }
    | { readonly key: string; readonly share?: boolean },
  { fetch, signal }: SignInSettings = {},
): Promise<SignedIn> {
  const { apiKey, body } =
    'key' in credential
      ? { apiKey: credential.key, body: { share: credential.share ?? false } }
      : {
          apiKey: undefined,
          body: { code: credential.code, switchAccount: credential.switchAccount ?? false },
        };
  const connection = new Connection({ url, fetch, apiKey });
  return connection.ask('signIn', { body, signal, timeoutMs });
}
