import { createHmac, type Hmac, timingSafeEqual } from 'node:crypto';
import type { SignatureCheck } from './host.ts';

/** A signature that is the HMAC-SHA256 of the body; it holds with any of the keys and is any of those received. */
export function hmacCheck(
  keys: readonly (string | Buffer)[],
  received: readonly Buffer[],
  prefix = '',
): SignatureCheck | null {
  const usable = keys.filter(({ length }) => length > 0);
  if (usable.length === 0 || received.length === 0) return null;
  const digests: readonly Hmac[] = usable.map((key) => createHmac('sha256', key).update(prefix));
  return {
    update(chunk) {
      for (const digest of digests) digest.update(chunk);
    },
    isValid: () =>
      digests
        .map((digest) => digest.digest())
        .flatMap((digest) => received.map((bytes) => isSame(digest, bytes)))
        .includes(true),
  };
}

/** In constant time for values of the same length. */
export const isSame = (a: Buffer, b: Buffer): boolean => a.length === b.length && timingSafeEqual(a, b);
