import { limits } from '@muster/sdk/contract';
import type { Control } from '../control/control.ts';
import { formatKey } from '../lib/token.ts';
import type { Config } from './config.ts';
import { keptKey } from './data-folder.ts';

/** The page's address with a code in its fragment, which no browser sends to a server. */
export const withCode = (url: string, code: string): string => `${url}#code=${code}`;

/**
 * A link that signs in as the admin of this service, once. Only for a service that this machine alone can reach: who
 * reads what it prints is who runs it. Null where no admin's key is known; a key file may be older than its database.
 */
export async function signInLink(
  control: Control,
  config: Config,
  address: string,
  firstKey: string | null,
): Promise<string | null> {
  if (!isLoopback(config.host)) return null;
  const { key } = config.bootstrap;
  for (const known of [firstKey, key && formatKey(key), keptKey(config.dataFolder)]) {
    const caller = known ? await control.keys.authenticate(known) : null;
    if (!known || caller?.role !== 'admin') continue;
    return withCode(
      `${address}/`,
      control.signInCodes.make(caller.keyId, limits.firstSignInCodeMinutes).code,
    );
  }
  return null;
}

export const isLoopback = (host: string): boolean => ['127.0.0.1', 'localhost', '::1'].includes(host);
