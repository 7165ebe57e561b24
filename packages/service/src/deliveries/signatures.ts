import { createHmac, type Hmac, hash, timingSafeEqual } from 'node:crypto';
import type { Headers } from '../work/host-error.ts';

/** How a delivery is signed. */
export interface SignatureCheck {
  update(chunk: Buffer): void;
  /** Whether the signature in the headers is that of what was received. */
  isValid(): boolean;
}

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

/** The secret itself is sent. */
export function tokenCheck(token: string, secrets: readonly string[]): SignatureCheck | null {
  const usable = secrets.filter((secret) => secret !== '');
  if (token === '' || usable.length === 0) return null;
  // Digests have the same length.
  const digestOf = (text: string) => hash('sha256', text, 'buffer');
  const isValid = usable.map((secret) => isSame(digestOf(secret), digestOf(token))).includes(true);
  return { update: () => {}, isValid: () => isValid };
}

/** What the keys of Standard Webhooks begin with; the rest is base64. */
export const keyPrefix = 'whsec_';
/** A signed delivery that is older is refused: the ledger of deliveries does not reach back forever. */
const mostAgeMs = 5 * 60_000;
const mostSignatures = 20;

/** As Standard Webhooks describes it: over the id, the time and the body, maybe by several keys. */
export function standardCheck(headers: Headers, secrets: readonly string[]): SignatureCheck | null {
  const id = headers['webhook-id'] ?? '';
  const timestamp = headers['webhook-timestamp'] ?? '';
  const ageMs = Date.now() - Number(timestamp) * 1000;
  if (id === '' || !/^\d{1,12}$/.test(timestamp) || Math.abs(ageMs) > mostAgeMs) return null;
  const received = (headers['webhook-signature'] ?? '')
    .split(' ', mostSignatures)
    .filter((part) => part.startsWith('v1,'))
    .map((part) => Buffer.from(part.slice(3), 'base64'));
  const keys = secrets.map((secret) => Buffer.from(secret.replace(keyPrefix, ''), 'base64'));
  return hmacCheck(keys, received, `${id}.${timestamp}.`);
}

/** In constant time for values of the same length. */
const isSame = (a: Buffer, b: Buffer): boolean => a.length === b.length && timingSafeEqual(a, b);
