import { Connection, type ConnectionOptions } from './connection.ts';
import type { StreamSettings } from './muster-client.ts';

export interface SignInSettings extends StreamSettings, Pick<ConnectionOptions, 'fetch'> {}

const timeoutMs = 30_000;

/**
 * For a page of the service that has no key yet: the key of whoever asked for this code. It is sent once, because a
 * code is good once: after a lost reply only another code helps.
 */
export async function signIn(
  url: string,
  code: string,
  { fetch, signal }: SignInSettings = {},
): Promise<string> {
  const connection = new Connection({ url, fetch });
  const { key } = await connection.ask('signIn', { body: { code }, signal, timeoutMs });
  return key;
}
