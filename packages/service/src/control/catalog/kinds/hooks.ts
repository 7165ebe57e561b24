import { randomBytes } from 'node:crypto';

/**
 * Where others send their deliveries: below the address of the service, an id that nobody can guess and that never
 * changes. Older documents have a whole URL instead of the id, with the address that the service had then.
 */
export const hookUrl = (publicUrl: string, idOrUrl: string): string =>
  `${publicUrl}/hooks/${idOrUrl.slice(idOrUrl.lastIndexOf('/') + 1)}`;

export const newHookId = (): string => randomBytes(24).toString('base64url');
