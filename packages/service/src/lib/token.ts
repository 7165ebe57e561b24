import { hash, randomBytes, timingSafeEqual } from 'node:crypto';

/** API keys: `mst_<key_id>.<secret>`. Only the SHA-256 of the secret is ever stored. */
export interface KeyParts {
  readonly keyId: string;
  readonly secret: string;
}

const form = /^mst_([A-Za-z0-9-]{1,80})\.([A-Za-z0-9_-]{20,128})$/;

export function parseKey(key: string): KeyParts | null {
  const [, keyId, secret] = form.exec(key) ?? [];
  return keyId && secret ? { keyId, secret } : null;
}

export const formatKey = ({ keyId, secret }: KeyParts): string => `mst_${keyId}.${secret}`;

export const mintKey = (): KeyParts => ({
  keyId: randomBytes(8).toString('hex'),
  secret: randomBytes(32).toString('base64url'),
});

export const hashSecret = (secret: string): Buffer => hash('sha256', secret, 'buffer');

/** In constant time, so that a guess can't be improved by measuring. */
export const matchesHash = (secret: string, expected: Buffer): boolean => {
  const candidate = hashSecret(secret);
  return candidate.length === expected.length && timingSafeEqual(candidate, expected);
};

/** A digest of a request's content, to distinguish a retry from another request with the same id. */
export const digestOf = (content: unknown): string => hash('sha256', canonical(content), 'base64url');

/** JSON in a canonical form: keys sorted, empty fields removed. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  let fields = '';
  const object = value as Record<string, unknown>;
  const keys = Object.keys(object).filter((key) => !isEmpty(object[key]));
  for (const key of keys.sort()) fields += `${fields && ','}${JSON.stringify(key)}:${canonical(object[key])}`;
  return `{${fields}}`;
}

const isEmpty = (field: unknown): boolean =>
  field === undefined || field === null || field === '' || (Array.isArray(field) && field.length === 0);
