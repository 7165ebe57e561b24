import { randomBytes } from 'node:crypto';
import type { Tenant } from '@muster/sdk/contract';
import type { ServiceSecret, ServiceSecrets } from '../../lib/service-secret.ts';
import type { SealedRow } from '../../store/statements/secrets.ts';
import { nothingKept, type Saved, type WriteTransaction } from './kinds/rules.ts';

/** A signing key is not stored: it is derived from the service secret and a stored nonce. `rotate` makes a new nonce. */
export function saveSigningKey({
  secrets: { current },
  write: { tenant, name, rotate },
  row: { nonce, secret_id },
}: WriteTransaction): Required<Pick<Saved, 'revealed' | 'kept'>> {
  if (nonce && !rotate) return { revealed: {}, kept: { ...nothingKept, nonce, secret_id } };
  const fresh = randomBytes(24).toString('base64url');
  return {
    revealed: { signingKey: signingKeyOf(current, tenant, name, fresh) },
    kept: { ...nothingKept, nonce: fresh, secret_id: current.id },
  };
}

const signingKeyOf = (secret: ServiceSecret, tenant: Tenant, name: string, nonce: string): string =>
  secret.hmac('integration', tenant.provider, tenant.org, name, nonce);

/** The keys that a caller may sign with. Several only if it is not recorded which service secret made the key. */
export function signingKeys(
  secrets: ServiceSecrets,
  tenant: Tenant,
  name: string,
  { nonce, secret_id }: SealedRow,
): string[] {
  if (!nonce) return [];
  const makers = secret_id === null ? secrets.all : secrets.all.filter(({ id }) => id === secret_id);
  return makers.map((secret) => signingKeyOf(secret, tenant, name, nonce));
}
